/* SPDX-License-Identifier: GPL-2.0-only */
/* wait.h - clocks, and waiting in slices, so that a stop or a deadline is noticed soon. */
#pragma once

#include <poll.h>
#include <stdbool.h>

#include "util.h"

/* A clock passed to its users: the machine's, or a simulation's. */
struct clock {
	/* Monotonic nanoseconds. */
	uint64_t (*read)(const struct clock *clock);
	uint64_t now; /* the latest reading, for a whole batch of replies; 0: read it again */
};

static inline uint64_t clock_read(struct clock *clock)
{
	return clock->now = clock->read(clock);
}

/* CLOCK_MONOTONIC: struct clock's read(). */
static inline uint64_t clock_monotonic(const struct clock *clock)
{
	return clock_now();
}

enum { WAIT_SLICE_MS = 100 };

#define WAIT_NO_DEADLINE UINT64_MAX

/* How long a peer has for an answer. */
struct patience {
	uint64_t deadline;
	uint64_t looked; /* when we last checked for the answer */
};

static inline struct patience patience_begin(uint64_t now, uint64_t time)
{
	return (struct patience){now + time, now};
}

/*
 * Called before each wait for a slice. If more than three slices passed since the last call, this
 * process did not run: returns that time less a slice: the server was not silent then. Else 0.
 */
static inline uint64_t time_away(uint64_t *looked, uint64_t now)
{
	static const uint64_t slice = WAIT_SLICE_MS * MSEC;
	uint64_t since = now - *looked;

	*looked = now;
	return since > 3 * slice ? since - slice : 0;
}

static inline bool patience_over(struct patience *patience, uint64_t now)
{
	uint64_t away = time_away(&patience->looked, now);

	if (patience->deadline != WAIT_NO_DEADLINE)
		patience->deadline += away;
	return now > patience->deadline;
}

/*
 * One round of a loop that waits: poll(2) for at most `ms`, such as WAIT_SLICE_MS. 0: look again;
 * -EINTR: stop() says so; -ETIMEDOUT: patience, by clock_now(), is over (NULL: never).
 */
static inline int wait_part(struct pollfd *polls, nfds_t count, int ms, struct patience *patience,
			    bool (*stop)(void))
{
	if (stop && stop())
		return -EINTR;
	if (patience && patience_over(patience, clock_now()))
		return -ETIMEDOUT;
	poll(polls, count, ms);
	return 0;
}

/* Sleeps until a time by clock_now(): 0, or -EINTR where stop() says so. */
static inline int wait_until(uint64_t until, bool (*stop)(void))
{
	int error = 0;

	while (!error && clock_now() <= until)
		error = wait_part(NULL, 0, WAIT_SLICE_MS, NULL, stop);
	return error;
}
