/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs3_protocol.c - NFSv3 as a session speaks it (RFC 1813). It keeps no state at the server: any
 * call may be sent again, or forgotten, and its number is its xid.
 */
#include <errno.h>
#include <stdlib.h>

#include "nfs/meta_call.h"
#include "nfs/moved.h"
#include "nfs/names3.h"
#include "nfs/nfs3.h"
#include "nfs/nfs3_meta.h"
#include "nfs/status.h"
#include "rpc/message.h"
#include "session/session.h"

static enum nfs3_procedure procedure_of(const struct call *call)
{
	static const enum nfs3_procedure procedures[] = {
		[IO_READ] = NFS3_READ,
		[IO_WRITE] = NFS3_WRITE,
		[IO_COMMIT] = NFS3_COMMIT,
	};

	if (!call->io)
		return NFS3_NULL;
	return call->io->op == IO_META ? nfs3_meta_procedure(meta_asked(call))
				       : procedures[call->io->op];
}

static const char *operation(const struct call *call)
{
	return nfs3_procedure_name(procedure_of(call));
}

static struct entries *entries_of(const struct call *call)
{
	return call->channel->session->path->files[call->io->file].entries;
}

/*
 * The job's own: two creates of one name are told apart since the SETATTR between them ends it. A
 * server may keep it as the file's times, in two words of seconds: all of these are good ones.
 */
static uint64_t verifier_of(const struct entries *entries)
{
	const uint64_t half = (1 << 24) - 1; /* of the run's 48 bits */

	return (entries->terms.run >> 24 & half) << 32 | (entries->terms.run & half);
}

static void put_meta(struct xdr_out *out, const struct call *call)
{
	const struct entries *entries = entries_of(call);
	const struct conn_io *io = call->io;
	const struct link *link = &call->channel->link;
	const struct entry_handle *directory = entries_directory(entries, io->offset);
	char names[2][ENTRY_NAME_MAX];
	struct nfs3_meta_call meta = {
		.op = meta_asked(call),
		.handle = directory->bytes,
		.handle_length = directory->length,
		.directory = directory,
		.listing = &io->listing,
		.bytes = readdir_bytes(link->ops->head_max(link->channel)),
		.exclusive = io->exclusive,
		.verifier = verifier_of(entries),
		.made = io->made,
	};

	if (meta.op == META_SETATTR && io->made) {
		meta.handle = io->handle.bytes;
		meta.handle_length = io->handle.length;
	} else if (meta_by_handle(meta.op)) {
		meta.handle = entries_handle(entries, io->offset, &meta.handle_length);
	} else if (!meta_of_directory(meta.op)) {
		meta.name.bytes = names[0];
		meta.name.length = entries_name(entries, io->offset, io->back, names[0]);
	}
	if (meta.op == META_RENAME || meta.op == META_LINK) {
		meta.other.bytes = names[1];
		meta.other.length = entries_name(entries, io->offset, !io->back, names[1]);
	}
	nfs3_encode_meta(out, &meta);
}

static const uint8_t *encode(struct xdr_out *out, const struct call *call,
			     const struct rpc_credentials *credentials, const void *file)
{
	const struct conn_io *io = call->io;
	const uint8_t *arguments;

	if (io && io->op == IO_META)
		meta_asks(call, call->channel->session->path, entries_of(call));
	rpc_encode_call(out, call->xid, NFS_PROGRAM, NFS_V3, procedure_of(call), credentials);
	arguments = out->at;
	if (!io)
		return arguments;
	switch (io->op) {
	case IO_READ: nfs3_encode_read(out, file, io->offset + io->done, call_rest(call)); break;
	case IO_WRITE:
		nfs3_encode_write(out, file, io->offset + io->done, call_rest(call),
				  (enum nfs3_stable)io->stable);
		break;
	case IO_COMMIT: nfs3_encode_commit(out, file); break;
	case IO_META: put_meta(out, call); break;
	}
	return arguments;
}

static enum verdict refused(struct call_result *result, uint32_t status)
{
	result->status = nfs3_status_name(status);
	if (nfs3_asks_to_wait(status))
		return CALL_DELAY;
	result->file_gone = status == NFS3_STATUS_STALE;
	return moved_fail(result, nfs3_errno(status), NULL);
}

/*
 * An exclusive create sets no attributes (3.3.8): SETATTR does, by the handle that CREATE has
 * brought, or LOOKUP after it.
 */
static enum verdict went_on(const struct call *call, const struct nfs3_meta_result *meta)
{
	struct conn_io *io = call->io;

	if (meta_asked(call) == META_SETATTR)
		return meta_done(call, entries_of(call), io->handle.bytes, io->handle.length);
	io->made = true;
	io->made_over = call->channel->session->path;
	io->handle.length = meta->handle_length;
	if (meta->handle)
		memcpy(io->handle.bytes, meta->handle, meta->handle_length);
	return meta_goes_on(io, CALL_REST);
}

static enum verdict decode_meta(struct xdr_in *in, struct call *call, struct call_result *result)
{
	struct entries *entries = entries_of(call);
	struct nfs3_meta_result meta;

	if (!nfs3_decode_meta(in, meta_asked(call), &meta))
		return moved_fail(result, EPROTO, "the reply contradicts the call or itself");
	if (in->bad)
		return CALL_DONE;
	if (!meta.status && meta_asked(call) == META_READDIR)
		return meta_listed(call->io, &meta.page, result);
	if (!meta.status && !meta_as_expected(call->io, &meta.kind))
		return moved_fail(result, EILSEQ, NULL);
	if (!meta.status && call->io->exclusive)
		return went_on(call, &meta);
	if (!meta.status)
		return meta_done(call, entries, meta.handle, meta.handle_length);
	result->status = nfs3_status_name(meta.status);
	if (nfs3_asks_to_wait(meta.status))
		return meta_waits(call, false);
	if (meta.status == NFS3_STATUS_BAD_COOKIE && meta_asked(call) == META_READDIR)
		return meta_lists_anew(call->io, nfs3_errno(meta.status), result);
	return meta_refused(call, entries, nfs3_errno(meta.status), result);
}

static enum verdict decode(struct xdr_in *in, struct call *call, struct call_result *result)
{
	struct nfs3_result nfs3;
	struct moved moved;

	if (!call->io)
		return CALL_DONE;
	if (call->io->op == IO_META)
		return decode_meta(in, call, result);
	if (!nfs3_decode(in, procedure_of(call), &nfs3))
		return moved_fail(result, EPROTO, "the reply contradicts the call or itself");
	if (nfs3.status)
		return refused(result, nfs3.status);
	moved = (struct moved){nfs3.count, nfs3.eof, (enum io_stable)nfs3.committed, nfs3.verifier};
	return moved_judge(call, &moved, result);
}

static int open_file(struct names *names, const char *name, bool writes, void **file)
{
	struct nfs3_handle *handle = calloc(1, sizeof(*handle));
	int error = handle ? names3_lookup(names, name, handle) : -ENOMEM;

	(void)writes; /* NFSv3 opens nothing */
	if (error)
		free(handle);
	else
		*file = handle;
	return error;
}

static int open_directory(struct names *names, const char *name, bool make,
			  struct entry_handle *found)
{
	struct nfs3_handle handle;
	int error = names3_directory(names, name, make, &handle);

	if (error)
		return error;
	found->length = handle.length;
	memcpy(found->bytes, handle.bytes, handle.length);
	return 0;
}

static void close_file(struct names *names, void *file)
{
	(void)names;
	free(file);
}

static int limits(struct names *names, const void *file, uint32_t *read_max, uint32_t *write_max)
{
	struct nfs3_limits offered = {0};
	int error = names3_limits(names, file, &offered);

	*read_max = offered.read_max;
	*write_max = offered.write_max;
	return error;
}

const struct protocol protocol_nfs3 = {
	.reply_head_max = NFS3_REPLY_HEAD_MAX,
	.version = NFS_V3,
	.names = &names_nfs3,
	.operation = operation,
	.encode = encode,
	.decode = decode,
	.open_file = open_file,
	.open_directory = open_directory,
	.handle_max = NFS3_FHSIZE,
	.close_file = close_file,
	.limits = limits,
};
