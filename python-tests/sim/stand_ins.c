/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stand_ins.c - what the engine's requests (fio/job_io.c and what it calls) want of fio, and of the
 * files of fio/ that need a real one: a simulated job has no deadline, no arrival clock and no
 * figures.
 */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "fio.h"
#include "fio/deadline.h"
#include "scenario.h"
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

/* For fio/open_loop.c, though no simulated job has an arrival clock. */
int str_to_decimal(const char *text, long long *value, int kilo, void *data, int seconds, int time)
{
	return 1;
}

/* --- chance and time --- */

/* Replaces the engine's: xids are the same for the same seed. */
uint32_t __wrap_path_random(void)
{
	return (uint32_t)world_random(UINT32_MAX);
}

/* And so are the names of NFSv4.1's clients, to the length: no chance is drawn for them. */
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned int flags)
{
	memset(bytes, 0x5a, size);
	return (ssize_t)size;
}

pid_t __wrap_getpid(void)
{
	return 10000;
}

int __wrap_gethostname(char *name, size_t size)
{
	snprintf(name, size, "at");
	return 0;
}

/* The same: all time is the world's, whoever asks. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	*now = (struct timespec){.tv_sec = (time_t)(world.clock.now / SEC),
				 .tv_nsec = (long)(world.clock.now % SEC)};
	return 0;
}

/* And nothing waits. */
int __real_poll(struct pollfd *polls, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *polls, nfds_t count, int timeout)
{
	return __real_poll(polls, count, 0);
}

int __real_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	return __real_epoll_wait(epoll, events, most, 0);
}

/* --- what is said --- */

bool is_backend = true; /* lines go to log_err() */
__typeof__(output_format) output_format;
FILE *f_out;

ssize_t log_err(const char *format, ...)
{
	char line[300];
	va_list values;
	int length;

	va_start(values, format);
	length = vsnprintf(line, sizeof(line), format, values);
	va_end(values);
	line[strcspn(line, "\n")] = '\0';
	world_tell("engine: %s", line);
	scenario_said(line);
	return length;
}

ssize_t log_info(const char *format, ...)
{
	return 0;
}

/* --- no deadline: a job that is told to end gives up at once --- */

bool deadline_listen(struct thread_data *td)
{
	return false;
}

void deadline_heard(struct thread_data *td, bool ended)
{
}

bool deadline_io_passed(bool progress, bool reachable)
{
	return true;
}
