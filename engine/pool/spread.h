/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * spread.h - spreads a job's I/O over its connections. Pure arithmetic on connection numbers.
 *
 * A job has connections 0 … count-1. With `paths` paths and `nconnect` connections on each,
 * connection c uses path c mod paths, so that consecutive connections use different paths.
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
 * Finds the connection with the fewest bytes in flight, by a tournament tree: a look-up takes
 * constant time, and a change log2(count) steps. Of equals the one whose latest assignment is older
 * wins, so that idle connections take turns even with one I/O in flight; those never assigned come
 * first, in order of their numbers.
 */
struct spread_load;

/*
 * Spreads over `count` connections: first, first + step, and so on. spread_cut() changes `next`,
 * and reads `load`; the rest is set once.
 */
struct spread {
	enum spread_policy policy;
	uint32_t first, step;	  /* 0 and 1, or a job's path and `paths` under SPREAD_JOB */
	uint32_t count;		  /* connections, at least 1 */
	uint64_t stripe_size;	  /* SPREAD_STRIPE: bytes, at least 1 */
	uint32_t next;		  /* SPREAD_JOB and SPREAD_ROUNDROBIN: the next one, below count */
	struct spread_load *load; /* SPREAD_QUEUE: of all connections; not owned */
};

/*
 * Cuts the first piece off the run [offset, offset+length): at most max_length bytes. Under
 * SPREAD_STRIPE, stripe s begins at s * stripe_size and goes over the (s mod count)-th connection;
 * no piece crosses a stripe's end. The other policies choose a connection for the `first` piece of
 * an I/O and keep it (in piece->connection) for the rest. SPREAD_QUEUE only reads the load: the
 * caller adds and later subtracts a piece's bytes. length and max_length are at least 1.
 */
void spread_cut(struct spread *spread, uint64_t offset, uint32_t length, uint32_t max_length,
		int first, struct spread_piece *piece);

/* The most pieces that an I/O of `length` bytes is cut into, over all offsets. */
uint32_t spread_pieces_max(const struct spread *spread, uint32_t length, uint32_t max_length);

struct spread_load *spread_load_new(uint32_t count); /* at least 1; NULL: out of memory */
void spread_load_free(struct spread_load *load);     /* NULL is allowed */
/* Adds bytes assigned to a connection; a negative number subtracts bytes that are finished. */
void spread_load_add(struct spread_load *load, uint32_t connection, int64_t bytes);
uint32_t spread_load_least(const struct spread_load *load);
