/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs3.h - encodes the arguments and decodes the results of NFSv3's procedures (RFC 1813, 3.3):
 * READ, WRITE and COMMIT, which are the data path, and those for metadata. No sockets, no state.
 */
#pragma once

#include "nfs/meta.h"

enum { NFS_PROGRAM = 100003, NFS_V3 = 3 };
enum nfs3_procedure {
	NFS3_NULL = 0,
	NFS3_GETATTR = 1,
	NFS3_SETATTR = 2,
	NFS3_LOOKUP = 3,
	NFS3_ACCESS = 4,
	NFS3_READ = 6,
	NFS3_WRITE = 7,
	NFS3_CREATE = 8,
	NFS3_MKDIR = 9,
	NFS3_SYMLINK = 10,
	NFS3_REMOVE = 12,
	NFS3_RMDIR = 13,
	NFS3_RENAME = 14,
	NFS3_LINK = 15,
	NFS3_READDIR = 16,
	NFS3_FSSTAT = 18,
	NFS3_FSINFO = 19,
	NFS3_COMMIT = 21,
};

/*
 * Encodes the arguments behind the RPC call header, at most 96 bytes. WRITE's data is bulk and
 * follows them: `length` bytes and their pad.
 */
void nfs3_encode_read(struct xdr_out *out, const struct nfs_handle *handle, uint64_t offset,
		      uint32_t length);
void nfs3_encode_write(struct xdr_out *out, const struct nfs_handle *handle, uint64_t offset,
		       uint32_t length, enum io_stable stable);
/* The whole file: offset 0, count 0. */
void nfs3_encode_commit(struct xdr_out *out, const struct nfs_handle *handle);

/*
 * Reads a procedure's results behind the RPC reply header, for READ up to its data. Returns
 * nfsstat3; *result is valid only where that is 0.
 */
uint32_t nfs3_decode(struct xdr_in *in, enum nfs3_procedure procedure, struct io_result *result);

enum { NFS3_FATTR_SIZE = 84 };

/* READ3resok with attributes, up to its data: status, flag, attributes, count, EOF, length. */
enum { NFS3_READ_HEAD = 2 * 4 + NFS3_FATTR_SIZE + 3 * 4 };

const char *nfs3_procedure_name(enum nfs3_procedure procedure);

/* --- metadata --- */

/*
 * An exclusive create's verifier from the lower 48 bits of a number. A server may store it in the
 * file's times, as two words of seconds: 24 bits in each make valid times.
 */
static inline uint64_t nfs3_create_verifier(uint64_t number)
{
	const uint64_t half = (1 << 24) - 1;

	return (number >> 24 & half) << 32 | (number & half);
}

/* The same as nfs3_decode() for a metadata operation. */
uint32_t nfs3_decode_meta(struct xdr_in *in, enum meta_op op, struct meta_result *result);
