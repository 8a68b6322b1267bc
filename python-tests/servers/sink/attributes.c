/* SPDX-License-Identifier: GPL-2.0-only */
#include "attributes.h"

#include "files.h"

enum { WORDS = 2, LEASE_SECONDS = 90 };

static uint64_t supported(void)
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
static void put_values(const struct service *service, struct xdr_out *out, uint32_t file,
		       uint64_t set)
{
	bool directory = files_is_directory(file);
	uint64_t size = directory ? 4096 : files_size(file);

	if (set & attribute(NFS4_ATTR_SUPPORTED_ATTRS))
		attributes_put_set(out, supported());
	if (set & attribute(NFS4_ATTR_TYPE))
		xdr_put_u32(out, directory ? NFS4_DIRECTORY : NFS4_REGULAR);
	if (set & attribute(NFS4_ATTR_FH_EXPIRE_TYPE))
		xdr_put_u32(out, FH4_PERSISTENT);
	if (set & attribute(NFS4_ATTR_CHANGE))
		xdr_put_u64(out, size);
	if (set & attribute(NFS4_ATTR_SIZE))
		xdr_put_u64(out, size);
	if (set & attribute(NFS4_ATTR_FSID)) {
		xdr_put_u64(out, 1);
		xdr_put_u64(out, 0);
	}
	if (set & attribute(NFS4_ATTR_LEASE_TIME))
		xdr_put_u32(out, LEASE_SECONDS);
	if (set & attribute(NFS4_ATTR_FILEID))
		xdr_put_u64(out, file + 1);
	if (set & attribute(NFS4_ATTR_MAXREAD))
		xdr_put_u64(out, service->read_max);
	if (set & attribute(NFS4_ATTR_MAXWRITE))
		xdr_put_u64(out, service->write_max);
	if (set & attribute(NFS4_ATTR_MODE))
		xdr_put_u32(out, directory ? 0777 : 0666);
}

void attributes_put(const struct service *service, struct xdr_out *out, uint32_t file,
		    uint64_t asked)
{
	struct xdr_out length;

	attributes_put_set(out, asked & supported());
	length = *out;
	xdr_put_u32(out, 0);
	put_values(service, out, file, asked & supported());
	xdr_put_u32(&length, out->at - length.at - 4);
}

uint32_t attributes_get(struct xdr_in *in, uint64_t *set, uint64_t *size)
{
	uint64_t known = attribute(NFS4_ATTR_SIZE) | attribute(NFS4_ATTR_MODE);
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
