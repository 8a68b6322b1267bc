/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs3.h"

#include "util.h"

enum { WCC_ATTR_SIZE = 24 }; /* RFC 1813, 2.6 */

/* --- arguments --- */

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

/* --- results --- */

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
