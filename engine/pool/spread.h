/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * spread.h - how a job's I/O is laid over its connections. Pure arithmetic on their numbers.
 *
 * A job has connections 0 … count-1. With `paths` paths and `nconnect` connections on each,
 * connection c lies on path c mod paths, so that neighbours lie on different paths.
 */
#pragma once

#include <stdint.h>

#include "terms/choices.h"

/* A run of bytes that goes over one connection. */
struct spread_piece {
	uint64_t offset; /* in the file */
	uint32_t length;
	uint32_t connection;
};

/*
 * Finds the connection with the fewest bytes in flight, by a tournament: asking costs nothing, and
 * a change costs log2(count) steps. Of equals the connection that was given bytes longest ago wins,
 * so that idle connections take turns even with one I/O in flight; of those that were given none
 * yet the lowest number wins.
 */
struct spread_load;

/*
 * Spreads over `count` connections: first, first + step, … spread_cut() changes `next` and reads
 * `load`; the rest is set once.
 */
struct spread {
	enum spread_policy policy;
	uint32_t first, step;	  /* 0 and 1, or a job's path and `paths` under SPREAD_JOB */
	uint32_t count;		  /* connections, at least 1 */
	uint64_t stripe_size;	  /* SPREAD_STRIPE: bytes, at least 1 */
	uint32_t next;		  /* SPREAD_JOB and SPREAD_ROUNDROBIN: whose turn, below count */
	struct spread_load *load; /* SPREAD_QUEUE: of all connections; not owned */
};

/*
 * Cuts the first piece off the run [offset, offset+length): at most max_length bytes. Under
 * SPREAD_STRIPE, stripe s begins at s * stripe_size and goes over the (s mod count)-th connection;
 * no piece crosses a stripe's end. The other policies choose a connection for the `first` piece of
 * an I/O and keep it (in piece->connection) for the rest. SPREAD_QUEUE only reads the load: the
 * caller adds a piece's bytes to it, and takes them off. length and max_length are at least 1.
 */
void spread_cut(struct spread *spread, uint64_t offset, uint32_t length, uint32_t max_length,
		int first, struct spread_piece *piece);

/* The most pieces that an I/O of `length` bytes is cut into, over all offsets. */
uint32_t spread_pieces_max(const struct spread *spread, uint32_t length, uint32_t max_length);

struct spread_load *spread_load_new(uint32_t count); /* at least 1; NULL: out of memory */
void spread_load_free(struct spread_load *load);     /* NULL is allowed */
/* Adds bytes that a connection was given, or takes off (negative) those that it has moved. */
void spread_load_add(struct spread_load *load, uint32_t connection, int64_t bytes);
uint32_t spread_load_least(const struct spread_load *load);
