/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ledger.h - counts the bytes of one file, written over one path, that a server may still lose.
 *
 * A server answers an UNSTABLE WRITE before the data is durable, with a verifier that changes when
 * it restarts (RFC 1813, 3.3.7 and 3.3.21). A later reply to WRITE or COMMIT with another verifier
 * means that the server may have lost the data that it answered with the former verifier. Pure
 * bookkeeping.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LEDGER_VERIFIER 8 /* bytes */

struct ledger {
	uint64_t unstable;		   /* bytes written and not covered by a COMMIT under way */
	uint64_t committing;		   /* bytes that COMMITs under way cover */
	uint64_t lost;			   /* bytes found lost and not yet reported */
	uint32_t held;			   /* hold.h's: extents that a COMMIT is to settle */
	uint8_t verifier[LEDGER_VERIFIER]; /* of the unstable bytes */
	uint64_t commits;		   /* COMMITs begun */
	uint64_t settled;		   /* the number of the latest COMMIT that succeeded */
	uint8_t settled_verifier[LEDGER_VERIFIER]; /* the verifier in its reply */
};

/* What one COMMIT under way covers. */
struct ledger_commit {
	uint64_t bytes;
	uint64_t number; /* the number among the ledger's COMMITs, from 1; 0: not sent yet */
	uint64_t clock;	 /* hold.h's, when it was sent */
	uint8_t verifier[LEDGER_VERIFIER];
};

/* A WRITE of `bytes` was answered; `durable`: the server has made the bytes durable at once. True
 * where the verifier shows that the unstable bytes are lost. */
static inline bool ledger_wrote(struct ledger *ledger, uint64_t bytes, bool durable,
				const uint8_t verifier[LEDGER_VERIFIER])
{
	bool changed = ledger->unstable && memcmp(ledger->verifier, verifier, LEDGER_VERIFIER);

	if (changed) {
		ledger->lost += ledger->unstable;
		ledger->unstable = 0;
	}
	if (!durable) {
		memcpy(ledger->verifier, verifier, LEDGER_VERIFIER);
		ledger->unstable += bytes;
	}
	return changed;
}

/* A COMMIT is sent now: it covers every WRITE answered so far. */
static inline struct ledger_commit ledger_begin_commit(struct ledger *ledger)
{
	struct ledger_commit commit = {.bytes = ledger->unstable, .number = ++ledger->commits};

	memcpy(commit.verifier, ledger->verifier, LEDGER_VERIFIER);
	ledger->committing += ledger->unstable;
	ledger->unstable = 0;
	return commit;
}

static inline bool ledger_same(const uint8_t a[LEDGER_VERIFIER], const uint8_t b[LEDGER_VERIFIER])
{
	return !memcmp(a, b, LEDGER_VERIFIER);
}

/* True where a later COMMIT has succeeded with the same verifier: it made durable all bytes that
 * were answered before it, so that this COMMIT's failure loses none. */
static inline bool ledger_settled(const struct ledger *ledger, const struct ledger_commit *commit)
{
	return commit->number < ledger->settled &&
	       ledger_same(commit->verifier, ledger->settled_verifier);
}

/* A COMMIT was answered with `verifier`. True where `verifier` shows that its bytes are lost. */
static inline bool ledger_end_commit(struct ledger *ledger, const struct ledger_commit *commit,
				     const uint8_t verifier[LEDGER_VERIFIER])
{
	ledger->committing -= commit->bytes;
	if (!ledger_same(commit->verifier, verifier)) {
		if (!commit->bytes || ledger_settled(ledger, commit))
			return false;
		ledger->lost += commit->bytes;
		return true;
	}
	if (commit->number > ledger->settled) {
		ledger->settled = commit->number;
		memcpy(ledger->settled_verifier, verifier, LEDGER_VERIFIER);
	}
	return false;
}

/* A COMMIT was postponed: its bytes wait for another COMMIT. True where later WRITEs have shown
 * that the bytes are lost. */
static inline bool ledger_undo_commit(struct ledger *ledger, const struct ledger_commit *commit)
{
	ledger->committing -= commit->bytes;
	if (!commit->bytes || ledger_settled(ledger, commit))
		return false;
	if (ledger->unstable && !ledger_same(ledger->verifier, commit->verifier)) {
		ledger->lost += commit->bytes;
		return true;
	}
	memcpy(ledger->verifier, commit->verifier, LEDGER_VERIFIER);
	ledger->unstable += commit->bytes;
	return false;
}

/* A COMMIT failed: its bytes count as lost, unless a later COMMIT has made them durable. */
static inline void ledger_fail_commit(struct ledger *ledger, const struct ledger_commit *commit)
{
	ledger->committing -= commit->bytes;
	if (!ledger_settled(ledger, commit))
		ledger->lost += commit->bytes;
}

/* True where written bytes are not durable yet: a sync needs a COMMIT. */
static inline bool ledger_unsettled(const struct ledger *ledger)
{
	return ledger->unstable || ledger->committing || ledger->held;
}

/* True where a new COMMIT would cover no more than this one, which may still be unsent. */
static inline bool ledger_covered(const struct ledger *ledger, const struct ledger_commit *commit)
{
	return !commit->number || (commit->number == ledger->commits && !ledger->unstable);
}

/* True where a COMMIT is due, or a loss is not reported yet. */
static inline bool ledger_owes(const struct ledger *ledger)
{
	return ledger->unstable || ledger->lost || ledger->held;
}

/* Forgets bytes that the caller writes again or reports. COMMITs under way stay counted. */
static inline void ledger_clear(struct ledger *ledger)
{
	ledger->unstable = 0;
	ledger->lost = 0;
}

/* Returns the bytes lost since the last call, for the caller to report. */
static inline uint64_t ledger_take_lost(struct ledger *ledger)
{
	uint64_t lost = ledger->lost;

	ledger->lost = 0;
	return lost;
}
