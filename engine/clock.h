/* SPDX-License-Identifier: GPL-2.0-only */
/* clock.h - time as it is handed to whoever waits: the machine's, or a simulation's. */
#pragma once

#include "util.h"

struct clock {
	/* Nanoseconds, which never go back. */
	uint64_t (*read)(const struct clock *clock);
	uint64_t now; /* its latest reading, which serves a batch of replies; 0: to be read again */
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
