/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sampled_time.h - a thread's CPU time for many small pieces of work, estimated from every 17th,
 * since reading the clock may cost more than a piece. 17 is a prime, so that alternating pieces,
 * such as header and body, are sampled alike.
 */
#pragma once

#include <stdbool.h>

#include "util.h"

enum { SAMPLED_EVERY = 17 };

struct sampled_time {
	uint64_t total; /* estimated total in nanoseconds, extrapolated from the samples */
	uint32_t turns;
	bool looks;	      /* this piece is sampled */
	uint64_t began, cost; /* cost: of reading the clock, part of each sample */
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

/* Time between leave and return is not counted. */
static inline uint64_t sampled_leave(const struct sampled_time *time)
{
	return time->looks ? thread_time() : 0;
}

static inline void sampled_return(struct sampled_time *time, uint64_t left)
{
	if (time->looks)
		time->began += thread_time() - left;
}
