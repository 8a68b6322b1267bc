/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs3_meta.h - NFSv3's procedures for metadata (RFC 1813, 3.3.1 to 3.3.4, 3.3.8 to 3.3.10, 3.3.12
 * to 3.3.16, 3.3.18, 3.3.19): arguments encoded, results decoded. No socket, no state.
 */
#pragma once

#include "nfs/meta_message.h"
#include "nfs/nfs3.h"

/* NFS3_NULL for META_OPEN, which NFSv3 has not. */
enum nfs3_procedure nfs3_meta_procedure(enum meta_op op);

/*
 * An exclusive create's verifier, of the lower 48 bits of a number. A server may keep it as the
 * file's times, in two words of seconds: all of these are good ones.
 */
static inline uint64_t nfs3_create_verifier(uint64_t number)
{
	const uint64_t half = (1 << 24) - 1;

	return (number >> 24 & half) << 32 | (number & half);
}

/* The arguments behind the RPC call header, at most 248 bytes with names of 32. */
void nfs3_encode_meta(struct xdr_out *out, const struct meta_arguments *arguments);

/*
 * Reads the results behind the RPC reply header: nfsstat3 into *status. in->bad: more bytes are
 * needed. False: the results contradict themselves.
 */
bool nfs3_decode_meta(struct xdr_in *in, enum meta_op op, uint32_t *status,
		      struct meta_result *result);
