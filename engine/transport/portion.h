/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * portion.h - how much one receive takes of the small replies that are on their way: a half, a
 * quarter or an eighth.
 *
 * A half costs least while the server has other work meanwhile. If the server sleeps between
 * batches, server and client wait for each other in turn. No part suits all windows, so the best is
 * found by trial: if this thread sleeps although much is on its way, a smaller part is tried, and
 * kept for HOLD receives if it moves a tenth more bytes; then a half is tried again. All functions
 * are pure, except portion_sample().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { PORTION_HALF = 2, PORTION_LEAST = 8 };

struct portion_sample {
	uint64_t now;	/* nanoseconds */
	uint64_t bytes; /* received so far */
	uint64_t slept; /* times that this thread slept (voluntary context switches) */
};

struct portion {
	uint32_t part;		  /* one receive takes 1/part */
	uint32_t receives, until; /* since the latest sample, and how many to the next one */
	enum { PORTION_SETTLES, PORTION_IS_TRIED, PORTION_HOLDS } phase;
	struct portion_sample since;
	double before; /* bytes a nanosecond with the previous part */
};

void portion_init(struct portion *portion);

/* Called for each receive. True: the caller calls portion_weigh(). */
static inline bool portion_due(struct portion *portion)
{
	return ++portion->receives >= portion->until;
}

void portion_weigh(struct portion *portion, const struct portion_sample *sample);

/* A sample of the calling thread, now. */
struct portion_sample portion_sample(uint64_t bytes);
