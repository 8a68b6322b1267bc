/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * load.c - a tournament over the connections, kept as a binary tree in an array: node n plays its
 * children 2n and 2n+1 against each other, node 1 is the winner of all, and the connections stand
 * in the nodes count … 2*count-1. It needs no power of two.
 */
#include <stdlib.h>

#include "spread.h"

struct load_entry {
	int64_t bytes;	/* in flight */
	uint64_t given; /* when it was last given bytes, counted in assignments */
};

struct spread_load {
	uint32_t count;
	uint32_t *winners; /* of the nodes */
	uint64_t assignments;
	struct load_entry entries[];
};

/* The less loaded; of equals the one that has rested longest; of those that never ran the first. */
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
	struct spread_load *load;

	load = calloc(1, sizeof(*load) + count * sizeof(*load->entries));
	if (!load)
		return NULL;
	load->count = count;
	load->winners = calloc(2 * (size_t)count, sizeof(*load->winners));
	if (!load->winners) {
		free(load);
		return NULL;
	}
	for (uint32_t connection = 0; connection < count; connection++)
		load->winners[count + connection] = connection;
	for (size_t node = count - 1; node; node--)
		play(load, node);
	return load;
}

void spread_load_free(struct spread_load *load)
{
	if (load)
		free(load->winners);
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
