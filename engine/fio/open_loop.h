/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * open_loop.h - connects a job's arrival clock (stats/arrivals.h, arrival_rate=) to fio.
 *
 * fio keeps an I/O that is not due (FIO_Q_BUSY), so that the engine has nothing unsent when the run
 * ends. The engine sets start_time to when the I/O was due, and issue_time to when it was sent. So
 * fio's slat is the lag, clat is the service time, and lat is the response time that a user would
 * see.
 *
 * All instants are by fio's clock, fio_gettime(), which need not be CLOCK_MONOTONIC.
 */
#pragma once

#include "fio.h"

#include "stats/arrivals.h"

struct open_loop_io {
	uint64_t due; /* the instant at which the I/O was due; 0: it was sent at once */
	uint64_t lag; /* nanoseconds from `due` until it was sent */
};

struct open_loop {
	const struct thread_data *td;
	struct arrivals arrivals;
	uint64_t origin;	   /* when the first schedule began */
	uint64_t started;	   /* td->start, as follow_fio() last saw it */
	bool filled;		   /* the latest I/O has filled iodepth */
	bool over;		   /* the job is ending: later arrivals do not count as dropped */
	struct open_loop_io ios[]; /* by io_u->index */
};

/* Refuses options that would make I/Os wait for replies, or the figures wrong. 0 or a negative
 * errno, logged. */
int open_loop_check(const struct thread_data *td);

/* For a job with arrival_rate= or arrival_bw=, called by the job's thread. Logs the options that
 * good figures need and the job lacks. NULL: out of memory. */
struct open_loop *open_loop_new(const struct thread_data *td);

/* True where the I/O has a due time. A sync or a read that verifies a write is sent at once. */
static inline bool open_loop_schedules(const struct io_u *io_u)
{
	return !ddir_sync(io_u->ddir) && !(io_u->flags & IO_U_F_VER_LIST);
}

/* Nanoseconds until an I/O is due; 0: it is due. */
uint64_t open_loop_left(struct open_loop *open, const struct io_u *io_u);

/* The engine accepts an I/O of fio, which is due or has no due time. */
void open_loop_take(struct open_loop *open, const struct io_u *io_u);

/* The I/O was sent at its issue_time: sets its start_time to when it was due. */
void open_loop_sent(struct open_loop *open, struct io_u *io_u);

/* The I/O has completed. */
void open_loop_finished(struct open_loop *open, const struct io_u *io_u);

/* fio collects completions: iodepth has room again. */
void open_loop_collected(struct open_loop *open);

/* The job is to end: arrivals due from now on do not count as dropped. */
void open_loop_over(struct open_loop *open);

/* No I/O is under way any more: calls arrivals_end(). */
void open_loop_end(struct open_loop *open);
