/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * setup.h - what fio asks before a job begins, in the parent process (with create_serialize=0 in
 * the job's own process, after init): the sizes of files, and to lay out files that a job wants to
 * read and that are missing or too short.
 *
 * A job uses none of the paths that are opened here. They are kept from file to file, until a file
 * needs another pool or setup_leave() is called: before each fork, and at each job's and process's
 * end.
 */
#pragma once

#include "fio.h"

/* fio's get_file_size and prepopulate_file. 0, or 1 with td's error set and a line logged. */
int setup_file_size(struct thread_data *td, struct fio_file *f);
int setup_prepopulate(struct thread_data *td, struct fio_file *f);

/* Closes the kept paths, so that servers keep no state of the setup while jobs run. */
void setup_leave(void);

/* fio's unlink_file and invalidate, for a job that has not begun. 0 or a positive errno. */
int setup_unlink(struct thread_data *td, struct fio_file *f);
int setup_invalidate(struct thread_data *td, struct fio_file *f);
