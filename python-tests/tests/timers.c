/* SPDX-License-Identifier: GPL-2.0-only */
/* timers.c - what timers.h answers of a call that was sent at 0, for tests to call. */
#include "client/timers.h"

bool timers_overdue(uint64_t timeo, uint32_t tries, uint64_t now);
bool timers_expired(uint64_t timeo, unsigned int retrans, bool soft, uint64_t now);
uint64_t timers_delay(uint32_t delays, bool setup);
uint64_t timers_pause(bool jitter, uint32_t client, uint32_t earlier);

bool timers_overdue(uint64_t timeo, uint32_t tries, uint64_t now)
{
	const struct rpc_timing timing = {.timeo = timeo};
	const struct call call = {.tries = tries};

	return timer_overdue(&call, &timing, now);
}

bool timers_expired(uint64_t timeo, unsigned int retrans, bool soft, uint64_t now)
{
	const struct rpc_timing timing = {.timeo = timeo, .retrans = retrans, .soft = soft};
	const struct call call = {.tries = 1};

	return timer_expired(&call, &timing, now);
}

/* As put_off() has it for an I/O, and for what comes before I/O. */
uint64_t timers_delay(uint32_t delays, bool setup)
{
	return min_of(timer_delay(delays), setup ? SETUP_DELAY_LAST : DELAY_LAST);
}

/* The pause of a client before its next connection, after so many earlier ones. */
uint64_t timers_pause(bool jitter, uint32_t client, uint32_t earlier)
{
	uint64_t pause = jitter ? timer_jitter(&client) : 0;

	while (earlier--)
		pause = jitter ? timer_jitter(&client) : timer_backoff(pause);
	return pause;
}
