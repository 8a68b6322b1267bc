/* SPDX-License-Identifier: GPL-2.0-only */
/* durability.h - records a server's replies to WRITE and COMMIT in the file's ledger, and in the
 * hold where the job has one. Pure bookkeeping, without locks: a job is one thread. */
#pragma once

#include "group/connection.h"
#include "group/path.h"

/* A WRITE of `count` bytes was answered; `durable`: the server has made them durable at once. */
static inline void durability_wrote(struct conn_io *io, uint32_t count, bool durable,
				    const uint8_t verifier[LEDGER_VERIFIER])
{
	struct ledger *ledger = &io->conn->path->files[io->file].ledger;
	bool changed = ledger_wrote(ledger, count, durable, verifier);

	if (!io->held)
		return;
	if (changed)
		io->conn->job->hold->lost = true;
	if (!durable)
		hold_wrote(io->conn->job->hold, io->held, ledger, verifier);
}

/* A COMMIT is sent now: it covers every WRITE answered so far. */
static inline void durability_commit_begins(struct conn_io *io)
{
	const struct hold *hold = io->conn->job->hold;

	io->commit->covered = ledger_begin_commit(io->commit->ledger);
	if (hold)
		io->commit->covered.clock = hold->clock;
}

static inline void durability_committed(struct conn_io *io, const uint8_t verifier[LEDGER_VERIFIER])
{
	struct hold *hold = io->conn->job->hold;
	bool lost = ledger_end_commit(io->commit->ledger, &io->commit->covered, verifier);

	if (!hold)
		return;
	/* The ledger may show more loss: hold_committed() skips what finished after `covered`. */
	hold->lost |= lost;
	hold_committed(hold, io->commit->ledger, io->commit->covered.clock, verifier);
}

/* A COMMIT was postponed, or goes to another connection: its bytes wait for another COMMIT. */
static inline void durability_commit_undone(struct conn_io *io)
{
	bool lost = ledger_undo_commit(io->commit->ledger, &io->commit->covered);

	if (io->conn->job->hold)
		io->conn->job->hold->lost |= lost;
	io->commit->covered.number = 0;
}

/* A COMMIT failed: the bytes that it covers may be lost. */
static inline void durability_commit_failed(struct conn_io *io)
{
	struct hold *hold = io->conn->job->hold;

	ledger_fail_commit(io->commit->ledger, &io->commit->covered);
	if (hold)
		hold_commit_failed(hold, io->commit->ledger, io->commit->covered.clock);
}
