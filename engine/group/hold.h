/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hold.h - copies of written data that a server may still lose, so that a job can write it again.
 *
 * The hold is a log of WRITEs, in the order in which the job began them, in memory of a fixed size.
 * Only the oldest extents are freed. So all WRITEs over a held extent are held, too, and writing
 * the whole log again in its order leaves the file as it was. Pure bookkeeping: nfs.c records the
 * servers' replies, fio/syncs.c writes lost data again.
 */
#pragma once

#include "group/ledger.h"

/* The log has room for one extent per HOLD_EXTENT_BYTES of its memory, and for some more. */
#define HOLD_EXTENT_BYTES 512
#define HOLD_EXTENTS_MIN  16

/* One WRITE, kept until it and all older ones are settled. */
struct hold_extent {
	uint8_t *data;
	uint64_t offset; /* in the file */
	uint32_t length;
	uint32_t file;
	uint32_t connection;   /* that carried the WRITE */
	bool under_way;	       /* a WRITE of it is outstanding */
	bool again;	       /* it was written again at least once */
	bool settled;	       /* durable, or dropped */
	bool dropped;	       /* discarded: never written again */
	bool mixed_verifiers;  /* replies to it had different verifiers: no COMMIT settles it */
	struct ledger *ledger; /* of the bytes that were answered UNSTABLE; NULL: there are none */
	uint8_t verifier[LEDGER_VERIFIER]; /* of the bytes that were answered UNSTABLE */
	uint64_t answered;		   /* hold->clock when the WRITE was answered in full */
};

struct hold {
	uint8_t *memory;
	uint64_t size; /* bytes */
	uint64_t head; /* where in memory the next extent begins, if it fits before the end */
	struct hold_extent *extents; /* number n is extents[n mod extent_max] */
	uint64_t extent_max;
	uint64_t first, end; /* the numbers in use: first to end-1 */
	uint64_t clock;	     /* counts WRITEs that have ended */
	uint64_t under_way;  /* extents of which a WRITE is outstanding */
	bool lost;	     /* a server has lost held data, or may have lost it */
	uint64_t uncovered;  /* bytes answered since hold_begin_commit(), and not settled */
	uint64_t covered;    /* the clock at hold_begin_commit() */
};

/* Allocates and populates `size` bytes, at least 1. 0 or -ENOMEM. */
int hold_init(struct hold *hold, uint64_t size);
/* A hold that is all zeros has nothing to free. */
void hold_free(struct hold *hold);

/* True where an extent of `length` bytes, at most hold->size, can be taken. */
bool hold_room(const struct hold *hold, uint32_t length);

/* A WRITE begins: copies its data into a new extent. The caller has called hold_room(). */
struct hold_extent *hold_take(struct hold *hold, uint32_t file, uint64_t offset, const void *data,
			      uint32_t length);

/* Part of the WRITE was answered UNSTABLE, with this verifier; `ledger` counts the bytes. */
void hold_wrote(struct hold *hold, struct hold_extent *extent, struct ledger *ledger,
		const uint8_t verifier[LEDGER_VERIFIER]);

/* The WRITE has ended on `connection`. If it failed, the extent is dropped, since fio gets the
 * error; but if it was written again, the extent stays, and counts as lost. */
void hold_finished(struct hold *hold, struct hold_extent *extent, bool failed, uint32_t connection);

/* The caller now sends COMMITs that cover all answered WRITEs. */
void hold_begin_commit(struct hold *hold);

/* True where extents that no COMMIT covers take half of the hold: the next COMMIT is due. */
static inline bool hold_half_uncovered(const struct hold *hold)
{
	return hold->uncovered >= hold->size / 2;
}

/* A COMMIT that was sent when hold->clock was `sent` succeeded: an extent answered until then is
 * durable if it has the same verifier, else lost. */
void hold_committed(struct hold *hold, const struct ledger *ledger, uint64_t sent,
		    const uint8_t verifier[LEDGER_VERIFIER]);

/* The COMMIT failed: extents that it covers are dropped, or lost if they were written again. */
void hold_commit_failed(struct hold *hold, const struct ledger *ledger, uint64_t sent);

/* Drops the extents of a file. */
void hold_forget(struct hold *hold, uint32_t file);

/* Drops the extents of a file, except the durable ones: these go to `twin`, the file's other
 * number, since a replay has to write them again over older ones. */
void hold_hand_over(struct hold *hold, uint32_t file, uint32_t twin);

/* Extent `number`, from hold->first on and below hold->end. */
static inline struct hold_extent *hold_extent(const struct hold *hold, uint64_t number)
{
	return &hold->extents[number % hold->extent_max];
}

/* Each extent, the oldest first. The body has no break. */
#define for_each_extent(hold, extent)                                            \
	for (uint64_t number_ = (hold)->first; number_ < (hold)->end; number_++) \
		for (struct hold_extent *extent = hold_extent(hold, number_); extent; extent = NULL)

/* Begins a replay of every extent: replies to earlier WRITEs no longer count. Returns the bytes to
 * write. The caller takes no new extent until the replay is over. */
uint64_t hold_begin_replay(struct hold *hold);

/* A WRITE of an extent begins once more. */
void hold_again(struct hold *hold, struct hold_extent *extent);
