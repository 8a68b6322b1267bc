/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs3_names.h"

enum { NFS_PROGRAM = 100003, NFS_V3 = 3 };
enum { GUARDED = 1 };	  /* createmode3 (RFC 1813, 3.3.8) */
enum { DONT_CHANGE = 0 }; /* time_how (RFC 1813, 2.6) */
enum {
	LINKS_TO_GID = 4 * 4, /* fattr3 between type and size: mode, nlink, uid, gid */
	BEHIND_SIZE = 84 - 28
};				/* … and what stands behind size */
enum { SIZES_BETWEEN = 2 * 4 }; /* FSINFO: rtpref and rtmult, before wtmax */

/* --- calls --- */

/* sattr3: the mode is set, and all else is the server's to choose. */
static void put_mode(struct xdr_out *out, uint32_t mode)
{
	xdr_put_u32(out, true);
	xdr_put_u32(out, mode);
	xdr_put_u32(out, false); /* uid */
	xdr_put_u32(out, false); /* gid */
	xdr_put_u32(out, false); /* size */
	xdr_put_u32(out, DONT_CHANGE);
	xdr_put_u32(out, DONT_CHANGE);
}

void nfs3_encode_name_call(struct xdr_out *out, uint32_t xid, const struct rpc_cred *cred,
			   const struct nfs3_name_call *call)
{
	rpc_encode_call(out, xid, NFS_PROGRAM, NFS_V3, call->procedure, cred);
	xdr_put_opaque(out, call->object->bytes, call->object->length);
	if (call->procedure == NFS3_GETATTR || call->procedure == NFS3_FSINFO)
		return;
	xdr_put_opaque(out, call->name, (uint32_t)strlen(call->name));
	if (call->procedure == NFS3_CREATE)
		xdr_put_u32(out, GUARDED);
	if (call->procedure == NFS3_CREATE || call->procedure == NFS3_MKDIR)
		put_mode(out, call->mode);
}

/* --- results --- */

static void get_attributes(struct xdr_in *in, struct nfs3_name_result *result)
{
	result->type = xdr_get_u32(in);
	xdr_skip(in, LINKS_TO_GID);
	result->size = xdr_get_u64(in);
	xdr_skip(in, BEHIND_SIZE);
	result->attributed = true;
}

/* post_op_attr: the server need not send them. */
static bool get_optional(struct xdr_in *in, struct nfs3_name_result *result)
{
	uint32_t follows = xdr_get_u32(in);

	if (follows == 1)
		get_attributes(in, result);
	return follows <= 1;
}

static bool get_handle(struct xdr_in *in, struct nfs3_handle *handle)
{
	uint32_t length = xdr_get_u32(in);

	if (length > NFS3_FHSIZE)
		return false;
	xdr_get_fixed(in, handle->bytes, length);
	handle->length = length;
	return length > 0;
}

static bool get_limits(struct xdr_in *in, struct nfs3_name_result *result)
{
	bool sound = get_optional(in, result);

	result->read_max = xdr_get_u32(in);
	xdr_skip(in, SIZES_BETWEEN);
	result->write_max = xdr_get_u32(in);
	return sound;
}

bool nfs3_decode_name(struct xdr_in *in, enum nfs3_name_procedure procedure,
		      struct nfs3_name_result *result)
{
	bool sound = true;

	memset(result, 0, sizeof(*result));
	result->status = xdr_get_u32(in);
	if (result->status)
		return !in->bad;
	switch (procedure) {
	case NFS3_GETATTR: get_attributes(in, result); break;
	case NFS3_LOOKUP:
		sound = get_handle(in, &result->handle) && get_optional(in, result);
		break;
	case NFS3_FSINFO: sound = get_limits(in, result); break;
	case NFS3_CREATE:
	case NFS3_MKDIR:
	case NFS3_REMOVE: break;
	}
	return sound && !in->bad;
}

const char *nfs3_name_procedure_name(enum nfs3_name_procedure procedure)
{
	switch (procedure) {
	case NFS3_GETATTR: return "GETATTR";
	case NFS3_LOOKUP: return "LOOKUP";
	case NFS3_CREATE: return "CREATE";
	case NFS3_MKDIR: return "MKDIR";
	case NFS3_REMOVE: return "REMOVE";
	case NFS3_FSINFO: return "FSINFO";
	}
	return "?";
}
