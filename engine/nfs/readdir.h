/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * readdir.h - lists a directory by repeated READDIRs (RFC 1813, 3.3.16; RFC 8881, 18.23): the state
 * of a listing, and the page that one READDIR returns: the cookie verifier, then dirlist3 or
 * dirlist4 without attributes. No sockets, no copies.
 */
#pragma once

#include "wire/xdr.h"

/* --- a listing, from the beginning to the end of the directory, as readdir(3) reads it --- */

enum {
	LISTING_VERIFIER = 8,
	LISTING_MISSES_MAX = 16, /* READDIRs in a row that fail with NOENT or STALE */
	LISTING_EMPTY_MAX = 8,
	LISTING_NAMES_MAX = 1 << 28, /* of a directory; ours, so that a listing ends */
};

struct path;

/* All 0 at the beginning. */
struct listing {
	uint64_t cookie; /* the latest from the server: the next READDIR starts after it */
	uint8_t verifier[LISTING_VERIFIER]; /* of the cookies */
	uint64_t names;			    /* names listed so far */
	uint64_t milestone; /* an earlier cookie: if it comes again, the listing is a circle */
	uint32_t pages;	    /* READDIRs; the milestone moves after 1, 2, 4 and so on: circles of any
			       length are found */
	uint32_t misses;    /* failures of the current READDIR */
	uint32_t empty;	    /* pages without a name, in a row */
	const struct path *path; /* the path that it is read over; NULL: not begun */

	/* For a server that forgets cookies: the verifier of the last forgotten ones, and when the
	 * server began to forget them: see listing_forgotten(). */
	uint8_t forgotten[LISTING_VERIFIER];
	uint64_t forgotten_since; /* by the client's clock; 0: no cookie was forgotten */
};

static inline void listing_begin_anew(struct listing *listing)
{
	struct listing begun = {.path = listing->path, .forgotten_since = listing->forgotten_since};

	memcpy(begun.forgotten, listing->forgotten, LISTING_VERIFIER);
	*listing = begun;
}

/* True if the verifier differs from the last forgotten one: somebody changes the directory. */
static inline bool listing_changed(const struct listing *listing)
{
	return memcmp(listing->verifier, listing->forgotten, LISTING_VERIFIER);
}

/*
 * Called when the server has forgotten its cookies. Returns how many nanoseconds ago it began to.
 * With `patient` that time starts again when the directory has changed.
 */
static inline uint64_t listing_forgotten(struct listing *listing, uint64_t now, bool patient)
{
	if (!listing->forgotten_since || (patient && listing_changed(listing)))
		listing->forgotten_since = now;
	memcpy(listing->forgotten, listing->verifier, LISTING_VERIFIER);
	return now - listing->forgotten_since;
}

/*
 * Called after a READDIR that returned `names` names, the last with `cookie`, but not the end of
 * the directory. Returns NULL, or why the listing would never end. Servers send a page without a
 * name where all names of a block were removed: the same READDIR is sent again.
 */
static inline const char *listing_stuck(struct listing *listing, uint32_t names, uint64_t cookie,
					const uint8_t verifier[LISTING_VERIFIER])
{
	if (!names && ++listing->empty < LISTING_EMPTY_MAX)
		return NULL;
	if (!names)
		return "8 pages in a row have no name, and are not the end of the directory either";
	if (cookie == listing->cookie || (listing->pages && cookie == listing->milestone))
		return "the listing neither advances nor ends";
	listing->empty = 0;
	listing->cookie = cookie;
	memcpy(listing->verifier, verifier, LISTING_VERIFIER);
	listing->names += names;
	listing->pages++;
	listing->misses = 0;
	if (!(listing->pages & (listing->pages - 1)))
		listing->milestone = cookie;
	return listing->names > LISTING_NAMES_MAX ? "the directory has no end" : NULL;
}

/* --- a page of it --- */

enum {
	READDIR_BYTES = 32 * 1024, /* of results that one READDIR requests, if they fit */
	READDIR_ROOM = 176, /* bytes for headers (also Kerberos's), and for what a compound has
			       before the results */
	READDIR_BYTES_MIN = 512,
	READDIR_NAME_MAX = 1024, /* bytes, ours: no file system has longer names */
};

/* The page that a READDIR returned. */
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

void readdir_decode(struct xdr_in *in, bool nfs4, struct readdir_page *page);

/* The next entry of a page: `in` begins as {page->entries, page->end}. False: there is none. */
bool readdir_next(struct xdr_in *in, const struct readdir_page *page, struct readdir_entry *entry);

/* The bytes that one READDIR requests, if a reply has at most `reply_max` bytes. */
static inline uint32_t readdir_bytes(uint32_t reply_max)
{
	uint32_t room = reply_max > READDIR_ROOM ? reply_max - READDIR_ROOM : 0;

	if (room < READDIR_BYTES_MIN)
		return READDIR_BYTES_MIN;
	return room < READDIR_BYTES ? room : READDIR_BYTES;
}
