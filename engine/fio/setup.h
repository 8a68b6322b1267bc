/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * setup.h - what fio calls before a job begins, in the parent process (with create_serialize=0 in
 * the job's own process, after init): to find the sizes of files, and to lay out files that a job
 * wants to read and that are missing or too short.
 *
 * The setup keeps paths of its own open until a file needs others, or setup_leave() closes them:
 * before each fork; when a job begins, opens a file or ends; and at a process's end.
 */
#pragma once

#include "fio.h"
#include "group/path.h"
#include "nfs/meta.h"

/* fio's get_file_size and prepopulate_file. 0, or 1 with td's error set and a line logged. */
int setup_file_size(struct thread_data *td, struct fio_file *f);
int setup_prepopulate(struct thread_data *td, struct fio_file *f);

/* Closes the kept paths, so that servers keep no state of the setup while jobs run. */
void setup_leave(void);

/* fio's unlink_file and invalidate, for a job that has not begun. 0 or a positive errno. */
int setup_unlink(struct thread_data *td, struct fio_file *f);
int setup_invalidate(struct thread_data *td, struct fio_file *f);

/* --- layout.c: makes or checks what a job needs --- */

/*
 * Fills [from, to) of `name` with data as fio's options shape it, over all the given paths at once,
 * and makes it durable. 0 or a negative errno, logged (-EINTR: the run was stopped).
 */
int layout_write(struct thread_data *td, struct path **paths, uint32_t path_count, const char *name,
		 uint64_t from, uint64_t to);

/*
 * Makes missing directories below directory `name`, looks up the entries from `first` to before
 * `end`, and makes missing ones by `make`: over all the given paths, `iodepth` at once, at least
 * 16 and at most 1024. The paths' terms say where entries lie, and whether any may be made;
 * if not, a missing entry is -ENOENT. 0 or a negative errno, logged (-EINTR: the run was stopped).
 */
int layout_entries(struct thread_data *td, struct path **paths, uint32_t path_count,
		   const char *name, uint64_t first, uint64_t end, enum meta_op make);

/*
 * meta_verify=1: lists each directory below directory `name` that holds entries, over all the given
 * paths at once, `iodepth` directories at a time, and looks for the names of entries `first` to
 * `end` - 1. Creates nothing. 0 or a negative errno, logged: -ENOENT where an entry is missing,
 * -EEXIST where one is there twice, -EINTR where the run was stopped.
 */
int verify_entries(struct thread_data *td, struct path **paths, uint32_t path_count,
		   const char *name, uint64_t first, uint64_t end);
