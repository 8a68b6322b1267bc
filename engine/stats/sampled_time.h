/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sampled_time.h - how much CPU time of a thread small pieces of work take together, by a look at
 * every 17th: reading the clock for each would cost more than some of them. The number is a prime,
 * since what is done comes in turns: a header, then a body.
 */
#pragma once

#include <stdbool.h>

#include "util.h"

enum { SAMPLED_EVERY = 17 };

struct sampled_time {
	uint64_t total; /* nanoseconds, of all pieces as far as the looked at tell */
	uint32_t turns;
	bool looks;	      /* at this one */
	uint64_t began, cost; /* cost: of reading the clock, which lies within what is read */
};

static inline uint64_t thread_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return nanoseconds_of(&now);
}

static inline void sampled_begin(struct sampled_time *time)
{
	uint64_t before;

	time->looks = !(++time->turns % SAMPLED_EVERY);
	if (!time->looks)
		return;
	before = thread_time();
	time->began = thread_time();
	time->cost = time->began - before;
}

static inline void sampled_end(struct sampled_time *time)
{
	uint64_t took;

	if (!time->looks)
		return;
	took = thread_time() - time->began;
	time->total += SAMPLED_EVERY * (took - min_of(took, time->cost));
}

/* What happens between these two is not meant: the piece begins later by so much. */
static inline uint64_t sampled_leave(const struct sampled_time *time)
{
	return time->looks ? thread_time() : 0;
}

static inline void sampled_return(struct sampled_time *time, uint64_t left)
{
	if (time->looks)
		time->began += thread_time() - left;
}
