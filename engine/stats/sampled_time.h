/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sampled_time.h - how long small pieces of work take together, by a look at every 17th: reading
 * the clock for each would cost more than some of them. The number is a prime, since what is done
 * comes in turns: a header, then a body.
 */
#pragma once

#include "util.h"

enum { SAMPLED_EVERY = 17 };

struct sampled_time {
	uint64_t total; /* nanoseconds, of all pieces as far as the looked at tell */
	uint32_t turns;
	uint64_t began, left; /* 0: this one is not looked at */
};

static inline void sampled_begin(struct sampled_time *time)
{
	time->began = time->turns++ % SAMPLED_EVERY ? 0 : clock_now();
}

static inline void sampled_end(struct sampled_time *time)
{
	if (time->began)
		time->total += SAMPLED_EVERY * (clock_now() - time->began);
}

/* What happens between these two is not meant. */
static inline void sampled_leave(struct sampled_time *time)
{
	if (time->began)
		time->left = clock_now();
}

static inline void sampled_return(struct sampled_time *time)
{
	if (time->began)
		time->began += clock_now() - time->left;
}
