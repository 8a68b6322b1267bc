/* SPDX-License-Identifier: GPL-2.0-only */
#include "limits.h"

#include "job.h"
#include "world.h"

uint64_t limit_soft(void)
{
	const struct rpc_timing *timing = &sim_job.terms.timing;

	return timing->timeo * (timing->retrans + 1);
}

uint64_t limit_copy(uint64_t unanswered, uint64_t losses)
{
	static const uint64_t longest = 600 * SEC;
	uint64_t timeo = sim_job.terms.timing.timeo, wait = timeo, passed = 0;

	while (passed + wait <= unanswered && wait < longest) {
		passed += wait;
		wait += timeo;
	}
	/* A connection is left after timeo where its session or context is not made: one more copy
	 * each time. And over NFSv4.1's a call is sent once, until the other limit ends that. */
	if (sim_job.terms.nfs4 || sim_job.terms.service)
		wait = unanswered + timeo;
	if (sim_job.terms.nfs4 && wait < limit_soft())
		wait = limit_soft();
	wait += losses * timeo;
	return wait < longest ? wait : longest;
}
