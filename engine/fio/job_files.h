/* SPDX-License-Identifier: GPL-2.0-only */
/* job_files.h - begins and ends a job; opens and closes its files on all of its paths. */
#pragma once

#include "job.h"

/* 0 or a negative errno, logged. Sets td->io_ops_data to the job, on success only. */
int job_open(struct thread_data *td);

/* Makes the files that are still open durable, writes the statistics and frees the job. `job` may
 * be NULL. */
void job_close(struct job *job);

/* 0 or a negative errno, logged. */
int job_open_file(struct job *job, struct fio_file *f);

/* Makes all written data of a file durable, and closes it. 0 or a negative errno, logged. */
int job_close_file(struct job *job, struct fio_file *f);

/* Closes files that fio left open because they had I/O in flight. A failure fails the job. */
void job_close_left_open(struct job *job);

/* Removes a file; an absent file is no error. 0 or a negative errno, logged. */
int job_unlink(struct job *job, struct fio_file *f);

/* Drops a file from the mounts' caches. 0 or a negative errno, logged. */
int job_invalidate(struct job *job, struct fio_file *f);

/* --- job_stats.c: what connections and metadata operations did --- */

/*
 * Appends JSON lines to stats_file=: one per connection, kind of metadata operation, arrival clock
 * and message, one for rx_timestamps=. Logs a summary, with a line per kind if there are several.
 */
void job_stats_report(struct job *job);

/*
 * conn_job.ticked(): once a second writes a JSON line per path to the file that live_file= names,
 * with a dot and the job's number appended. A failure is logged once, and the job goes on without
 * the file.
 */
void job_stats_live(void *job);
