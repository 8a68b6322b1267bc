/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4_results.h - decodes the values in NFSv4.1's results, for nfs4.c and nfs4_meta.c. After a
 * contradiction, or past the end of the message, numbers are 0, and no bytes are copied.
 */
#pragma once

#include "nfs/nfs4.h"

enum {
	CHANGE_INFO = 20,     /* bytes of change_info4 */
	BITMAP_WORDS_MAX = 8, /* our limit: RFC 8881 defines attributes in three words */
	BIT_BEHIND = 63,      /* set for any attribute in later words */
};

static inline bool readable(const struct nfs4_results *results)
{
	return !results->broken && !results->in->bad;
}

/* Sets `broken` if not `sound`; does nothing past the end of the message. */
static inline void require(struct nfs4_results *results, bool sound)
{
	if (!sound && !results->in->bad)
		results->broken = true;
}

/* The next `size` bytes (a multiple of 4); NULL where they cannot be read. */
static inline const uint8_t *take(struct nfs4_results *results, size_t size)
{
	return results->broken ? NULL : xdr_skip(results->in, (uint32_t)size);
}

static inline uint32_t word_at(const uint8_t *bytes, size_t index)
{
	uint32_t wire;

	memcpy(&wire, bytes + index * sizeof(wire), sizeof(wire));
	return be32toh(wire);
}

static inline uint32_t get_u32(struct nfs4_results *results)
{
	return results->broken ? 0 : xdr_get_u32(results->in);
}

static inline uint64_t get_u64(struct nfs4_results *results)
{
	return results->broken ? 0 : xdr_get_u64(results->in);
}

static inline bool get_bool(struct nfs4_results *results)
{
	uint32_t value = get_u32(results);

	require(results, value <= 1);
	return value;
}

/* `size` is a multiple of 4. */
static inline void get_fixed(struct nfs4_results *results, void *to, size_t size)
{
	if (!results->broken)
		xdr_get_fixed(results->in, to, (uint32_t)size);
}

/* Reads an opaque or a string of at most `max` bytes; returns its length. `to`: NULL to skip it. */
static inline uint32_t get_opaque(struct nfs4_results *results, void *to, uint32_t max)
{
	uint32_t length = get_u32(results);
	const uint8_t *bytes;

	require(results, length <= max);
	bytes = take(results, (size_t)length + xdr_pad(length));
	if (!bytes)
		return 0;
	if (to)
		memcpy(to, bytes, length);
	return length;
}

static inline void skip_opaque(struct nfs4_results *results)
{
	get_opaque(results, NULL, NFS4_OPAQUE_MAX);
}

static inline void skip_change_info(struct nfs4_results *results)
{
	get_bool(results); /* atomic */
	take(results, CHANGE_INFO - sizeof(uint32_t));
}

/* Returns the bits of the first two words. Later words, which we never request, share one bit. */
static inline uint64_t get_bitmap(struct nfs4_results *results)
{
	uint32_t words = get_u32(results);
	uint64_t all = 0;

	require(results, words <= BITMAP_WORDS_MAX);
	for (uint32_t i = 0; i < words && readable(results); i++) {
		uint64_t word = get_u32(results);

		all |= i < 2 ? word << 32 * i : (uint64_t) !!word << BIT_BEHIND;
	}
	return all;
}
