/* SPDX-License-Identifier: GPL-2.0-only */
/* layout.h - makes what a job needs and is not there yet: the part of a file that it wants to read,
 * or the entries of a metadata job. */
#pragma once

#include "group/path.h"
#include "nfs/meta.h"
#include "fio.h"

/*
 * Fills [from, to) of `name` with data as fio's options shape it, over all the given paths at once,
 * and makes it durable. 0 or a negative errno, logged (-EINTR: the run was stopped).
 */
int layout_write(struct thread_data *td, struct path **paths, uint32_t path_count, const char *name,
		 uint64_t from, uint64_t to);

/*
 * Makes missing directories below directory `name`, looks up the entries from `first` to before
 * `end`, and makes missing ones by `make`: over all the given paths at once, as many at a time as
 * the job has I/O in flight. The paths' terms say where entries lie, and whether any may be made;
 * if not, a missing entry is -ENOENT. 0 or a negative errno, logged (-EINTR: the run was stopped).
 */
int layout_entries(struct thread_data *td, struct path **paths, uint32_t path_count,
		   const char *name, uint64_t first, uint64_t end, enum meta_op make);
