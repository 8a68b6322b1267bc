/* SPDX-License-Identifier: GPL-2.0-only */
#include "spread.h"

#include <stdlib.h>

struct load_entry {
	int64_t bytes;	/* in flight */
	uint64_t given; /* the number of the latest assignment; 0: none yet */
};

struct spread_load {
	uint32_t count;
	uint32_t *winners; /* by node of the tournament; in memory behind the entries */
	uint64_t assignments;
	struct load_entry entries[];
};

/* The less loaded one; of equals the one whose latest assignment is older, then the first. */
static uint32_t better(const struct spread_load *load, uint32_t a, uint32_t b)
{
	const struct load_entry *left = &load->entries[a], *right = &load->entries[b];

	if (left->bytes != right->bytes)
		return left->bytes < right->bytes ? a : b;
	if (left->given != right->given)
		return left->given < right->given ? a : b;
	return a < b ? a : b;
}

static void play(struct spread_load *load, size_t node)
{
	load->winners[node] = better(load, load->winners[2 * node], load->winners[2 * node + 1]);
}

struct spread_load *spread_load_new(uint32_t count)
{
	size_t entries = count * sizeof(struct load_entry), winners = 2 * sizeof(uint32_t) * count;
	struct spread_load *load = calloc(1, sizeof(*load) + entries + winners);

	if (!load)
		return NULL;
	load->count = count;
	load->winners = (uint32_t *)(load->entries + count);
	for (uint32_t connection = 0; connection < count; connection++)
		load->winners[count + connection] = connection;
	for (size_t node = count - 1; node; node--)
		play(load, node);
	return load;
}

void spread_load_free(struct spread_load *load)
{
	free(load);
}

void spread_load_add(struct spread_load *load, uint32_t connection, int64_t bytes)
{
	load->entries[connection].bytes += bytes;
	if (bytes > 0)
		load->entries[connection].given = ++load->assignments;
	for (size_t node = ((size_t)load->count + connection) / 2; node; node /= 2)
		play(load, node);
}

uint32_t spread_load_least(const struct spread_load *load)
{
	return load->winners[1];
}

/* A 32-bit division costs a fraction of a 64-bit one, and few stripe numbers need 64 bits. */
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
 * Under SPREAD_STRIPE an I/O that begins at the last byte of a stripe has the most pieces: that
 * byte, then the whole stripes behind it, then the rest.
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
