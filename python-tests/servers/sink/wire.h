/* SPDX-License-Identifier: GPL-2.0-only */
/* wire.h - handles, names and the write verifier as both versions of NFS carry them. */
#pragma once

#include "files.h"
#include "wire/xdr.h"

enum { HANDLE_BYTES = 32, HANDLE_WORDS = HANDLE_BYTES / 4, SINK_MAGIC = 0x73696e6b };

static const uint64_t WRITE_VERIFIER = 0x6e66732d73696e6b;

static inline void put_handle(struct xdr_out *out, uint32_t file)
{
	xdr_put_u32(out, HANDLE_BYTES);
	xdr_put_u32(out, SINK_MAGIC);
	xdr_put_u32(out, file);
	for (int i = 2; i < HANDLE_WORDS; i++)
		xdr_put_u32(out, 0);
}

/*
 * A handle that is not made here stands for FILE_ANY: clients without MOUNT and LOOKUP are served
 * too. False for one of ours without a file; an incomplete one makes `in` bad.
 */
static inline bool get_handle(struct xdr_in *in, uint32_t *file)
{
	uint32_t length = xdr_get_u32(in);
	uint32_t magic;

	*file = FILE_ANY;
	if (in->bad || length != HANDLE_BYTES) {
		xdr_skip(in, length);
		return !in->bad;
	}
	magic = xdr_get_u32(in);
	if (magic == SINK_MAGIC)
		*file = xdr_get_u32(in);
	else
		xdr_skip(in, 4);
	xdr_skip(in, HANDLE_BYTES - 8);
	return files_exist(*file);
}

/* A name in place; false where it is none. */
static inline bool get_name(struct xdr_in *in, const char **name, uint32_t *length)
{
	*length = xdr_get_u32(in);
	*name = (const char *)in->at;
	xdr_skip(in, *length);
	return !in->bad && *length && *length <= FILE_NAME_MAX;
}
