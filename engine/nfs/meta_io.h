/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * meta_io.h - what a metadata operation has beside its struct conn_io: its owner keeps one for each
 * such I/O, in io->meta.
 */
#pragma once

#include "nfs/meta.h"

struct conn_io;
struct path;

/* A handle that a call was to use. */
enum handle_state {
	HANDLE_GOOD,
	HANDLE_STALE,	/* it is to be looked up again: once */
	HANDLE_RENEWED, /* that was done */
};

struct meta_io {
	/* The owner's, set before the I/O is submitted; all else is zeros then. */
	enum meta_op op;
	bool reversed; /* a rename from the other name to the first; a removal of the other */
	struct meta_kind expected; /* META_GETATTR, META_LOOKUP; of type 0: anything */
	/* META_READDIR: takes each name, without a NUL; NULL where the listing begins anew.
	 * `listed` may be NULL. */
	void (*listed)(struct conn_io *io, const char *name, uint32_t length);

	/* The result of EILSEQ: what the entry is, instead of what was expected. */
	struct meta_kind found;

	/* nfs/meta_call.h's: the next call, or the one under way. */
	uint32_t sends;	      /* transmissions of the operation itself, not of a LOOKUP before it */
	bool looks_up;	      /* the call looks the entry up first */
	bool finds_directory; /* the call is for the handle of the entry's directory */
	bool maybe_removed;   /* an earlier copy of a removal may have been carried out */
	enum handle_state handle_state, directory_state; /* of the entry, and of its directory */
	const struct path
		*renewed_over;	  /* the path whose handle of the entry was looked up again */
	struct nfs_handle handle; /* of length 0: not known; see `way` */
	struct {		  /* the walk to the entry's directory: */
		const struct path *path; /* over this path, from its root */
		uint32_t depth;		 /* names walked so far; `handle` is the last one's */
	} way;
	struct listing listing; /* META_READDIR */

	/* NFSv4: what META_OPEN and META_CREATE have left at the server, to be given back. */
	bool closes; /* their compound has the CLOSE as well */
	struct {
		const struct path *path; /* to their server; NULL: nothing is left */
		bool open, delegated;	 /* by these stateids */
		uint8_t opened[16], delegation[16];
	} left;
};
