/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs3_meta.h"

#include "util.h"

enum { GUARDED = 1, EXCLUSIVE = 2 }; /* RFC 1813, 3.3.8: createmode3 */
enum { SET_TO_SERVER_TIME = 1 };     /* 2.6: time_how */
enum { ACCESS_ALL = 0x3f };	     /* 3.3.4: all six questions */
enum { SYMLINK_MODE = 0777 };
enum { FATTR_BEFORE_SIZE = 16 }; /* 2.6: mode, nlink, uid and gid */
enum { FATTR_BEFORE_FSID = 16 }; /* behind size: used and rdev */

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
	case META_FSSTAT: return NFS3_FSSTAT;
	case META_FSINFO: return NFS3_FSINFO;
	case META_OPEN: break;
	}
	return NFS3_NULL;
}

/* --- arguments --- */

/* sattr3 (2.6): a mode, or 0: none; and times that become the server's. */
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

/* Of a new file also what CREATE has not set: a server may have kept the verifier in its times. */
static void put_setattr(struct xdr_out *out, bool made)
{
	put_attributes(out, made ? FILE_MODE : 0, made, true);
	xdr_put_u32(out, false); /* no guard */
}

static void put_create(struct xdr_out *out, const struct meta_arguments *arguments)
{
	xdr_put_u32(out, arguments->exclusive ? EXCLUSIVE : GUARDED);
	if (arguments->exclusive)
		xdr_put_u64(out, arguments->verifier);
	else
		put_attributes(out, FILE_MODE, false, false);
}

static void put_handle(struct xdr_out *out, const struct nfs_handle *handle)
{
	xdr_put_opaque(out, handle->bytes, handle->length);
}

static void put_name(struct xdr_out *out, const char *name)
{
	xdr_put_opaque(out, name, (uint32_t)strlen(name));
}

static void put_listing(struct xdr_out *out, const struct meta_arguments *arguments)
{
	xdr_put_u64(out, arguments->listing->cookie);
	xdr_put_fixed(out, arguments->listing->verifier, LISTING_VERIFIER);
	xdr_put_u32(out, arguments->bytes);
}

void nfs3_encode_meta(struct xdr_out *out, const struct meta_arguments *arguments)
{
	enum meta_op op = arguments->op;

	put_handle(out, meta_by_handle(op) ? &arguments->handle : arguments->directory);
	if (!meta_by_handle(op) && op != META_READDIR)
		put_name(out, arguments->name);
	switch (op) {
	case META_ACCESS: xdr_put_u32(out, ACCESS_ALL); break;
	case META_READDIR: put_listing(out, arguments); break;
	case META_SETATTR: put_setattr(out, arguments->made); break;
	case META_CREATE: put_create(out, arguments); break;
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

/* --- results --- */

static bool get_handle(struct xdr_in *in, struct nfs_handle *handle)
{
	handle->length = xdr_get_u32(in);
	if (!in->bad && (!handle->length || handle->length > NFS3_FHSIZE))
		return false;
	xdr_get_fixed(in, handle->bytes, handle->length);
	return true;
}

/* fattr3 (2.6): type and size of it, and which file it is. */
static void get_kind(struct xdr_in *in, struct meta_kind *kind, struct meta_identity *identity)
{
	const uint8_t *bytes = xdr_skip(in, NFS3_FATTR_SIZE);
	struct xdr_in attributes = {bytes, in->at, false};

	if (!bytes)
		return;
	kind->type = xdr_get_u32(&attributes);
	xdr_skip(&attributes, FATTR_BEFORE_SIZE);
	kind->size = xdr_get_u64(&attributes);
	xdr_skip(&attributes, FATTR_BEFORE_FSID);
	identity->fsid[0] = xdr_get_u64(&attributes);
	identity->fileid = xdr_get_u64(&attributes);
}

/* post_op_attr */
static bool get_optional_kind(struct xdr_in *in, struct meta_result *result)
{
	uint32_t follows = xdr_get_u32(in);

	if (follows)
		get_kind(in, &result->kind, &result->identity);
	return follows <= 1;
}

/* Those that all results of an operation end with, or a failure's are. */
static bool skip_attributes(struct xdr_in *in, enum meta_op op)
{
	switch (op) {
	case META_GETATTR: return true;
	case META_LOOKUP:
	case META_ACCESS:
	case META_FSSTAT:
	case META_FSINFO:
	case META_READDIR: return nfs3_skip_attributes(in);
	case META_LINK: return nfs3_skip_attributes(in) && nfs3_skip_wcc_data(in);
	case META_RENAME: return nfs3_skip_wcc_data(in) && nfs3_skip_wcc_data(in);
	default: return nfs3_skip_wcc_data(in);
	}
}

/* A new object: its handle and attributes, which a server may leave out. */
static bool get_made(struct xdr_in *in, struct nfs_handle *handle)
{
	uint32_t follows = xdr_get_u32(in);

	if (follows > 1 || (follows && !get_handle(in, handle)))
		return false;
	return nfs3_skip_attributes(in);
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
	xdr_get_u32(in); /* seconds that this stays so */
}

/* FSINFO3resok (3.3.19), behind its attributes. */
static void get_limits(struct xdr_in *in, struct meta_limits *limits)
{
	limits->read_max = xdr_get_u32(in);
	xdr_skip(in, 8); /* rtpref, rtmult */
	limits->write_max = xdr_get_u32(in);
	xdr_skip(in, 32); /* wtpref, wtmult, dtpref, maxfilesize, time_delta, properties */
}

static bool decode_success(struct xdr_in *in, enum meta_op op, struct meta_result *result)
{
	switch (op) {
	case META_GETATTR: get_kind(in, &result->kind, &result->identity); return true;
	case META_LOOKUP:
		return get_handle(in, &result->found) && get_optional_kind(in, result) &&
		       skip_attributes(in, op);
	case META_READDIR:
		return skip_attributes(in, op) && readdir_decode(in, false, &result->page);
	case META_CREATE:
	case META_MKDIR:
	case META_SYMLINK: return get_made(in, &result->found) && skip_attributes(in, op);
	default: break;
	}
	if (!skip_attributes(in, op))
		return false;
	if (op == META_ACCESS)
		result->access = xdr_get_u32(in);
	if (op == META_FSSTAT)
		get_room(in, &result->room);
	if (op == META_FSINFO)
		get_limits(in, &result->limits);
	return true;
}

bool nfs3_decode_meta(struct xdr_in *in, enum meta_op op, uint32_t *status,
		      struct meta_result *result)
{
	memset(result, 0, sizeof(*result));
	*status = xdr_get_u32(in);
	return *status ? skip_attributes(in, op) : decode_success(in, op, result);
}
