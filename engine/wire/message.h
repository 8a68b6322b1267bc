/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * message.h - ONC RPC version 2 call and reply headers (RFC 5531, 9). Encode and decode only: no
 * socket, no state.
 */
#pragma once

#include "wire/credentials.h"

/* The first 24 bytes of a call, up to and not including its credential. */
void rpc_encode_header(struct xdr_out *out, uint32_t xid, uint32_t program, uint32_t version,
		       uint32_t procedure);

/* A credential or a verifier without a body. */
void rpc_put_empty(struct xdr_out *out, uint32_t flavor);

/*
 * The call header, up to and not including the procedure's arguments: 24 bytes, and what the
 * credentials' flavor needs. `stamp` is the call's.
 */
void rpc_encode_call(struct xdr_out *out, uint32_t xid, uint32_t program, uint32_t version,
		     uint32_t procedure, struct rpc_credentials *credentials,
		     struct rpc_stamp *stamp);

/* The result of reading a reply header. */
enum rpc_verdict {
	RPC_SUCCESS,
	RPC_PROG_UNAVAIL,
	RPC_PROG_MISMATCH,
	RPC_PROC_UNAVAIL,
	RPC_GARBAGE_ARGS,
	RPC_SYSTEM_ERR,
	RPC_OTHER_VERSION, /* denied: the server speaks another version of RPC */
	RPC_AUTH_ERROR,	   /* denied: `auth_stat` says why */
	RPC_NOT_A_REPLY	   /* not a reply, or values that the RFC does not know */
};

struct rpc_reply_header {
	uint32_t xid;
	enum rpc_verdict verdict;
	uint32_t auth_stat;	      /* RPC_AUTH_ERROR */
	struct rpc_verifier verifier; /* of an accepted call; the body lies in the message */
	uint32_t low,
		high; /* RPC_PROG_MISMATCH, RPC_OTHER_VERSION: the versions the server speaks */
};

/* True if the server accepted the call, so that the reply has a verifier. */
static inline bool rpc_is_accepted(const struct rpc_reply_header *header)
{
	return header->verdict <= RPC_SYSTEM_ERR;
}

/*
 * Reads a reply header; leaves `in` at the procedure's results. in->bad: the header is longer than
 * the bytes received, and must not be used.
 */
void rpc_decode_reply(struct xdr_in *in, struct rpc_reply_header *header);

/* "AUTH_TOOWEAK" and the like. */
const char *rpc_auth_stat_name(uint32_t stat);

/* The errno of a verdict; 0 for RPC_SUCCESS. */
int rpc_verdict_errno(const struct rpc_reply_header *header);

/*
 * One line for people, such as "the server denied the credentials (AUTH_TOOWEAK) …". `version` is
 * that of the program that was called.
 */
void rpc_verdict_text(const struct rpc_reply_header *header, uint32_t version, char *text,
		      size_t size);
