/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * meta_call.h - what the next call of a metadata operation asks, and what its answer means: the
 * same in NFSv3 and NFSv4. No socket, nothing blocks.
 *
 * One operation may take several calls. One that needs the entry's handle begins with a LOOKUP
 * where that is not known, as an NFS client does; a handle that has become stale is looked up once
 * more; a rename or a removal that does not find the entry's first name takes the other; and a
 * directory is listed by as many as it takes, from the beginning where the server forgets what its
 * cookies mean.
 *
 * A call that went out more than once may have been carried out the first time: then what it was to
 * make is there, and what it was to remove is not.
 *
 * Of an exclusive create the server tells that itself: its own file is no error. It sets no
 * attributes, so that a SETATTR follows; NFSv3 alone has it here.
 */
#ifndef NFSMULTI_NFS_META_CALL_H
#define NFSMULTI_NFS_META_CALL_H

#include <errno.h>

#include "nfs/entries.h"
#include "nfs/moved.h"
#include "nfs/readdir.h"

static inline void meta_begin_listing(struct conn_io *io, uint32_t starts)
{
	listing_begin(&io->listing, starts);
	if (io->listed)
		io->listed(io, NULL, 0);
}

/* A cookie is its server's own: over another path a listing begins anew. */
static inline void meta_lists_over(struct conn_io *io, const struct path *path)
{
	if (io->listing.path && io->listing.path != path)
		meta_begin_listing(io, io->listing.starts);
	io->listing.path = path;
}

/* A new file's handle is its path's own. */
static inline bool meta_looks_first(const struct conn_io *io, const struct path *path,
				    const struct entries *entries)
{
	uint32_t length;

	if (io->made)
		return io->made_over != path || !io->handle.length;
	return meta_by_handle(io->meta) &&
	       (io->stale == HANDLE_STALE || !entries_handle(entries, io->offset, &length));
}

/* What it asks, or has asked. */
static inline enum meta_op meta_asked(const struct call *call)
{
	if (call->io->looks)
		return META_LOOKUP;
	return call->io->made ? META_SETATTR : call->io->meta;
}

/* `call` is about to be sent over `path`: what it asks is decided the first time, and stays so. */
static inline enum meta_op meta_asks(const struct call *call, const struct path *path,
				     const struct entries *entries)
{
	struct conn_io *io = call->io;

	if (call->tries == 1) {
		io->looks = meta_looks_first(io, path, entries);
		if (io->meta == META_READDIR)
			meta_lists_over(io, path);
	}
	if (!io->looks) /* a LOOKUP changes nothing, and another path may need one in between */
		io->sends++;
	return meta_asked(call);
}

/*
 * True where an earlier copy of what is answered may have been carried out. A slot of NFSv4.1 tells
 * that none was which had its number: the server would have said so (RETRY_UNCACHED_REP).
 */
static inline bool meta_sent_before(const struct call *call)
{
	return call->io->sends > (call->epoch ? call->tries : 1);
}

/* Another call is to go on with the operation. */
static inline enum verdict meta_goes_on(struct conn_io *io, enum verdict verdict)
{
	io->sends = 0;
	return verdict;
}

/*
 * The server asks to wait: what it says it has not done, but an earlier copy may have been carried
 * out. `done`: so was what this one asks first, and only what follows in the compound was not.
 */
static inline enum verdict meta_waits(const struct call *call, bool done)
{
	if (!call->io->looks && !meta_sent_before(call) && !done)
		call->io->sends = 0;
	return CALL_DELAY;
}

/* It was answered with success; `handle` is the entry's, NULL where the reply has none. */
static inline enum verdict meta_done(const struct call *call, struct entries *entries,
				     const uint8_t *handle, uint32_t length)
{
	struct conn_io *io = call->io;

	if (handle)
		entries_note(entries, io->offset, handle, length);
	else if (meta_removes(io->meta))
		entries_note(entries, io->offset, NULL, 0);
	if (!io->looks)
		return CALL_DONE;
	if (io->stale == HANDLE_STALE)
		io->stale = HANDLE_RENEWED;
	return CALL_REST;
}

/* True where the entry is what it must be; `kind` is what its attributes say. */
static inline bool meta_as_expected(struct conn_io *io, const struct meta_kind *kind)
{
	const struct meta_kind *expected = &io->expected;

	if (!expected->type || (!kind->type && io->looks)) /* NFSv3: a GETATTR follows */
		return true;
	io->found = *kind;
	return kind->type == expected->type &&
	       (kind->type == META_TYPE_DIRECTORY || kind->size == expected->size);
}

static inline void meta_tell_names(struct conn_io *io, const struct readdir_page *page)
{
	struct xdr_in in = {page->entries, page->end, false};
	struct readdir_entry entry;

	while (io->listed && readdir_next(&in, page, &entry))
		io->listed(io, entry.name, entry.length);
}

/* A READDIR has brought a page. */
static inline enum verdict meta_listed(struct conn_io *io, const struct readdir_page *page,
				       struct call_result *result)
{
	meta_tell_names(io, page);
	if (page->eof)
		return CALL_DONE;
	if (!listing_went_on(&io->listing, page->count, page->cookie, page->verifier))
		return moved_fail(result, EPROTO,
				  "the listing does not advance, and not the end of the directory "
				  "either");
	return meta_goes_on(io, CALL_REST);
}

/* A cookie means nothing to the server any more. result->status is set. */
static inline enum verdict meta_lists_anew(struct conn_io *io, int error,
					   struct call_result *result)
{
	if (io->listing.starts + 1 >= LISTING_STARTS_MAX)
		return moved_fail(result, error,
				  "the server keeps forgetting the cookies of a listing");
	meta_begin_listing(io, io->listing.starts + 1);
	return meta_goes_on(io, CALL_AGAIN);
}

/* The server refused it with what is a positive errno. result->status is set. */
static inline enum verdict meta_refused(const struct call *call, struct entries *entries, int error,
					struct call_result *result)
{
	struct conn_io *io = call->io;
	bool again = meta_sent_before(call);

	if (error == EEXIST && (meta_makes(io->meta) || io->meta == META_LINK) && !io->looks &&
	    again && !io->exclusive)
		return CALL_DONE;
	if (error == ENOENT && meta_removes(io->meta) && io->back && io->taken)
		return meta_done(call, entries, NULL, 0);
	if (error == ENOENT && meta_removes(io->meta) && !io->back)
		io->taken = again;
	else if (error == ENOENT && meta_takes_other(io->meta) && again)
		return meta_done(call, entries, NULL, 0);
	if (error == ENOENT && meta_takes_other(io->meta) && !io->back) {
		io->back = true;
		return meta_goes_on(io, CALL_AGAIN);
	}
	/* nfs-ganesha, where a name is removed while it lists; the directory may be there. */
	if ((error == ENOENT || error == ESTALE) && io->meta == META_READDIR &&
	    ++io->listing.misses < LISTING_MISSES_MAX)
		return meta_goes_on(io, CALL_AGAIN);
	if (error == ESTALE && meta_by_handle(io->meta) && !io->looks && io->stale == HANDLE_GOOD) {
		io->stale = HANDLE_STALE;
		return again ? CALL_AGAIN : meta_goes_on(io, CALL_AGAIN);
	}
	return moved_fail(result, error, NULL);
}

#endif
