/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4.h - writes compounds of NFSv4.1 (RFC 8881, 16.2), reads their results, and has the
 * operations of clients, sessions and data (18); nfs/nfs4_meta.h has those of names and files.
 * NFSv4.2's compounds are the same with another minor version (RFC 7862). No socket, no state.
 */
#pragma once

#include "nfs/meta.h"
#include "nfs/status.h"

enum { NFS_V4 = 4 };
enum nfs4_procedure { NFS4_NULL = 0, NFS4_COMPOUND = 1 };

enum {
	NFS4_SESSIONID = 16,
	NFS4_STATEID = 16,
	NFS4_VERIFIER = 8,
	NFS4_OPAQUE_MAX = 1024, /* RFC 8881, 3.1: NFS4_OPAQUE_LIMIT */
	NFS4_NAME_MAX = 255,	/* ours */
	/* A READ's reply before its data: status, tag, count; SEQUENCE, PUTFH and READ results. */
	NFS4_READ_HEAD = 3 * 4 + (2 * 4 + NFS4_SESSIONID + 5 * 4) + 2 * 4 + 4 * 4,
};

/* RFC 8881, 18 */
#define NFS4_OPERATIONS(X)          \
	X(ACCESS, 3)                \
	X(CLOSE, 4)                 \
	X(COMMIT, 5)                \
	X(CREATE, 6)                \
	X(DELEGRETURN, 8)           \
	X(GETATTR, 9)               \
	X(GETFH, 10)                \
	X(LINK, 11)                 \
	X(LOOKUP, 15)               \
	X(OPEN, 18)                 \
	X(PUTFH, 22)                \
	X(PUTROOTFH, 24)            \
	X(READ, 25)                 \
	X(READDIR, 26)              \
	X(REMOVE, 28)               \
	X(RENAME, 29)               \
	X(SAVEFH, 32)               \
	X(SECINFO, 33)              \
	X(SETATTR, 34)              \
	X(WRITE, 38)                \
	X(BIND_CONN_TO_SESSION, 41) \
	X(EXCHANGE_ID, 42)          \
	X(CREATE_SESSION, 43)       \
	X(DESTROY_SESSION, 44)      \
	X(SECINFO_NO_NAME, 52)      \
	X(SEQUENCE, 53)             \
	X(DESTROY_CLIENTID, 57)     \
	X(RECLAIM_COMPLETE, 58)

#define NFS4_NUMBER(name, number) NFS4_##name = (number),

enum nfs4_operation { NFS4_OPERATIONS(NFS4_NUMBER) NFS4_ILLEGAL = 10044 };

/* "READ"; "?" for a number that is not in the list. */
const char *nfs4_operation_name(enum nfs4_operation operation);

/* A stateid as it goes over the wire; of zeros: the anonymous one (RFC 8881, 8.2.3). */
struct nfs4_stateid {
	uint8_t bytes[NFS4_STATEID];
};

/* --- compounds --- */

/*
 * A compound under construction, behind the RPC header. Each put adds one operation; out->bad says
 * whether there was room for all of them.
 */
struct nfs4_compound {
	struct xdr_out *out;
	uint8_t *count_at; /* where the number of operations stands */
	uint32_t count;
};

void nfs4_begin(struct nfs4_compound *compound, struct xdr_out *out, uint32_t minor);

/* Puts an operation; the caller then puts its arguments, if it has any. */
void nfs4_put(struct nfs4_compound *compound, enum nfs4_operation operation);

/*
 * The results of a compound, read one after the other in the order of its operations. in->bad is
 * XDR_WRONG also where the reply contradicts the call.
 */
struct nfs4_results {
	struct xdr_in *in;
	uint32_t status; /* of the whole compound: that of its last result */
	uint32_t left;	 /* results not read yet; none behind one that failed */
};

void nfs4_read_results(struct nfs4_results *results, struct xdr_in *in);

/*
 * Goes on to the next result, which must be `operation`'s, and returns its status (nfsstat4). After
 * 0 the caller reads the body by the operation's function, if there is one; after another status
 * it reads none. If no result is left, because the server refused the whole compound, returns
 * the compound's status.
 */
uint32_t nfs4_next_result(struct nfs4_results *results, enum nfs4_operation operation);

/* The same, but skips the body. */
uint32_t nfs4_skip_result(struct nfs4_results *results, enum nfs4_operation operation);

/* --- slots and data --- */

/* 18.46. `cache`: the server must keep the whole reply, in case the call is sent again. */
struct nfs4_sequence {
	uint8_t session[NFS4_SESSIONID];
	uint32_t sequence, slot, highest_slot;
	bool cache;
};
/* What the client reads of SEQUENCE's result. */
struct nfs4_sequence_result {
	uint32_t sequence, slot, highest_slot, target_highest_slot;
};
void nfs4_put_sequence(struct nfs4_compound *compound, const struct nfs4_sequence *sequence);
void nfs4_get_sequence(struct xdr_in *in, struct nfs4_sequence_result *sequence);

/* PUTFH (18.19), or PUTROOTFH (18.21) for a handle of length 0. */
void nfs4_put_handle(struct nfs4_compound *compound, const struct nfs_handle *handle);

/*
 * The compounds that move a file's data, encoded once: SEQUENCE, PUTFH, and READ, WRITE or COMMIT
 * of the whole file (18.22, 18.32, 18.3). A call is a copy of its template, with its own slot,
 * range and stateid stored into it.
 */
enum { NFS4_TEMPLATE_MAX = 92 + NFS4_FHSIZE }; /* bytes of the longest, WRITE's */
struct nfs4_template {
	enum nfs4_operation operation; /* the last: NFS4_READ, NFS4_WRITE or NFS4_COMMIT */
	uint32_t length;
	uint8_t bytes[NFS4_TEMPLATE_MAX];
};

/* A call's own values, in bytes. COMMIT uses no offset and length, READ no `stable`. */
struct nfs4_range {
	uint64_t offset;
	uint32_t length, stable;
	const uint8_t *stateid; /* NULL: the template's, from the OPEN */
};

/* Makes the template of READ, WRITE or COMMIT for a file's handle and its OPEN's stateid. */
void nfs4_template_make(struct nfs4_template *template, enum nfs4_operation operation,
			uint32_t minor, const struct nfs_handle *handle,
			const struct nfs4_stateid *stateid);

/* Writes a call; ignores sequence->cache. The caller adds a WRITE's data and pad. */
void nfs4_template_put(const struct nfs4_template *template, struct xdr_out *out,
		       const struct nfs4_sequence *sequence, const struct nfs4_range *range);

void nfs4_get_read(struct xdr_in *in, struct io_result *read);

/* --- clients and sessions --- */

/* A server's identity (RFC 8881, 2.10.5): only `minor` may differ between its addresses. */
struct nfs4_server {
	uint64_t minor;
	uint32_t major_length, scope_length;
	uint8_t major[NFS4_OPAQUE_MAX], scope[NFS4_OPAQUE_MAX];
};
enum { NFS4_CONFIRMED = 0x80000000u }; /* EXCHGID4_FLAG_CONFIRMED_R */
struct nfs4_exchange_result {
	uint64_t client;
	uint32_t sequence; /* of the next CREATE_SESSION */
	uint32_t flags;
	struct nfs4_server server;
};
/* 18.35: without pNFS, state protection or an implementation's name. */
void nfs4_put_exchange_id(struct nfs4_compound *compound, const uint8_t verifier[NFS4_VERIFIER],
			  const void *owner, uint32_t owner_length);
void nfs4_get_exchange_id(struct xdr_in *in, struct nfs4_exchange_result *exchange);

/* 18.36. Sizes are bytes of a whole message, with its RPC header. */
struct nfs4_channel {
	uint32_t request_max, response_max, cached_max, operations_max, slots;
};
struct nfs4_session_result {
	uint8_t session[NFS4_SESSIONID];
	struct nfs4_channel fore; /* as granted */
};
/* Also describes a back channel, as servers require, but asks for no connection to carry it. */
void nfs4_put_create_session(struct nfs4_compound *compound, uint64_t client, uint32_t sequence,
			     const struct nfs4_channel *fore);
void nfs4_get_create_session(struct xdr_in *in, struct nfs4_session_result *session);
