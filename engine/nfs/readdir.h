/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * readdir.h - what a READDIR brings: dirlist3 (RFC 1813, 3.3.16) or dirlist4 without attributes
 * (RFC 8881, 18.23), behind the verifier of its cookies. No socket, no state, nothing is copied.
 */
#pragma once

#include "nfs/listing.h"
#include "wire/xdr.h"

enum {
	READDIR_BYTES = 32 * 1024, /* of results, that one READDIR asks for where they fit */
	READDIR_ROOM = 176, /* bytes for headers, Kerberos's, too, and what a compound has before
			       the results */
	READDIR_BYTES_MIN = 512,
	READDIR_NAME_MAX = 1024, /* bytes, ours: no file system has longer names */
};

/* NULL and zeros: there are none. */
struct readdir_page {
	const uint8_t *verifier;      /* LISTING_VERIFIER bytes */
	const uint8_t *entries, *end; /* for readdir_next() */
	uint32_t count;
	uint64_t cookie; /* of the last */
	bool eof, nfs4;
};

struct readdir_entry {
	const char *name; /* without a NUL */
	uint32_t length;
	uint64_t cookie;
};

/*
 * in->bad: more bytes are needed. False: the results contradict themselves. Then, and where
 * in->bad, *page is of zeros.
 */
bool readdir_decode(struct xdr_in *in, bool nfs4, struct readdir_page *page);

/* The next entry of a page: `in` begins as {page->entries, page->end}. False: there is none. */
bool readdir_next(struct xdr_in *in, const struct readdir_page *page, struct readdir_entry *entry);

/* What one READDIR asks for, where a reply has at most `reply_max` bytes. */
static inline uint32_t readdir_bytes(uint32_t reply_max)
{
	uint32_t room = reply_max > READDIR_ROOM ? reply_max - READDIR_ROOM : 0;

	if (room < READDIR_BYTES_MIN)
		return READDIR_BYTES_MIN;
	return room < READDIR_BYTES ? room : READDIR_BYTES;
}
