/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * listing.h - how far the listing of a directory has come (RFC 1813, 3.3.16; RFC 8881, 18.23): from
 * the beginning to the end of the directory, as readdir(3) reads it, by one READDIR after the
 * other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
	LISTING_VERIFIER = 8,
	LISTING_STARTS_MAX = 4,	     /* times that it begins, where the server forgets cookies */
	LISTING_MISSES_MAX = 16,     /* times that the server misses a name of a page */
	LISTING_NAMES_MAX = 1 << 28, /* of a directory, ours: a listing ends */
};

struct path;

/* Of zeros: at the beginning. */
struct listing {
	uint64_t cookie; /* the last one of the server's: the next READDIR goes on behind it */
	uint8_t verifier[LISTING_VERIFIER]; /* of the cookies */
	uint64_t names;			    /* so far */
	uint64_t milestone; /* a cookie of before: one that comes again is a circle … */
	uint32_t pages;	    /* … of any length, if it is moved after 1, 2, 4 … READDIRs */
	uint32_t starts;
	uint32_t misses;	 /* of the page that is asked for */
	const struct path *path; /* that it is read over; NULL: not begun */
};

/* Begins anew; because the server forgot its cookies, it did so `starts` times. */
static inline void listing_begin(struct listing *listing, uint32_t starts)
{
	*listing = (struct listing){.starts = starts, .path = listing->path};
}

/* A READDIR has brought so many names, the last with `cookie`. False: this does not end. */
static inline bool listing_went_on(struct listing *listing, uint32_t names, uint64_t cookie,
				   const uint8_t verifier[LISTING_VERIFIER])
{
	if (!names || cookie == listing->cookie || (listing->pages && cookie == listing->milestone))
		return false;
	listing->cookie = cookie;
	memcpy(listing->verifier, verifier, LISTING_VERIFIER);
	listing->names += names;
	listing->pages++;
	listing->misses = 0;
	if (!(listing->pages & (listing->pages - 1)))
		listing->milestone = cookie;
	return listing->names <= LISTING_NAMES_MAX;
}
