/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs3.c - NFSv3 as a client speaks it (RFC 1813). It keeps no state at the server: any call may be
 * sent again, or forgotten, and its number is its xid.
 */
#include "nfs/nfs3.h"

#include <errno.h>

#include "client/client.h"
#include "nfs/io_result.h"
#include "nfs/meta_call.h"
#include "nfs/meta_request.h"
#include "nfs/nfs3_meta.h"
#include "nfs/status.h"
#include "nfs/version.h"
#include "util.h"
#include "wire/message.h"

enum { WCC_ATTR_SIZE = 24 }; /* RFC 1813, 2.6 */

/* --- READ, WRITE and COMMIT: arguments --- */

void nfs3_encode_read(struct xdr_out *out, const struct nfs_handle *handle, uint64_t offset,
		      uint32_t length)
{
	const uint32_t range[] = {htobe32(offset >> 32), htobe32((uint32_t)offset),
				  htobe32(length)};

	xdr_put_opaque(out, handle->bytes, handle->length);
	xdr_put_fixed(out, range, sizeof(range));
}

void nfs3_encode_write(struct xdr_out *out, const struct nfs_handle *handle, uint64_t offset,
		       uint32_t length, enum nfs3_stable stable)
{
	const uint32_t range[] = {
		htobe32(offset >> 32), htobe32((uint32_t)offset), htobe32(length),
		htobe32(stable),       htobe32(length), /* of the data that follows */
	};

	xdr_put_opaque(out, handle->bytes, handle->length);
	xdr_put_fixed(out, range, sizeof(range));
}

void nfs3_encode_commit(struct xdr_out *out, const struct nfs_handle *handle)
{
	xdr_put_opaque(out, handle->bytes, handle->length);
	xdr_put_u64(out, 0);
	xdr_put_u32(out, 0);
}

/* --- and results --- */

/* An optional structure of `size` bytes: a flag, then it or nothing. */
static bool skip_optional(struct xdr_in *in, uint32_t size)
{
	uint32_t follows = xdr_get_u32(in);

	if (follows)
		xdr_skip(in, size);
	return follows <= 1;
}

bool nfs3_skip_attributes(struct xdr_in *in)
{
	return skip_optional(in, NFS3_FATTR_SIZE);
}

bool nfs3_skip_wcc_data(struct xdr_in *in)
{
	return skip_optional(in, WCC_ATTR_SIZE) && nfs3_skip_attributes(in);
}

/* READ3resok: the count and the opaque's length are the same number, sent twice. */
static bool decode_read(struct xdr_in *in, struct nfs3_result *result)
{
	uint32_t eof, length;

	result->count = xdr_get_u32(in);
	eof = xdr_get_u32(in);
	length = xdr_get_u32(in);
	result->eof = eof;
	return eof <= 1 && length == result->count;
}

static bool decode_write(struct xdr_in *in, struct nfs3_result *result)
{
	uint32_t committed;

	result->count = xdr_get_u32(in);
	committed = xdr_get_u32(in);
	xdr_get_fixed(in, result->verifier, sizeof(result->verifier));
	result->committed = committed;
	return committed <= NFS3_FILE_SYNC;
}

bool nfs3_decode(struct xdr_in *in, enum nfs3_procedure procedure, struct nfs3_result *result)
{
	bool attributes;

	memset(result, 0, sizeof(*result));
	result->status = xdr_get_u32(in);
	attributes = procedure == NFS3_READ ? nfs3_skip_attributes(in) : nfs3_skip_wcc_data(in);
	if (!attributes || result->status)
		return attributes;
	switch (procedure) {
	case NFS3_READ: return decode_read(in, result);
	case NFS3_WRITE: return decode_write(in, result);
	case NFS3_COMMIT:
		xdr_get_fixed(in, result->verifier, sizeof(result->verifier));
		return true;
	default: return false;
	}
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

/* --- calls --- */

static enum nfs3_procedure procedure_of(const struct call *call)
{
	static const enum nfs3_procedure procedures[] = {
		[IO_READ] = NFS3_READ,
		[IO_WRITE] = NFS3_WRITE,
		[IO_COMMIT] = NFS3_COMMIT,
	};

	if (call->request)
		return nfs3_meta_procedure(meta_request_of(call)->arguments.op);
	if (!call->io)
		return NFS3_NULL;
	return call->io->op == IO_META ? nfs3_meta_procedure(meta_asked(call))
				       : procedures[call->io->op];
}

static const char *operation(const struct call *call)
{
	return nfs3_procedure_name(procedure_of(call));
}

static void put_meta(struct xdr_out *out, const struct call *call)
{
	const struct link *link = &call->rpc->link;
	struct meta_arguments arguments;

	meta_fill_arguments(call, link->ops->head_max(link->channel), &arguments);
	nfs3_encode_meta(out, &arguments);
}

static uint8_t *encode(struct xdr_out *out, struct call *call, struct rpc_credentials *credentials)
{
	const struct conn_io *io = call->io;
	uint8_t *arguments;

	if (io && io->op == IO_META)
		meta_begin(call);
	rpc_encode_call(out, call->xid, NFS_PROGRAM, NFS_V3, procedure_of(call), credentials,
			&call->stamp);
	arguments = out->at;
	if (call->request)
		nfs3_encode_meta(out, &meta_request_of(call)->arguments);
	if (!io)
		return arguments;
	switch (io->op) {
	case IO_READ:
		nfs3_encode_read(out, io->state, io->offset + io->done, call_rest(call));
		break;
	case IO_WRITE:
		nfs3_encode_write(out, io->state, io->offset + io->done, call_rest(call),
				  (enum nfs3_stable)io->stable);
		break;
	case IO_COMMIT: nfs3_encode_commit(out, io->state); break;
	case IO_META: put_meta(out, call); break;
	}
	return arguments;
}

/* --- answers --- */

static enum disposition refused(struct call_result *result, uint32_t status)
{
	result->status = nfs3_status_name(status);
	if (nfs3_asks_to_wait(status))
		return CALL_BACKOFF;
	return call_fail(result, nfs3_errno(status), NULL);
}

/*
 * Behind a status that is not 0 there is nothing but attributes, which nobody wants: it counts
 * however these are. `sound` is nfs3_decode()'s.
 */
static bool is_sound(struct xdr_in *in, uint32_t status, bool sound, struct call_result *result)
{
	if (!status || (sound && !(in->bad && result->whole)))
		return sound;
	result->flaw = sound ? "its reply is too short" : "its reply contradicts itself";
	in->bad = false;
	return true;
}

static enum disposition decode_meta(struct xdr_in *in, struct call *call,
				    struct call_result *result)
{
	struct meta_result meta;
	uint32_t status = 0;
	bool sound = nfs3_decode_meta(in, meta_asked(call), &status, &meta);

	if (!is_sound(in, status, sound, result))
		return call_fail(result, EPROTO, "the reply contradicts the call or itself");
	if (in->bad)
		return CALL_DONE;
	result->lookup = call->io->meta->looks_up;
	if (!status)
		return meta_answered(call, &meta, result);
	result->status = nfs3_status_name(status);
	if (nfs3_asks_to_wait(status))
		return meta_waits(call, false);
	if (status == NFS3_STATUS_BAD_COOKIE && meta_asked(call) == META_READDIR)
		return meta_restart_listing(call, nfs3_errno(status), result);
	return meta_refused(call, nfs3_errno(status), result);
}

static enum disposition decode_request(struct xdr_in *in, struct call *call,
				       struct call_result *result)
{
	struct meta_request *request = meta_request_of(call);
	struct meta_result meta;
	uint32_t status = 0;
	bool sound = nfs3_decode_meta(in, request->arguments.op, &status, &meta);

	if (!is_sound(in, status, sound, result))
		return call_fail(result, EPROTO, "the reply contradicts the call or itself");
	if (in->bad)
		return CALL_DONE;
	if (status)
		return refused(result, status);
	meta_request_take(request, &meta);
	return CALL_DONE;
}

static enum disposition decode(struct xdr_in *in, struct call *call, struct call_result *result)
{
	struct nfs3_result nfs3;
	struct io_result io_result;
	bool sound;

	if (call->request)
		return decode_request(in, call, result);
	if (!call->io)
		return CALL_DONE;
	if (call->io->op == IO_META)
		return decode_meta(in, call, result);
	sound = nfs3_decode(in, procedure_of(call), &nfs3);
	if (!is_sound(in, nfs3.status, sound, result))
		return call_fail(result, EPROTO, "the reply contradicts the call or itself");
	if (nfs3.status)
		return refused(result, nfs3.status);
	io_result = (struct io_result){nfs3.count, nfs3.eof, (enum io_stable)nfs3.committed,
				       nfs3.verifier};
	return io_result_judge(call, &io_result, result);
}

const struct protocol nfs3_protocol = {
	.program = NFS_PROGRAM,
	.version = NFS_V3,
	.read_head = NFS3_READ_HEAD,
	.operation = operation,
	.encode = encode,
	.decode = decode,
	.denied = meta_denied,
};
