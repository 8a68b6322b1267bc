/* SPDX-License-Identifier: GPL-2.0-only */
#include "core/nfs4.h"

#include "core/files.h"

enum { WORDS = 2 };

uint64_t attributes_all(void)
{
	return attribute(NFS4_ATTR_SUPPORTED_ATTRS) | attribute(NFS4_ATTR_TYPE) |
	       attribute(NFS4_ATTR_FH_EXPIRE_TYPE) | attribute(NFS4_ATTR_CHANGE) |
	       attribute(NFS4_ATTR_SIZE) | attribute(NFS4_ATTR_FSID) |
	       attribute(NFS4_ATTR_LEASE_TIME) | attribute(NFS4_ATTR_FILEID) |
	       attribute(NFS4_ATTR_MAXREAD) | attribute(NFS4_ATTR_MAXWRITE) |
	       attribute(NFS4_ATTR_MODE);
}

uint64_t attributes_get_set(struct xdr_in *in)
{
	uint32_t words = xdr_get_u32(in);
	uint64_t set = 0;

	for (uint32_t i = 0; i < words && !in->bad; i++) {
		uint64_t word = xdr_get_u32(in);

		if (i < WORDS)
			set |= word << 32 * i;
	}
	return set;
}

void attributes_put_set(struct xdr_out *out, uint64_t set)
{
	uint32_t words = set >> 32 ? 2 : set ? 1 : 0;

	xdr_put_u32(out, words);
	for (uint32_t i = 0; i < words; i++)
		xdr_put_u32(out, (uint32_t)(set >> 32 * i));
}

/* In the order of their numbers. */
static void put_values(const struct limits *limits, struct xdr_out *out, uint64_t file,
		       uint64_t set)
{
	const struct file_attributes attributes = files_attributes(file);

	if (set & attribute(NFS4_ATTR_SUPPORTED_ATTRS))
		attributes_put_set(out, limits->attributes);
	if (set & attribute(NFS4_ATTR_TYPE))
		xdr_put_u32(out, attributes.type);
	if (set & attribute(NFS4_ATTR_FH_EXPIRE_TYPE))
		xdr_put_u32(out, FH4_PERSISTENT);
	if (set & attribute(NFS4_ATTR_CHANGE))
		xdr_put_u64(out, attributes.size);
	if (set & attribute(NFS4_ATTR_SIZE))
		xdr_put_u64(out, attributes.size);
	if (set & attribute(NFS4_ATTR_FSID)) {
		xdr_put_u64(out, attributes.file_system >> 32);
		xdr_put_u64(out, (uint32_t)attributes.file_system);
	}
	if (set & attribute(NFS4_ATTR_LEASE_TIME))
		xdr_put_u32(out, limits->lease);
	if (set & attribute(NFS4_ATTR_FILEID))
		xdr_put_u64(out, file + 1);
	if (set & attribute(NFS4_ATTR_MAXREAD))
		xdr_put_u64(out, limits->read_max);
	if (set & attribute(NFS4_ATTR_MAXWRITE))
		xdr_put_u64(out, limits->write_max);
	if (set & attribute(NFS4_ATTR_MODE))
		xdr_put_u32(out, attributes.type == FILE_DIRECTORY ? 0777 : 0666);
}

void attributes_put(const struct nfs_call *call, uint64_t file, uint64_t asked)
{
	struct xdr_out *out = call->out, length;

	attributes_put_set(out, asked & call->limits->attributes);
	length = *out;
	xdr_put_u32(out, 0);
	put_values(call->limits, out, file, asked & call->limits->attributes);
	xdr_put_u32(&length, (uint32_t)(out->at - length.at - 4));
}

uint32_t attributes_get(struct xdr_in *in, uint64_t *set, uint64_t *size)
{
	const uint64_t known = attribute(NFS4_ATTR_SIZE) | attribute(NFS4_ATTR_MODE) |
			       attribute(NFS4_ATTR_TIME_MODIFY_SET);
	struct xdr_in values;
	uint32_t length;

	*set = attributes_get_set(in);
	length = xdr_get_u32(in);
	values = *in;
	xdr_skip(in, length);
	if (*set & ~known)
		return NFS4ERR_ATTRNOTSUPP;
	if (*set & attribute(NFS4_ATTR_SIZE))
		*size = xdr_get_u64(&values);
	return NFS4_OK;
}
