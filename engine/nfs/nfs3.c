/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs3.c - NFSv3 as a client speaks it (RFC 1813). It keeps no state at the server: any call may be
 * sent again, or forgotten, and only its xid identifies it.
 */
#include "nfs/nfs3.h"

#include <stdlib.h>

#include "client/client.h"
#include "nfs/io_result.h"
#include "nfs/meta_call.h"
#include "nfs/status.h"
#include "nfs/version.h"
#include "util.h"
#include "wire/message.h"

enum { WCC_ATTR_SIZE = 24 };	     /* RFC 1813, 2.6 */
enum { GUARDED = 1, EXCLUSIVE = 2 }; /* RFC 1813, 3.3.8: createmode3 */
enum { SET_TO_SERVER_TIME = 1 };     /* 2.6: time_how */
enum { ACCESS_ALL = 0x3f };	     /* 3.3.4: all six rights */
enum { SYMLINK_MODE = 0777 };
enum { FATTR_BEFORE_SIZE = 16 }; /* 2.6: mode, nlink, uid and gid */
enum { FATTR_BEFORE_FSID = 16 }; /* behind size: used and rdev */
enum { FATTR_TIMES = 24 };	 /* behind fileid: three times */

/* --- READ, WRITE and COMMIT: arguments --- */

static void put_handle(struct xdr_out *out, const struct nfs_handle *handle)
{
	xdr_put_opaque(out, handle->bytes, handle->length);
}

void nfs3_encode_read(struct xdr_out *out, const struct nfs_handle *handle, uint64_t offset,
		      uint32_t length)
{
	const uint32_t range[] = {htobe32(offset >> 32), htobe32((uint32_t)offset),
				  htobe32(length)};

	put_handle(out, handle);
	xdr_put_fixed(out, range, sizeof(range));
}

void nfs3_encode_write(struct xdr_out *out, const struct nfs_handle *handle, uint64_t offset,
		       uint32_t length, enum io_stable stable)
{
	const uint32_t range[] = {
		htobe32(offset >> 32), htobe32((uint32_t)offset), htobe32(length),
		htobe32(stable),       htobe32(length), /* of the data that follows */
	};

	put_handle(out, handle);
	xdr_put_fixed(out, range, sizeof(range));
}

void nfs3_encode_commit(struct xdr_out *out, const struct nfs_handle *handle)
{
	put_handle(out, handle);
	xdr_put_u64(out, 0);
	xdr_put_u32(out, 0);
}

/* --- and results --- */

/* An optional structure: a flag, then `size` bytes or nothing. */
static void skip_optional(struct xdr_in *in, uint32_t size)
{
	if (xdr_get_bool(in))
		xdr_skip(in, size);
}

static void skip_post_op(struct xdr_in *in)
{
	skip_optional(in, NFS3_FATTR_SIZE);
}

static void skip_wcc(struct xdr_in *in)
{
	skip_optional(in, WCC_ATTR_SIZE);
	skip_post_op(in);
}

/* READ3resok: the count and the opaque's length are the same number, sent twice. */
static void get_read(struct xdr_in *in, struct io_result *result)
{
	memset(result, 0, sizeof(*result));
	result->count = xdr_get_u32(in);
	result->eof = xdr_get_bool(in);
	xdr_require(in, xdr_get_u32(in) == result->count);
}

void io_result_get_write(struct xdr_in *in, struct io_result *result)
{
	uint32_t count = xdr_get_u32(in), committed = xdr_get_u32(in);

	xdr_require(in, committed <= IO_FILE_SYNC);
	io_result_get_commit(in, result);
	result->count = count;
	result->committed = committed;
}

void io_result_get_commit(struct xdr_in *in, struct io_result *result)
{
	memset(result, 0, sizeof(*result));
	xdr_get_fixed(in, result->verifier, sizeof(result->verifier));
}

uint32_t nfs3_decode(struct xdr_in *in, enum nfs3_procedure procedure, struct io_result *result)
{
	uint32_t status = xdr_get_u32(in);

	if (procedure == NFS3_READ)
		skip_post_op(in);
	else
		skip_wcc(in);
	if (status)
		return status;
	switch (procedure) {
	case NFS3_READ: get_read(in, result); break;
	case NFS3_WRITE: io_result_get_write(in, result); break;
	case NFS3_COMMIT: io_result_get_commit(in, result); break;
	default: xdr_require(in, false);
	}
	return status;
}

const char *nfs3_procedure_name(enum nfs3_procedure procedure)
{
	static const char *const names[] = {
		[NFS3_NULL] = "NULL",	    [NFS3_GETATTR] = "GETATTR", [NFS3_SETATTR] = "SETATTR",
		[NFS3_LOOKUP] = "LOOKUP",   [NFS3_ACCESS] = "ACCESS",	[NFS3_READ] = "READ",
		[NFS3_WRITE] = "WRITE",	    [NFS3_CREATE] = "CREATE",	[NFS3_MKDIR] = "MKDIR",
		[NFS3_SYMLINK] = "SYMLINK", [NFS3_REMOVE] = "REMOVE",	[NFS3_RMDIR] = "RMDIR",
		[NFS3_RENAME] = "RENAME",   [NFS3_LINK] = "LINK",	[NFS3_READDIR] = "READDIR",
		[NFS3_FSSTAT] = "FSSTAT",   [NFS3_FSINFO] = "FSINFO",	[NFS3_COMMIT] = "COMMIT"};

	return procedure < ARRAY_SIZE(names) && names[procedure] ? names[procedure] : "?";
}

/* --- metadata: arguments --- */

/* sattr3 (2.6): a mode, unless it is 0; and which times are set to the server's. */
static void put_attributes(struct xdr_out *out, uint32_t mode, bool atime, bool mtime)
{
	const uint32_t rest[] = {0 /* uid */, 0 /* gid */, 0 /* size */,
				 htobe32(atime ? SET_TO_SERVER_TIME : 0),
				 htobe32(mtime ? SET_TO_SERVER_TIME : 0)};

	xdr_put_u32(out, mode != 0);
	if (mode)
		xdr_put_u32(out, mode);
	xdr_put_fixed(out, rest, sizeof(rest));
}

static void put_name(struct xdr_out *out, const char *name)
{
	xdr_put_opaque(out, name, (uint32_t)strlen(name));
}

/* At most 208 bytes with names of 32. */
static void put_meta(struct xdr_out *out, const struct meta_arguments *arguments)
{
	enum meta_op op = arguments->op;

	put_handle(out, meta_by_handle(op) ? &arguments->handle : arguments->directory);
	if (!meta_by_handle(op) && op != META_READDIR)
		put_name(out, arguments->name);
	switch (op) {
	case META_ACCESS: xdr_put_u32(out, ACCESS_ALL); break;
	case META_READDIR:
		xdr_put_u64(out, arguments->listing->cookie);
		xdr_put_fixed(out, arguments->listing->verifier, LISTING_VERIFIER);
		xdr_put_u32(out, arguments->bytes);
		break;
	case META_SETATTR: /* after an exclusive CREATE also the mode and atime: the server may
			      have stored the verifier in the file's times */
		put_attributes(out, arguments->made ? FILE_MODE : 0, arguments->made, true);
		xdr_put_u32(out, false); /* no guard */
		break;
	case META_CREATE:
		xdr_put_u32(out, arguments->exclusive ? EXCLUSIVE : GUARDED);
		if (arguments->exclusive)
			xdr_put_u64(out, arguments->verifier);
		else
			put_attributes(out, FILE_MODE, false, false);
		break;
	case META_MKDIR: put_attributes(out, DIRECTORY_MODE, false, false); break;
	case META_SYMLINK:
		put_attributes(out, SYMLINK_MODE, false, false);
		put_name(out, META_SYMLINK_TARGET);
		break;
	case META_RENAME:
	case META_LINK:
		put_handle(out, arguments->directory);
		put_name(out, arguments->other);
		break;
	default: break;
	}
}

/* --- and results --- */

void nfs_handle_get(struct xdr_in *in, uint32_t max, struct nfs_handle *handle)
{
	memset(handle, 0, sizeof(*handle));
	handle->length = xdr_get_opaque(in, handle->bytes, max);
	xdr_require(in, handle->length);
}

/* fattr3 (2.6): the type, size and identity of the object. */
static void get_attributes(struct xdr_in *in, struct meta_attributes *found)
{
	found->kind.type = xdr_get_u32(in);
	xdr_skip(in, FATTR_BEFORE_SIZE);
	found->kind.size = xdr_get_u64(in);
	xdr_skip(in, FATTR_BEFORE_FSID);
	found->identity.fsid[0] = xdr_get_u64(in);
	found->identity.fileid = xdr_get_u64(in);
	xdr_skip(in, FATTR_TIMES);
}

/* Skips the attributes that nobody reads. The results of a failure have nothing else. */
static void skip_attributes(struct xdr_in *in, enum meta_op op)
{
	switch (op) {
	case META_GETATTR: break;
	case META_LINK:
		skip_post_op(in);
		skip_wcc(in);
		break;
	case META_LOOKUP:
	case META_ACCESS:
	case META_FSSTAT:
	case META_FSINFO:
	case META_READDIR: skip_post_op(in); break;
	case META_RENAME:
		skip_wcc(in);
		skip_wcc(in);
		break;
	default: skip_wcc(in);
	}
}

/* A new object: its handle and attributes, which a server may leave out. */
static void get_made(struct xdr_in *in, struct nfs_handle *handle)
{
	if (xdr_get_bool(in))
		nfs_handle_get(in, NFS3_FHSIZE, handle);
	skip_post_op(in);
}

/* FSSTAT3resok (3.3.18), behind its attributes. */
static void get_room(struct xdr_in *in, struct meta_room *room)
{
	room->bytes_total = xdr_get_u64(in);
	room->bytes_free = xdr_get_u64(in);
	room->bytes_available = xdr_get_u64(in);
	room->files_total = xdr_get_u64(in);
	room->files_free = xdr_get_u64(in);
	room->files_available = xdr_get_u64(in);
	xdr_get_u32(in); /* invarsec */
}

/* FSINFO3resok (3.3.19), behind its attributes. */
static void get_limits(struct xdr_in *in, struct meta_limits *limits)
{
	limits->read_max = xdr_get_u32(in);
	xdr_skip(in, 8); /* rtpref, rtmult */
	limits->write_max = xdr_get_u32(in);
	xdr_skip(in, 32); /* wtpref, wtmult, dtpref, maxfilesize, time_delta, properties */
}

uint32_t nfs3_decode_meta(struct xdr_in *in, enum meta_op op, struct meta_result *result)
{
	uint32_t status = xdr_get_u32(in);

	memset(result, 0, sizeof(*result));
	if (!status && op == META_LOOKUP)
		nfs_handle_get(in, NFS3_FHSIZE, &result->found);
	if (!status && (op == META_GETATTR || (op == META_LOOKUP && xdr_get_bool(in))))
		get_attributes(in, &result->attributes);
	if (!status && meta_makes(op))
		get_made(in, &result->found);
	skip_attributes(in, op);
	if (status)
		return status;
	switch (op) {
	case META_ACCESS: result->access = xdr_get_u32(in); break;
	case META_READDIR: readdir_decode(in, false, &result->page); break;
	case META_FSSTAT: get_room(in, &result->attributes.room); break;
	case META_FSINFO: get_limits(in, &result->attributes.limits); break;
	default: break;
	}
	return status;
}

/* --- calls --- */

/* True for a metadata operation: an I/O, or a request of names.h. */
static bool is_meta(const struct call *call)
{
	return call->request ? call->request->meta : call->io && call->io->op == IO_META;
}

static enum meta_op operation_of(const struct call *call)
{
	return call->request ? meta_request_of(call)->arguments.op : meta_asked(call);
}

static enum nfs3_procedure procedure_of(const struct call *call)
{
	static const enum nfs3_procedure of_io[] = {
		[IO_READ] = NFS3_READ,
		[IO_WRITE] = NFS3_WRITE,
		[IO_COMMIT] = NFS3_COMMIT,
	};
	static const enum nfs3_procedure of_meta[] = {
		/* NFSv3 has no OPEN. */
		[META_GETATTR] = NFS3_GETATTR, [META_LOOKUP] = NFS3_LOOKUP,
		[META_ACCESS] = NFS3_ACCESS,   [META_READDIR] = NFS3_READDIR,
		[META_CREATE] = NFS3_CREATE,   [META_MKDIR] = NFS3_MKDIR,
		[META_SYMLINK] = NFS3_SYMLINK, [META_SETATTR] = NFS3_SETATTR,
		[META_RENAME] = NFS3_RENAME,   [META_LINK] = NFS3_LINK,
		[META_REMOVE] = NFS3_REMOVE,   [META_RMDIR] = NFS3_RMDIR,
		[META_FSSTAT] = NFS3_FSSTAT,   [META_FSINFO] = NFS3_FSINFO,
	};

	if (is_meta(call))
		return of_meta[operation_of(call)];
	return call->io && !call->request ? of_io[call->io->op] : NFS3_NULL;
}

static const char *operation(const struct call *call)
{
	return nfs3_procedure_name(procedure_of(call));
}

static void put_io_meta(struct xdr_out *out, const struct call *call)
{
	const struct link *link = &call->rpc->link;
	struct meta_arguments arguments;

	meta_fill_arguments(call, link->channel->head_max, &arguments);
	put_meta(out, &arguments);
}

static void put_io(struct xdr_out *out, const struct call *call)
{
	const struct conn_io *io = call->io;
	uint64_t offset = io->offset + io->done;

	switch (io->op) {
	case IO_READ: nfs3_encode_read(out, io->state, offset, call_rest(call)); break;
	case IO_WRITE:
		nfs3_encode_write(out, io->state, offset, call_rest(call), io->stable);
		break;
	case IO_COMMIT: nfs3_encode_commit(out, io->state); break;
	case IO_META: put_io_meta(out, call); break;
	}
}

static uint8_t *encode(struct xdr_out *out, struct call *call, struct rpc_credentials *credentials)
{
	uint8_t *arguments;

	if (call->io && call->io->op == IO_META)
		meta_begin(call);
	rpc_encode_call(out, call->xid, NFS_PROGRAM, NFS_V3, procedure_of(call), credentials,
			&call->stamp);
	arguments = out->at;
	if (call->io)
		put_io(out, call);
	else if (is_meta(call))
		put_meta(out, &meta_request_of(call)->arguments);
	return arguments;
}

/* --- answers --- */

static enum disposition refused(struct call_result *result, uint32_t status)
{
	result->status = nfs3_status(status)->name;
	if (nfs3_asks_to_wait(status))
		return CALL_BACKOFF;
	return call_fail(result, nfs3_status(status)->error, NULL);
}

/* After a status that is not 0 only attributes follow, which nobody reads: the status counts even
 * where they are malformed. */
static void accept_flaw(struct xdr_in *in, uint32_t status, struct call_result *result)
{
	if (!status || !in->bad || (in->bad == XDR_SHORT && !result->whole))
		return;
	result->flaw =
		in->bad == XDR_SHORT ? "its reply is too short" : "its reply contradicts itself";
	in->bad = XDR_SOUND;
}

static enum disposition judge_meta(struct call *call, uint32_t status,
				   const struct meta_result *meta, struct call_result *result)
{
	result->lookup = call->io->meta->looks_up;
	if (!status)
		return meta_answered(call, meta, result);
	result->status = nfs3_status(status)->name;
	if (nfs3_asks_to_wait(status)) {
		meta_not_begun(call);
		return CALL_BACKOFF;
	}
	if (status == NFS3ERR_BAD_COOKIE && meta_asked(call) == META_READDIR)
		return meta_restart_listing(call, nfs3_status(status)->error, result);
	return meta_refused(call, nfs3_status(status)->error, result);
}

static enum disposition decode(struct xdr_in *in, struct call *call, struct call_result *result)
{
	struct io_result data;
	struct meta_result meta;
	uint32_t status;
	bool is_data = !is_meta(call);

	if (!call->io && is_data)
		return CALL_DONE;
	status = is_data ? nfs3_decode(in, procedure_of(call), &data)
			 : nfs3_decode_meta(in, operation_of(call), &meta);
	accept_flaw(in, status, result);
	if (in->bad)
		return CALL_DONE;
	if (is_data)
		return status ? refused(result, status) : io_result_judge(call, &data, result);
	if (call->io)
		return judge_meta(call, status, &meta, result);
	return status ? refused(result, status) : meta_request_take(call, &meta);
}

/*
 * nclients: a client's connection is good once the server has answered a NULL call: a server that
 * takes no more clients accepts their connections, and closes them.
 */

static int attach(struct rpc_client *rpc)
{
	if (rpc->own)
		rpc->state = calloc(1, sizeof(struct rpc_request));
	return rpc->own && !rpc->state ? -ENOMEM : 0;
}

static void detach(struct rpc_client *rpc)
{
	free(rpc->state);
}

static enum preparation prepare(struct rpc_client *rpc, struct rpc_request **request)
{
	*request = rpc->state;
	return !rpc->state || rpc->answered ? PREPARED : PREPARE_ASK;
}

const struct protocol nfs3_protocol = {
	.program = NFS_PROGRAM,
	.version = NFS_V3,
	.read_head = NFS3_READ_HEAD,
	.operation = operation,
	.attach = attach,
	.detach = detach,
	.prepare = prepare,
	.encode = encode,
	.decode = decode,
	.denied = meta_denied,
};
