/* SPDX-License-Identifier: GPL-2.0-only */
/* verify_entries.h - meta_verify=1: whether all entries are there that a metadata job is to read.
 */
#pragma once

#include "group/path.h"
#include "fio.h"

/*
 * Lists each directory below directory `name` that holds entries, over all the given paths at once,
 * as many at a time as the job has I/O in flight, and looks for the names of entries `first` to
 * `end` - 1. Nothing is made. 0 or a negative errno, logged: -ENOENT where one is missing, -EEXIST
 * where one is there twice, -EINTR where the run was stopped.
 */
int verify_entries(struct thread_data *td, struct path **paths, uint32_t path_count,
		   const char *name, uint64_t first, uint64_t end);
