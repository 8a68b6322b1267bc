/* SPDX-License-Identifier: GPL-2.0-only */
/* wait.h - waiting in slices, so that a stop or a deadline is noticed soon. */
#pragma once

#include <errno.h>
#include <poll.h>
#include <stdbool.h>

#include "util.h"

enum { WAIT_SLICE_MS = 100 };

#define WAIT_NO_DEADLINE UINT64_MAX

/*
 * One round of a loop that waits for something: poll(2) for a slice at the most. 0: look again;
 * -EINTR where stop() says so; -ETIMEDOUT after the deadline, by clock_now().
 */
static inline int wait_slice(struct pollfd *polls, nfds_t count, uint64_t deadline,
			     bool (*stop)(void))
{
	if (stop && stop())
		return -EINTR;
	if (clock_now() > deadline)
		return -ETIMEDOUT;
	poll(polls, count, WAIT_SLICE_MS);
	return 0;
}

/* Waits until then, by clock_now(), for nothing but time: 0, or -EINTR where stop() says so. */
static inline int wait_until(uint64_t until, bool (*stop)(void))
{
	int error;

	do
		error = wait_slice(NULL, 0, until, stop);
	while (!error);
	return error == -ETIMEDOUT ? 0 : error;
}
