/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4_results.h - decodes values that several of NFSv4.1's results have, for nfs4.c, nfs4_meta.c
 * and readdir.c.
 */
#pragma once

#include "nfs/nfs4.h"

enum {
	CHANGE_INFO = 20,     /* bytes of change_info4 */
	BITMAP_WORDS_MAX = 8, /* our limit: RFC 8881 defines attributes in three words */
	BIT_BEHIND = 63,      /* set for any attribute in later words */
};

static inline uint32_t word_at(const uint8_t *bytes, size_t index)
{
	uint32_t wire;

	memcpy(&wire, bytes + index * sizeof(wire), sizeof(wire));
	return be32toh(wire);
}

static inline void skip_opaque(struct xdr_in *in)
{
	xdr_get_opaque(in, NULL, NFS4_OPAQUE_MAX);
}

static inline void skip_change_info(struct xdr_in *in)
{
	xdr_get_bool(in); /* atomic */
	xdr_skip(in, CHANGE_INFO - sizeof(uint32_t));
}

/* Returns the bits of the first two words. Later words, which we never request, share one bit. */
static inline uint64_t get_bitmap(struct xdr_in *in)
{
	uint32_t words = xdr_get_u32(in);
	uint64_t all = 0;

	xdr_require(in, words <= BITMAP_WORDS_MAX);
	for (uint32_t i = 0; i < words && !in->bad; i++) {
		uint64_t word = xdr_get_u32(in);

		all |= i < 2 ? word << 32 * i : (uint64_t) !!word << BIT_BEHIND;
	}
	return all;
}
