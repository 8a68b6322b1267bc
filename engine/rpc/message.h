/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * message.h - ONC RPC version 2 call and reply headers (RFC 5531, 9), with AUTH_SYS credentials
 * (appendix A). Encode and decode only: no socket, no state.
 */
#ifndef NFSMULTI_RPC_MESSAGE_H
#define NFSMULTI_RPC_MESSAGE_H

#include "rpc/xdr.h"

#define RPC_GIDS_MAX	16  /* RFC 5531, appendix A */
#define RPC_MACHINE_MAX 64  /* ours; the RFC allows 255 */
#define RPC_CALL_MAX	208 /* bytes of the longest header that rpc_encode_call() writes */

/* Who calls: AUTH_SYS's view of a process. */
struct rpc_cred {
	char machine[RPC_MACHINE_MAX + 1];
	uint32_t uid, gid;
	uint32_t gids[RPC_GIDS_MAX];
	uint32_t gid_count;
};

/*
 * This process's own name, ids and groups, of which AUTH_SYS has room for the first RPC_GIDS_MAX
 * (RFC 5531, appendix A). Returns the number of groups that it is in.
 */
uint32_t rpc_cred_self(struct rpc_cred *cred);

/* The call header, up to and not including the procedure's arguments. */
void rpc_encode_call(struct xdr_out *out, uint32_t xid, uint32_t program, uint32_t version,
		     uint32_t procedure, const struct rpc_cred *cred);

/* What a reply header says. */
enum rpc_verdict {
	RPC_SUCCESS,
	RPC_PROG_UNAVAIL,
	RPC_PROG_MISMATCH,
	RPC_PROC_UNAVAIL,
	RPC_GARBAGE_ARGS,
	RPC_SYSTEM_ERR,
	RPC_MISMATCH,	/* denied: the server speaks another version of RPC */
	RPC_AUTH_ERROR, /* denied: `auth_stat` says why */
	RPC_NOT_A_REPLY /* no reply at all, or values that the RFC does not know */
};

struct rpc_reply_header {
	uint32_t xid;
	enum rpc_verdict verdict;
	uint32_t auth_stat; /* RPC_AUTH_ERROR */
	uint32_t low, high; /* RPC_PROG_MISMATCH, RPC_MISMATCH: the versions the server speaks */
};

/*
 * Reads a reply header; leaves `in` at the procedure's results. in->bad means that the message goes
 * on past the bytes at hand: the header is then not to be used.
 */
void rpc_decode_reply(struct xdr_in *in, struct rpc_reply_header *header);

/* The errno that stands for a verdict other than RPC_SUCCESS. */
int rpc_verdict_errno(const struct rpc_reply_header *header);

/* One line for people, such as "the server denied the call: AUTH_TOOWEAK …". */
void rpc_verdict_text(const struct rpc_reply_header *header, char *text, size_t size);

#endif
