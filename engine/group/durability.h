/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * durability.h - enters a server's answers to WRITE and COMMIT into the file's ledger, and into the
 * hold where the job has one. Pure bookkeeping, without locks: a job is one thread.
 */
#pragma once

#include "group/connection.h"
#include "group/path.h"

/* A WRITE of `count` bytes was answered; `durable`: the server has made them durable at once. */
static inline void durability_wrote(struct conn *conn, const struct conn_io *io, uint32_t count,
				    bool durable, const uint8_t verifier[LEDGER_VERIFIER])
{
	struct ledger *ledger = &conn->path->files[io->file].ledger;
	bool changed = ledger_wrote(ledger, count, durable, verifier);

	if (!io->held)
		return;
	if (changed)
		conn->job->hold->lost = true;
	if (!durable)
		hold_wrote(conn->job->hold, io->held, ledger, verifier);
}

/* A COMMIT is sent now: it covers every WRITE answered so far. */
static inline void durability_commit_begins(struct conn *conn, struct conn_io *io)
{
	io->commit->covered = ledger_begin_commit(io->commit->ledger);
	if (conn->job->hold)
		io->commit->covered.clock = conn->job->hold->clock;
}

static inline void durability_committed(struct conn *conn, const struct conn_io *io,
					const uint8_t verifier[LEDGER_VERIFIER])
{
	bool lost = ledger_end_commit(io->commit->ledger, &io->commit->covered, verifier);

	if (!conn->job->hold)
		return;
	/* hold_committed() skips an extent that was answered in full after the COMMIT was sent. */
	conn->job->hold->lost |= lost;
	hold_committed(conn->job->hold, io->commit->ledger, io->commit->covered.clock, verifier);
}

/* A COMMIT was put off, or goes to another connection: its bytes wait for another COMMIT. */
static inline void durability_commit_undone(struct conn *conn, struct conn_io *io)
{
	bool lost = ledger_undo_commit(io->commit->ledger, &io->commit->covered);

	if (conn->job->hold)
		conn->job->hold->lost |= lost;
	io->commit->covered.number = 0;
}

/* A COMMIT failed. */
static inline void durability_commit_failed(struct conn *conn, const struct conn_io *io)
{
	ledger_fail_commit(io->commit->ledger, &io->commit->covered);
	if (conn->job->hold)
		hold_commit_failed(conn->job->hold, io->commit->ledger, io->commit->covered.clock);
}
