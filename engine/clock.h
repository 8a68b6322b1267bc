/* SPDX-License-Identifier: GPL-2.0-only */
/* clock.h - a clock passed to its users: the machine's, or a simulation's. */
#pragma once

#include "util.h"

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
