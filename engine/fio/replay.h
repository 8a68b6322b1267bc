/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * replay.h - hold_writes: what a server lost before it was durable is written again.
 *
 * A changed verifier shows a loss: then the job waits for its WRITEs and COMMITs under way, writes
 * everything that is held again, commits it, and goes on. Until then no other WRITE or sync begins;
 * READs do. A server that loses data each time is given up.
 *
 * Without a loss, it makes room: COMMITs go out when half of the hold has been answered, while
 * WRITEs go on in the other half.
 */
#pragma once

#include "job.h"

/* True where no WRITE or sync may begin. */
static inline bool replay_active(const struct job *job)
{
	return job->hold.lost || job->replay.stage != REPLAY_NONE;
}

/* True where COMMITs that make room are to be sent, or outstanding. */
static inline bool replay_makes_room(const struct job *job)
{
	return request_busy(&job->replay.request);
}

/*
 * For a job with a hold: does what can be done without waiting. Where the replay is given up,
 * job->replay.broken is set.
 */
void replay_advance(struct job *job);
