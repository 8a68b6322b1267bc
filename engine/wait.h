/* SPDX-License-Identifier: GPL-2.0-only */
/* wait.h - waiting in slices, so that a stop or a deadline is noticed soon. */
#pragma once

#include <errno.h>
#include <poll.h>
#include <stdbool.h>

#include "util.h"

enum { WAIT_SLICE_MS = 100 };

#define WAIT_NO_DEADLINE UINT64_MAX

/* How long somebody else has for an answer. `looked`: when we looked for it last. */
struct patience {
	uint64_t deadline, looked;
};

static inline struct patience patience_begin(uint64_t now, uint64_t time)
{
	return (struct patience){now + time, now};
}

/*
 * To be asked before each wait of a slice: the nanoseconds beyond a slice since the last time,
 * where they are so many that we did not run. A slow client is no silent server: they do not count.
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
 * One round of a loop that waits for something: poll(2) for a slice at the most. 0: look again;
 * -EINTR where stop() says so; -ETIMEDOUT where patience, by clock_now(), is over (NULL: never).
 */
static inline int wait_slice(struct pollfd *polls, nfds_t count, struct patience *patience,
			     bool (*stop)(void))
{
	if (stop && stop())
		return -EINTR;
	if (patience && patience_over(patience, clock_now()))
		return -ETIMEDOUT;
	poll(polls, count, WAIT_SLICE_MS);
	return 0;
}

/* Waits until then, by clock_now(), for nothing but time: 0, or -EINTR where stop() says so. */
static inline int wait_until(uint64_t until, bool (*stop)(void))
{
	int error = 0;

	while (!error && clock_now() <= until)
		error = wait_slice(NULL, 0, NULL, stop);
	return error;
}
