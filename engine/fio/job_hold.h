/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job_hold.h - hold_writes: what a server lost before it was durable is written again.
 *
 * The hold (conn/hold.h) is full, or a verifier tells of a loss: then the job waits for its WRITEs
 * and COMMITs under way, writes everything that is held again where something was lost, commits it,
 * and goes on. Until then no other WRITE or sync begins. A server that loses data each time is
 * given up.
 */
#ifndef NFSMULTI_JOB_HOLD_H
#define NFSMULTI_JOB_HOLD_H

#include "job.h"

/* Makes the hold that the job's options ask for. 0 or a negative errno, logged. */
int job_hold_open(struct job *job);

/* True where a WRITE of up to `length` bytes may begin: the job has a hold. */
bool job_hold_admits(struct job *job, uint32_t length);

/* True where something is to be mended: job_hold_mend() is to be called until that says so. */
static inline bool job_hold_busy(const struct job *job)
{
	return job->hold.lost || job->mending.full || job->mending.stage != MENDING_NOTHING;
}

/* Does what can be done without waiting. True when all is done, or given up. */
bool job_hold_mend(struct job *job);

/* One of its own calls has ended. */
void job_hold_took(struct job *job, struct conn_io *io);

#endif
