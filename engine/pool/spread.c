/* SPDX-License-Identifier: GPL-2.0-only */
#include "spread.h"

uint32_t spread_path_of_job(uint32_t job, uint32_t paths)
{
	return job % paths;
}

/* A 32-bit division costs a fraction of a 64-bit one, and stripes are rarely numbered beyond it. */
static uint32_t column_of(uint64_t stripe, uint32_t count)
{
	return stripe <= UINT32_MAX ? (uint32_t)stripe % count : (uint32_t)(stripe % count);
}

static uint32_t take_turn(struct spread *spread)
{
	uint32_t turn = spread->next;

	spread->next = turn + 1 < spread->count ? turn + 1 : 0;
	return spread->first + turn * spread->step;
}

void spread_cut(struct spread *spread, uint64_t offset, uint32_t length, uint32_t max_length,
		int first, struct spread_piece *piece)
{
	uint32_t most = length < max_length ? length : max_length;

	piece->offset = offset;
	if (spread->policy == SPREAD_STRIPE) {
		uint64_t stripe = offset / spread->stripe_size;
		uint64_t left = spread->stripe_size - offset % spread->stripe_size;

		piece->length = left < most ? (uint32_t)left : most;
		piece->connection = spread->first + column_of(stripe, spread->count) * spread->step;
		return;
	}
	piece->length = most;
	if (!first)
		return;
	piece->connection = spread->policy == SPREAD_QUEUE ? spread_load_least(spread->load)
							   : take_turn(spread);
}

static uint64_t pieces(uint64_t length, uint32_t max_length)
{
	return length / max_length + (length % max_length != 0);
}

/*
 * Under SPREAD_STRIPE the I/O that begins at the last byte of a stripe is cut most often: that byte
 * is a piece, the whole stripes behind it and the rest follow.
 */
uint32_t spread_pieces_max(const struct spread *spread, uint32_t length, uint32_t max_length)
{
	uint32_t behind = length - 1;
	uint64_t stripes;

	if (spread->policy != SPREAD_STRIPE)
		return (uint32_t)pieces(length, max_length);
	stripes = behind / spread->stripe_size;
	return (uint32_t)(1 + stripes * pieces(spread->stripe_size, max_length) +
			  pieces(behind % spread->stripe_size, max_length));
}
