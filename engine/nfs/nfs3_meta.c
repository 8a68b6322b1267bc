/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs3_meta.h"

#include "util.h"

enum { GUARDED = 1, EXCLUSIVE = 2 }; /* RFC 1813, 3.3.8: createmode3 */
enum { SET_TO_SERVER_TIME = 1 };     /* 2.6: time_how */
enum { ACCESS_ALL = 0x3f };	     /* 3.3.4: all six questions */
enum { SYMLINK_MODE = 0777 };
enum { FATTR_BEFORE_SIZE = 16 }; /* 2.6: mode, nlink, uid and gid */

enum nfs3_procedure nfs3_meta_procedure(enum meta_op op)
{
	switch (op) {
	case META_GETATTR: return NFS3_GETATTR;
	case META_SETATTR: return NFS3_SETATTR;
	case META_LOOKUP: return NFS3_LOOKUP;
	case META_ACCESS: return NFS3_ACCESS;
	case META_READDIR: return NFS3_READDIR;
	case META_CREATE: return NFS3_CREATE;
	case META_MKDIR: return NFS3_MKDIR;
	case META_SYMLINK: return NFS3_SYMLINK;
	case META_REMOVE: return NFS3_REMOVE;
	case META_RMDIR: return NFS3_RMDIR;
	case META_RENAME: return NFS3_RENAME;
	case META_LINK: return NFS3_LINK;
	case META_OPEN: break;
	}
	return NFS3_NULL;
}

/* --- arguments --- */

/* sattr3 (2.6): the mode alone. */
static void put_mode(struct xdr_out *out, uint32_t mode)
{
	const uint32_t wire[] = {htobe32(true),
				 htobe32(mode),
				 0 /* uid */,
				 0 /* gid */,
				 0 /* size */,
				 0 /* atime */,
				 0 /* mtime */};

	xdr_put_fixed(out, wire, sizeof(wire));
}

/* sattr3: mtime alone; and no guard. */
static void put_touch(struct xdr_out *out)
{
	const uint32_t wire[] = {0, 0, 0, 0, 0, htobe32(SET_TO_SERVER_TIME), 0};

	xdr_put_fixed(out, wire, sizeof(wire));
}

/* sattr3: the mode, and both times, which a server may have kept the verifier in; and no guard. */
static void put_new_attributes(struct xdr_out *out)
{
	const uint32_t wire[] = {htobe32(true),
				 htobe32(FILE_MODE),
				 0 /* uid */,
				 0 /* gid */,
				 0 /* size */,
				 htobe32(SET_TO_SERVER_TIME),
				 htobe32(SET_TO_SERVER_TIME),
				 0 /* guard */};

	xdr_put_fixed(out, wire, sizeof(wire));
}

static void put_create(struct xdr_out *out, const struct nfs3_meta_call *call)
{
	xdr_put_u32(out, call->exclusive ? EXCLUSIVE : GUARDED);
	if (call->exclusive)
		xdr_put_u64(out, call->verifier);
	else
		put_mode(out, FILE_MODE);
}

static void put_listing(struct xdr_out *out, const struct nfs3_meta_call *call)
{
	xdr_put_u64(out, call->listing->cookie);
	xdr_put_fixed(out, call->listing->verifier, LISTING_VERIFIER);
	xdr_put_u32(out, call->bytes);
}

void nfs3_encode_meta(struct xdr_out *out, const struct nfs3_meta_call *call)
{
	xdr_put_opaque(out, call->handle, call->handle_length);
	if (!meta_by_handle(call->op) && !meta_of_directory(call->op))
		xdr_put_opaque(out, call->name.bytes, call->name.length);
	switch (call->op) {
	case META_ACCESS: xdr_put_u32(out, ACCESS_ALL); break;
	case META_READDIR: put_listing(out, call); break;
	case META_SETATTR: call->made ? put_new_attributes(out) : put_touch(out); break;
	case META_CREATE: put_create(out, call); break;
	case META_MKDIR: put_mode(out, DIRECTORY_MODE); break;
	case META_SYMLINK:
		put_mode(out, SYMLINK_MODE);
		xdr_put_opaque(out, META_SYMLINK_TARGET, sizeof(META_SYMLINK_TARGET) - 1);
		break;
	case META_RENAME:
	case META_LINK:
		xdr_put_opaque(out, call->directory->bytes, call->directory->length);
		xdr_put_opaque(out, call->other.bytes, call->other.length);
		break;
	default: break;
	}
}

/* --- results --- */

static bool get_handle(struct xdr_in *in, struct nfs3_meta_result *result)
{
	result->handle_length = xdr_get_u32(in);
	if (!in->bad && (!result->handle_length || result->handle_length > NFS3_FHSIZE))
		return false;
	result->handle = xdr_skip(in, result->handle_length);
	return true;
}

/* fattr3 (2.6): type and size of it. */
static void get_kind(struct xdr_in *in, struct meta_kind *kind)
{
	const uint8_t *bytes = xdr_skip(in, NFS3_FATTR_SIZE);
	struct xdr_in attributes = {bytes, in->at, false};

	if (!bytes)
		return;
	kind->type = xdr_get_u32(&attributes);
	xdr_skip(&attributes, FATTR_BEFORE_SIZE);
	kind->size = xdr_get_u64(&attributes);
}

/* post_op_attr */
static bool get_optional_kind(struct xdr_in *in, struct meta_kind *kind)
{
	uint32_t follows = xdr_get_u32(in);

	if (follows)
		get_kind(in, kind);
	return follows <= 1;
}

/* A new object: its handle and attributes, which a server may leave out, and its directory's. */
static bool decode_made(struct xdr_in *in, struct nfs3_meta_result *result)
{
	uint32_t follows = xdr_get_u32(in);

	if (follows > 1 || (follows && !get_handle(in, result)))
		return false;
	return nfs3_skip_attributes(in) && nfs3_skip_wcc_data(in);
}

static bool decode_success(struct xdr_in *in, enum meta_op op, struct nfs3_meta_result *result)
{
	switch (op) {
	case META_GETATTR: get_kind(in, &result->kind); return true;
	case META_LOOKUP:
		return get_handle(in, result) && get_optional_kind(in, &result->kind) &&
		       nfs3_skip_attributes(in);
	case META_ACCESS: {
		bool sound = nfs3_skip_attributes(in);

		xdr_get_u32(in); /* what is granted */
		return sound;
	}
	case META_READDIR:
		return nfs3_skip_attributes(in) && readdir_decode(in, false, &result->page);
	case META_CREATE:
	case META_MKDIR:
	case META_SYMLINK: return decode_made(in, result);
	case META_LINK: return nfs3_skip_attributes(in) && nfs3_skip_wcc_data(in);
	case META_RENAME: return nfs3_skip_wcc_data(in) && nfs3_skip_wcc_data(in);
	default: return nfs3_skip_wcc_data(in);
	}
}

static bool decode_failure(struct xdr_in *in, enum meta_op op)
{
	switch (op) {
	case META_GETATTR: return true;
	case META_LOOKUP:
	case META_ACCESS:
	case META_READDIR: return nfs3_skip_attributes(in);
	case META_LINK: return nfs3_skip_attributes(in) && nfs3_skip_wcc_data(in);
	case META_RENAME: return nfs3_skip_wcc_data(in) && nfs3_skip_wcc_data(in);
	default: return nfs3_skip_wcc_data(in);
	}
}

bool nfs3_decode_meta(struct xdr_in *in, enum meta_op op, struct nfs3_meta_result *result)
{
	memset(result, 0, sizeof(*result));
	result->status = xdr_get_u32(in);
	return result->status ? decode_failure(in, op) : decode_success(in, op, result);
}
