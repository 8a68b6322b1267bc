/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * syncs.h - a sync waits for the writes that fio queued before it, then COMMITs what they owe on
 * every path, and reports what a server has lost.
 */
#pragma once

#include "job.h"

/* fio has queued a write. */
void syncs_write_begins(struct job *job, struct request *write);
/* The write is complete: syncs that waited only for it become pending. */
void syncs_write_ends(struct job *job, const struct request *write);

/*
 * Begins a sync of `count` files from `file` on: the sync becomes pending when the writes before it
 * are complete. Writes that are queued later do not delay it, as with fsync(2).
 */
void syncs_begin(struct job *job, struct request *sync, uint32_t file, uint32_t count);

/*
 * The COMMITs of a sync are answered. False where they show that held data is lost: the sync begins
 * anew, and is submitted when that data is written again. True where the sync is over: a loss or a
 * failure is in its error, and fails the job.
 */
bool syncs_end(struct job *job, struct request *sync);

/*
 * --- hold_writes ---
 *
 * A changed write verifier shows that the server lost data that was not durable. Then the job waits
 * for its WRITEs and COMMITs under way, writes all held data again, commits it, and goes on. Until
 * then no other WRITE or sync begins; READs do. The job gives up on a server that loses data each
 * time. Without a loss, COMMITs make room in the hold: they go out when half of the hold has been
 * answered, while WRITEs go on in the other half.
 */

/* True where no WRITE or sync may begin. */
static inline bool replay_active(const struct job *job)
{
	return job->hold.lost || job->replay.stage != REPLAY_NONE;
}

/* True where COMMITs that make room are due or outstanding. */
static inline bool replay_makes_room(const struct job *job)
{
	return request_busy(&job->replay.request);
}

/* For a job with a hold: does what needs no waiting. Sets job->replay.broken where it gives up. */
void replay_advance(struct job *job);
