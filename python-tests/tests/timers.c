/* SPDX-License-Identifier: GPL-2.0-only */
/* timers.c - what timers.h answers of a call that was sent at 0, for tests to call. */
#include "client/timers.h"

bool timers_overdue(uint64_t timeo, uint32_t tries, uint64_t now);

bool timers_overdue(uint64_t timeo, uint32_t tries, uint64_t now)
{
	const struct rpc_timing timing = {.timeo = timeo};
	const struct call call = {.tries = tries};

	return timer_overdue(&call, &timing, now);
}
