/* SPDX-License-Identifier: GPL-2.0-only */
/* syncs.h - a sync waits for the writes that fio queued before it, then sends the COMMITs that are
 * due on each path, and reports data that a server has lost. */
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
 * Called when the COMMITs of a sync are answered. False where held data is lost: the sync is
 * pending again, and is submitted after the replay. True where the sync is over: its error, if any,
 * has failed the job.
 */
bool syncs_end(struct job *job, struct request *sync);

/*
 * --- hold_writes ---
 *
 * A changed write verifier shows that the server lost data that was not durable. Then the job waits
 * for its WRITEs and COMMITs under way, writes all held data again, commits it, and goes on. During
 * the replay no other WRITE or sync begins, but READs do. If replays keep losing data, the job
 * gives up. Without a loss, COMMITs make room in the hold: they go out when answered WRITEs fill
 * half of it, while new WRITEs use the other half.
 */

/* True where no WRITE or sync may begin. */
static inline bool replay_active(const struct job *job)
{
	return job->hold.lost || job->replay.stage != REPLAY_NONE;
}

/* True where COMMITs that make room, or a replay's own calls, are due or outstanding. */
static inline bool replay_makes_room(const struct job *job)
{
	return request_busy(&job->replay.request);
}

/* Continues the replay, without waiting, for a job with a hold. Sets replay.broken on giving up. */
void replay_advance(struct job *job);
