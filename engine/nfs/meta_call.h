/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * meta_call.h - what the next call of a metadata operation asks, and what its answer means: the
 * same in NFSv3 and NFSv4. No socket, nothing blocks.
 *
 * One operation may take several calls. An operation on the entry's handle begins with a LOOKUP
 * where the handle is not known, as in any NFS client. A stale handle is looked up again, once over
 * each path; a directory's by a LOOKUP for each name on the way from the root. A rename or
 * a removal that does not find the entry's first name takes the other name. A directory is listed
 * by as many calls as it takes, and again from its start if the server forgets its cookies.
 *
 * If a call was sent more than once, an earlier copy may have been carried out: then the object to
 * make already exists, or the object to remove no longer does.
 */
#pragma once

#include "client/client.h"
#include "nfs/entries.h"
#include "nfs/nfs4_meta.h"
#include "nfs/path.h"

/*
 * A metadata operation on a handle, or a name in a directory, over either version of NFS. It is not
 * for a job's entries, and does not handle lost replies: the caller finds out whether a copy
 * without a reply was carried out.
 */
struct meta_request {
	struct rpc_request base; /* with `meta` set */
	/* LOOKUP, GETATTR, ACCESS, READDIR, MKDIR, REMOVE, RMDIR, FSSTAT or FSINFO; over NFSv3
	 * CREATE and SETATTR too, over NFSv4 ROOT. */
	struct meta_arguments arguments;
	/* Without READDIR's page, which stays in the reply: listed() gets it. */
	struct meta_result result;
	/* READDIR: called with each page. */
	void (*listed)(struct meta_request *request, const struct readdir_page *page);
};

static inline struct meta_request *meta_request_of(const struct call *call)
{
	return (struct meta_request *)call->request;
}

/* The request was answered with success. */
static inline enum disposition meta_request_take(const struct call *call,
						 const struct meta_result *result)
{
	struct meta_request *request = meta_request_of(call);

	if (request->arguments.op == META_READDIR)
		request->listed(request, &result->page);
	request->result = *result;
	request->result.page = (struct readdir_page){0};
	return CALL_DONE;
}

/* --- an I/O that is a metadata operation --- */

/* The state of a handle that a call needs. */
enum handle_state {
	HANDLE_GOOD,
	HANDLE_STALE,	/* must be looked up again, once */
	HANDLE_RENEWED, /* was looked up again */
};

/* The state of a metadata operation, in addition to its struct conn_io. The owner keeps one for
 * each such I/O, in io->meta. */
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

	/* Used below: the next call, or the one under way. */
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

static inline const struct path *meta_path(const struct call *call)
{
	return call->rpc->server;
}

/* The entries' handles on the call's path. */
static inline struct entries *meta_entries(const struct call *call)
{
	return call->io->state;
}

static inline void meta_begin_listing(struct conn_io *io)
{
	listing_begin_anew(&io->meta->listing);
	if (io->meta->listed)
		io->meta->listed(io, NULL, 0);
}

/* The operation that the current call carries. */
static inline enum meta_op meta_asked(const struct call *call)
{
	return call->io->meta->looks_up ? META_LOOKUP : call->io->meta->op;
}

/* Called before each copy of `call` is sent. The first copy chooses the operation of all. */
static inline void meta_begin(const struct call *call)
{
	const struct path *path = meta_path(call);
	struct meta_io *meta = call->io->meta;
	struct nfs_handle known;

	if (call->tries == 1) {
		meta->finds_directory = meta->directory_state == HANDLE_STALE;
		/* A handle is valid on its path alone: over another path the way begins anew. */
		if (meta->finds_directory && meta->way.path != path) {
			meta->way.path = path;
			meta->way.depth = 0;
			meta->handle = meta_entries(call)->root;
		}
		meta->looks_up = meta->finds_directory ||
				 (meta_by_handle(meta->op) &&
				  (meta->handle_state == HANDLE_STALE ||
				   !entries_handle(meta_entries(call), call->io->offset, &known)));
		/* A cookie, too, is valid on its path alone. */
		if (meta->op == META_READDIR && meta->listing.path && meta->listing.path != path)
			meta_begin_listing(call->io);
		if (meta->op == META_READDIR)
			meta->listing.path = path;
	}
	if (!meta->looks_up) /* a LOOKUP changes nothing: another path may need one in between */
		meta->sends++;
}

/* The directory that the call works in; of length 0: the root of NFSv4's pseudo file system. */
static inline const struct nfs_handle *meta_directory(const struct call *call)
{
	const struct conn_io *io = call->io;

	return io->meta->finds_directory ? &io->meta->handle
					 : entries_directory(meta_entries(call), io->offset);
}

/* Fills the arguments that both versions share; a reply has at most `reply_max` bytes. */
static inline void meta_fill_arguments(const struct call *call, uint32_t reply_max,
				       struct meta_arguments *arguments)
{
	const struct entries *entries = meta_entries(call);
	const struct conn_io *io = call->io;
	enum meta_op op = meta_asked(call);

	*arguments = (struct meta_arguments){
		.op = op,
		.directory = meta_directory(call),
		.listing = &io->meta->listing,
		.bytes = readdir_bytes(reply_max),
	};
	if (io->meta->finds_directory)
		entries_way(entries, io->offset, io->meta->way.depth, arguments->name);
	else if (meta_by_handle(op))
		entries_handle(entries, io->offset, &arguments->handle);
	else if (op != META_READDIR)
		entries_name(entries, io->offset, io->meta->reversed, arguments->name);
	if (op == META_RENAME || op == META_LINK)
		entries_name(entries, io->offset, !io->meta->reversed, arguments->other);
}

/*
 * True where an earlier copy of the answered call may have been carried out. NFSv4.1: only a copy
 * with another slot or sequence; after one with the same this copy gets RETRY_UNCACHED_REP.
 */
static inline bool meta_sent_before(const struct call *call)
{
	return call->io->meta->sends > (call->epoch ? call->tries : 1);
}

/* The operation goes on with another call. */
static inline enum disposition meta_goes_on(struct conn_io *io, enum disposition disposition)
{
	io->meta->sends = 0;
	return disposition;
}

/* struct protocol's: a denied copy does not count as sent. */
static inline void meta_denied(struct call *call)
{
	if (call->io && call->io->op == IO_META && !call->io->meta->looks_up)
		call->io->meta->sends--;
}

/* The server has refused a call before it began: only earlier copies may have been carried out. */
static inline void meta_not_begun(const struct call *call)
{
	if (!call->io->meta->looks_up && !meta_sent_before(call))
		call->io->meta->sends = 0;
}

/* The call has succeeded. `handle`: the entry's; NULL, or of length 0: the reply has none. */
static inline enum disposition meta_done(const struct call *call, const struct nfs_handle *handle)
{
	struct conn_io *io = call->io;

	if ((handle && handle->length) || meta_removes(io->meta->op))
		entries_note(meta_entries(call), io->offset, handle);
	if (!io->meta->looks_up)
		return CALL_DONE;
	if (io->meta->handle_state == HANDLE_STALE) {
		io->meta->handle_state = HANDLE_RENEWED;
		io->meta->renewed_over = meta_path(call);
	}
	return CALL_PARTIAL;
}

/* A LOOKUP returned the handle of the next directory on the way to the entry. */
static inline enum disposition meta_walked(const struct call *call, const struct nfs_handle *found)
{
	struct entries *entries = meta_entries(call);
	struct conn_io *io = call->io;
	char next[COMPONENT_MAX];

	io->meta->handle = *found;
	if (!entries_way(entries, io->offset, ++io->meta->way.depth, next)) {
		entries_note_directory(entries, io->offset, found);
		io->meta->directory_state = HANDLE_RENEWED;
	}
	return CALL_PARTIAL;
}

/* True where `kind`, the type and size that the server returned, is as expected. */
static inline bool meta_as_expected(struct conn_io *io, const struct meta_kind *kind)
{
	const struct meta_kind *expected = &io->meta->expected;

	if (!expected->type || (!kind->type && io->meta->looks_up)) /* NFSv3: a GETATTR follows */
		return true;
	io->meta->found = *kind;
	return kind->type == expected->type &&
	       (kind->type == META_TYPE_DIRECTORY || kind->size == expected->size);
}

/* A READDIR returned a page. */
static inline enum disposition meta_listed(struct conn_io *io, const struct readdir_page *page,
					   struct call_result *result)
{
	struct xdr_in in = {page->entries, page->end, false};
	struct readdir_entry entry;
	const char *stuck;

	while (io->meta->listed && readdir_next(&in, page, &entry))
		io->meta->listed(io, entry.name, entry.length);
	if (page->eof)
		return CALL_DONE;
	stuck = listing_stuck(&io->meta->listing, page->count, page->cookie, page->verifier);
	return stuck ? call_fail(result, EPROTO, stuck) : meta_goes_on(io, CALL_PARTIAL);
}

/* The call's results were received in full. */
static inline enum disposition meta_answered(const struct call *call,
					     const struct meta_result *meta,
					     struct call_result *result)
{
	result->lookup = call->io->meta->looks_up;
	if (call->io->meta->finds_directory)
		return meta_walked(call, &meta->found);
	if (meta_asked(call) == META_READDIR)
		return meta_listed(call->io, &meta->page, result);
	if (!meta_as_expected(call->io, &meta->attributes.kind))
		return call_fail(result, EILSEQ, NULL);
	return meta_done(call, &meta->found);
}

/*
 * The server has forgotten a cookie. result->status is set. A job's own creates may change
 * the directory all the time: a listing over a hard path is repeated as long as the directory
 * changes, otherwise for a major time-out (nfs(5), retrans).
 */
static inline enum disposition meta_restart_listing(const struct call *call, int error,
						    struct call_result *result)
{
	const struct rpc_timing *timing = call->rpc->timing;
	const struct clock *clock = call->rpc->clock;
	struct conn_io *io = call->io;
	bool changed = listing_changed(&io->meta->listing);

	if (listing_forgotten(&io->meta->listing, clock->read(clock), !timing->soft) >
	    timer_major(timing))
		return call_fail(result, error,
				 "the server keeps forgetting the cookies of a listing");
	meta_begin_listing(io);
	return meta_goes_on(io, changed ? CALL_RETRY_NOW : CALL_RETRY_LATER);
}

/* A handle is stale. True where it is to be looked up again: each handle once over each path. */
static inline bool meta_renews(const struct call *call)
{
	struct conn_io *io = call->io;
	char first[COMPONENT_MAX];

	if (meta_by_handle(meta_asked(call))) {
		if (io->meta->handle_state == HANDLE_RENEWED &&
		    io->meta->renewed_over == meta_path(call))
			return false;
		io->meta->handle_state = HANDLE_STALE;
		io->meta->handle.length = 0;
		return true;
	}
	if ((io->meta->directory_state == HANDLE_RENEWED &&
	     io->meta->way.path == meta_path(call)) ||
	    !entries_way(meta_entries(call), io->offset, 0, first))
		return false;
	io->meta->directory_state = HANDLE_STALE;
	return true;
}

/* The server refused the call; `error`: its status as a positive errno. result->status is set. */
static inline enum disposition meta_refused(const struct call *call, int error,
					    struct call_result *result)
{
	struct conn_io *io = call->io;
	bool again = meta_sent_before(call);

	if (io->meta->finds_directory)
		return call_fail(result, error,
				 "the server does not know the handle of its directory any more, "
				 "and does not find that directory again");
	if (error == EEXIST && (meta_makes(io->meta->op) || io->meta->op == META_LINK) &&
	    !io->meta->looks_up && again)
		return CALL_DONE;
	if (error == ENOENT && meta_removes(io->meta->op) && io->meta->reversed &&
	    io->meta->maybe_removed)
		return meta_done(call, NULL);
	if (error == ENOENT && meta_removes(io->meta->op) && !io->meta->reversed)
		io->meta->maybe_removed = again;
	else if (error == ENOENT && meta_takes_other(io->meta->op) && again)
		return meta_done(call, NULL);
	if (error == ENOENT && meta_takes_other(io->meta->op) && !io->meta->reversed) {
		io->meta->reversed = true;
		return meta_goes_on(io, CALL_RETRY_NOW);
	}
	if (error == ESTALE && meta_renews(call))
		return again ? CALL_RETRY_NOW : meta_goes_on(io, CALL_RETRY_NOW);
	/* nfs-ganesha returns these when a name is removed meanwhile: the directory may exist. */
	if ((error == ENOENT || error == ESTALE) && io->meta->op == META_READDIR &&
	    ++io->meta->listing.misses < LISTING_MISSES_MAX)
		return meta_goes_on(io, CALL_RETRY_NOW);
	return call_fail(result, error, NULL);
}
