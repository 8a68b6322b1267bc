/* SPDX-License-Identifier: GPL-2.0-only */
/* job_io.h - the way of an I/O: from fio into pieces, over the connections, and back. */
#ifndef NFSMULTI_JOB_IO_H
#define NFSMULTI_JOB_IO_H

#include "job.h"

/* fio's queue(). Nothing is sent yet. */
enum fio_q_status job_queue(struct job *job, struct io_u *io_u);

/* fio's commit(), after each I/O that it queues: sends what should not wait for getevents(). */
void job_commit(struct job *job);

/*
 * fio's getevents(): sends what was queued, waits until at least `min` I/Os are complete, and says
 * how many are: all of them, `max` is a hint. `timeout` NULL: no limit. A negative errno where
 * fewer than `min` are left to wait for.
 */
int job_getevents(struct job *job, unsigned int min, unsigned int max,
		  const struct timespec *timeout);

/* Takes the next complete I/O out: job_getevents() has counted it. */
struct io_u *job_event(struct job *job);

/*
 * Waits for everything outstanding, where fio has stopped to: at the end of a replayed log it
 * leaves its I/O in flight. What fails then fails the job. fio's buffers may go afterwards.
 */
void job_drain(struct job *job);

/* Why an I/O of this thread's job failed, as text to be freed. NULL: out of memory. */
char *job_error_details(const struct io_u *io_u);

/* Submits a COMMIT of a file on a path, by an idle io. What it ends with goes to `owner`, a request
 * or NULL: job_hold.c. */
void job_commit_file(struct job *job, struct conn_io *io, uint32_t path, uint32_t file,
		     struct request *owner);

/* Makes one file durable and waits for that. 0 or a negative errno, logged. */
int job_sync_file(struct job *job, uint32_t file);

#endif
