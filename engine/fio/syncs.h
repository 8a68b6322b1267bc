/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * syncs.h - a sync waits for the writes that fio queued before it, then COMMITs what they owe on
 * every path, and reports what a server has lost.
 */
#pragma once

#include "job.h"

/* fio has queued a write. */
void syncs_write_begins(struct job *job, struct request *write);
/* It is complete: syncs that waited for it alone become pending. */
void syncs_write_ends(struct job *job, const struct request *write);

/*
 * Begins a sync of `count` files from `file` on: it is pending when the writes before it are
 * complete. Writes that are queued later do not hold it up, as with fsync(2).
 */
void syncs_begin(struct job *job, struct request *sync, uint32_t file, uint32_t count);

/*
 * Its COMMITs are answered. False where they have found out that held data is lost: the sync begins
 * anew, and is submitted when that data is replayed. True where it is over: a loss or a failure is
 * in its error, and an error of the job.
 */
bool syncs_end(struct job *job, struct request *sync);

/* --- hold_writes --- */

/*
 * What a server lost before it was durable is written again. A changed verifier
 * shows a loss: then the job waits for its WRITEs and COMMITs under way, writes everything that
 * is held again, commits it, and goes on. Until then no other WRITE or sync begins; READs do. A
 * server that loses data each time is given up. Without a loss, it makes room: COMMITs go out
 * when half of the hold has been answered, while WRITEs go on in the other half.
 */

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
