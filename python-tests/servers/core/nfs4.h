/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4.h - NFSv4.1's numbers that servers know beside the engine's, and its sets of attributes (RFC
 * 8881).
 */
#pragma once

#include "nfs/nfs4_meta.h"

enum { NFS4_MINOR_MIN = 1, NFS4_MINOR_MAX = 2 };
enum { NFS4_FIRST = 3, NFS4_LAST = 75 }; /* of version 4.2, RFC 7862 and RFC 8276 */

enum { OPEN4_CREATE = 1 };
enum { GUARDED4 = 1, EXCLUSIVE4 = 2, EXCLUSIVE4_1 = 3 };
enum { OPEN_DELEGATE_NONE = 0, OPEN_DELEGATE_READ = 1 };
enum { EXCHGID4_FLAG_USE_NON_PNFS = 0x10000, SP4_NONE = 0 };
enum { CDFC4_BACK_OR_BOTH = 7, CDFS4_BOTH = 3 };

/* --- attributes: a set of them is a number, whose bit N is attribute N (5) --- */

enum { NFS4_ATTR_SUPPORTED_ATTRS = 0, NFS4_ATTR_FH_EXPIRE_TYPE = 2, FH4_PERSISTENT = 0 };

static inline uint64_t attribute(uint32_t number)
{
	return 1ull << number;
}

/* All that can be served: for struct limits. */
uint64_t attributes_all(void);

/* A client's set, of which those from 64 on are forgotten. */
static inline uint64_t get_attributes(struct xdr_in *in)
{
	uint32_t words = xdr_get_u32(in);
	uint64_t set = 0;

	for (uint32_t i = 0; i < words && !in->bad; i++) {
		uint64_t word = xdr_get_u32(in);

		if (i < 2)
			set |= word << 32 * i;
	}
	return set;
}
