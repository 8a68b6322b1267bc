/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stand_ins.c - what the engine's requests (fio/job_io.c and what it calls) want of fio, and of the
 * files of fio/ that need a real one: a simulated job has no deadline, no arrival clock and no
 * figures.
 */
#include <stdarg.h>
#include <stdio.h>

#include "fio/deadline.h"
#include "fio/job_log.h"
#include "fio/open_loop.h"
#include "world.h"

/* --- fio's --- */

void io_u_mark_submit(struct thread_data *td, unsigned int count)
{
}

void io_u_queued(struct thread_data *td, struct io_u *io_u)
{
}

void fio_gettime(struct timespec *now, void *caller)
{
	*now = (struct timespec){0};
}

uint64_t utime_since_now(const struct timespec *since)
{
	return 0;
}

/* --- what is said --- */

void job_log(const char *format, ...)
{
	char line[300];
	va_list values;

	va_start(values, format);
	vsnprintf(line, sizeof(line), format, values);
	va_end(values);
	world_tell("engine: %s", line);
}

void failure_say(struct job *job, const struct request *request)
{
}

const char *failure_remedy(enum io_op op, int error)
{
	return "";
}

/* --- no deadline --- */

bool deadline_listen(struct thread_data *td)
{
	return false;
}

void deadline_heard(struct thread_data *td, bool ended)
{
}

bool deadline_io_passed(bool progress, bool reachable)
{
	return false;
}

/* --- no arrival clock --- */

uint64_t open_loop_left(struct open_loop *open, const struct io_u *io_u)
{
	return 0;
}

void open_loop_take(struct open_loop *open, const struct io_u *io_u)
{
}

void open_loop_sent(struct open_loop *open, struct io_u *io_u)
{
}

void open_loop_finished(struct open_loop *open, const struct io_u *io_u)
{
}

void open_loop_collected(struct open_loop *open)
{
}

void open_loop_over(struct open_loop *open)
{
}
