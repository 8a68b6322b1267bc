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
