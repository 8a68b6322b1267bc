/* SPDX-License-Identifier: GPL-2.0-only */
#include "limits.h"

#include "job.h"
#include "world.h"

uint64_t limit_soft(void)
{
	const struct rpc_timing *timing = &sim_job.terms.timing;
	uint64_t sum = timing->timeo;

	for (unsigned int i = 0; i < timing->retrans; i++)
		sum += timing->timeo;
	return sum;
}

uint64_t limit_copy(uint64_t unanswered, uint64_t losses)
{
	static const uint64_t longest = 600 * SEC;
	uint64_t timeo = sim_job.terms.timing.timeo, wait = timeo, passed = 0;

	while (passed + wait <= unanswered && wait < longest) {
		passed += wait;
		wait += timeo;
	}
	wait += losses * timeo;
	if (wait > longest)
		wait = longest;
	/* NFSv4.1: over its connection a call is sent once, and the other limit ends that. */
	return sim_job.terms.nfs4 && wait < limit_soft() ? limit_soft() : wait;
}

uint64_t limit_delay(void)
{
	return 5 * SEC;
}

uint64_t limit_setup_delay(void)
{
	return SEC;
}

uint64_t limit_connect(void)
{
	return 10 * SEC;
}
