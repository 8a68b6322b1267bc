/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * meta_io.h - the state of a metadata operation, in addition to its struct conn_io. The owner keeps
 * one for each such I/O, in io->meta.
 */
#pragma once

#include "nfs/nfs4_meta.h"

struct conn_io;
struct path;

/* The state of a handle that a call needs. */
enum handle_state {
	HANDLE_GOOD,
	HANDLE_STALE,	/* must be looked up again, once */
	HANDLE_RENEWED, /* was looked up again */
};

struct meta_io {
	/* Set by the owner before it submits the I/O; all other members are 0 then. */
	enum meta_op op;
	bool reversed; /* a rename from the other name to the first; a removal of the other */
	struct meta_kind expected; /* META_GETATTR, META_LOOKUP; of type 0: anything */
	/* META_READDIR: called with each name, without a NUL; NULL: the listing starts again.
	 * `listed` may be NULL. */
	void (*listed)(struct conn_io *io, const char *name, uint32_t length);

	/* After EILSEQ: the entry's real type and size, which differ from `expected`. */
	struct meta_kind found;

	/* nfs/meta_call.h's: the next call, or the one under way. */
	uint32_t sends;	      /* transmissions of the operation itself, not of a LOOKUP before it */
	bool looks_up;	      /* the call is a LOOKUP */
	bool finds_directory; /* that LOOKUP is of a directory on the way to the entry */
	bool maybe_removed;   /* an earlier copy of a removal may have been carried out */
	enum handle_state handle_state, directory_state; /* of the entry, and of its directory */
	const struct path *renewed_over; /* the path over which that handle was looked up again */
	struct nfs_handle handle;	 /* of the directory that the walk has reached; see `way` */
	struct {			 /* the walk from the root to the entry's directory: */
		const struct path *path; /* the path that it goes over */
		uint32_t depth;		 /* names walked so far; `handle` is the last one's */
	} way;
	struct listing listing; /* META_READDIR */

	/* NFSv4: the state that META_OPEN and META_CREATE left at the server, to be returned. */
	bool closes; /* their compound also has the CLOSE */
	struct {
		const struct path *path; /* to their server; NULL: nothing is left */
		bool open;		 /* by the stateid in `opened` */
		struct nfs4_open_result opened;
	} left;
};
