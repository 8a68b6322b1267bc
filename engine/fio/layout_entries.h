/* SPDX-License-Identifier: GPL-2.0-only */
/* layout_entries.h - makes the entries that a metadata job needs and that are not there yet. */
#pragma once

#include "nfs/meta.h"
#include "group/path.h"
#include "fio.h"

/*
 * Makes the directories that are missing, looks the entries from `first` to before `end` below
 * directory `name` up, and makes those that are missing by `make`, over all the given paths at
 * once, as many at a time as the job has I/O in flight. The paths' terms say where they lie, and
 * whether any may be made: where not, a missing one is -ENOENT. 0 or a negative errno, logged
 * (-EINTR: the run was stopped).
 */
int layout_entries(struct thread_data *td, struct path **paths, uint32_t path_count,
		   const char *name, uint64_t first, uint64_t end, enum meta_op make);
