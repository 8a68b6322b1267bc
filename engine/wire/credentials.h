/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * credentials.h - authenticates calls, and verifies replies: one table for each flavor of
 * authentication (RFC 5531, 8.2).
 *
 * A flavor's structure begins with a struct rpc_credentials. Its maker keeps it until all its calls
 * have ended. No function waits longer than 2 ms; only making a context allocates.
 */
#pragma once

#include <sys/uio.h>

#include "wire/xdr.h"

/* RFC 5531, 8.2; RFC 2203, 3 */
enum rpc_flavor_number { RPC_AUTH_NONE = 0, RPC_AUTH_SYS = 1, RPC_AUTH_SHORT = 2, RPC_GSS = 6 };

/* RFC 5531, 9: why a call was denied */
enum rpc_auth_stat { RPC_CREDENTIAL_PROBLEM = 13, RPC_CONTEXT_PROBLEM = 14 };

/* True if the server has forgotten the call's context, so that a new one is needed. */
static inline bool rpc_denies_context(uint32_t auth_stat)
{
	return auth_stat == RPC_CREDENTIAL_PROBLEM || auth_stat == RPC_CONTEXT_PROBLEM;
}

/* A reply's verifier; the body points into the message. */
struct rpc_verifier {
	uint32_t flavor, length;
	const uint8_t *body;
};

/*
 * A flavor's record of a call, from its first transmission until release(); all 0: empty. It keeps
 * the latest numbers of a call that is sent again, since any copy may be answered.
 */
struct rpc_stamp {
	uint32_t context;    /* the context that the numbers belong to */
	uint32_t numbers[3]; /* the latest first; 0: none */
};

/* The result of checking a reply's verifier. */
enum rpc_belief {
	RPC_BELIEVED,	 /* the reply is the server's */
	RPC_NOT_ARRIVED, /* not the server's: ignore it, the server's reply may follow */
	RPC_REFUSED,	 /* the server's, but against the rules: the call fails */
};

/* Whether calls may be sent. */
enum rpc_context_state {
	RPC_CONTEXT_READY,
	RPC_CONTEXT_ASKS,   /* only after put_request()'s call is answered */
	RPC_CONTEXT_WAITS,  /* call step() again after a while */
	RPC_CONTEXT_FAILED, /* error() says why; the next step() starts again */
};

struct rpc_credentials;
struct rpc_payload;
struct rpc_reply_header;

/* The xid and program of a call that the flavor makes itself. */
struct rpc_call_header {
	uint32_t xid, program, version;
};

/* A context between client and server, which calls need (RFC 2203, 5.2). */
struct rpc_context_ops {
	enum rpc_context_state (*step)(struct rpc_credentials *credentials, uint64_t now);

	/* Writes the head of the NULL call that makes the context; *data follows it. */
	void (*put_request)(struct rpc_credentials *credentials, struct xdr_out *out,
			    const struct rpc_call_header *call, struct rpc_payload *data);
	/* Reads that call's results; in->bad: too short. False: error() says why. */
	bool (*answered)(struct rpc_credentials *credentials, const struct rpc_reply_header *header,
			 struct xdr_in *in);
	const char *(*error)(const struct rpc_credentials *credentials);

	/* Called while the connection is up, about every 100 ms or, between, when renew_at() has
	 * come. True: step() must make a context before the next call is sent. */
	bool (*due)(struct rpc_credentials *credentials, uint64_t now);
	/* When due() next has something to do, unless the server denies a call before. */
	uint64_t (*renew_at)(const struct rpc_credentials *credentials);

	/* True if one more call may be sent. `sent`: all earlier calls were sent. */
	bool (*room)(struct rpc_credentials *credentials, bool sent);

	/* The call will be sent again: its number no longer holds back the window, but may still
	 * be answered. */
	void (*overdue)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp);
	/* True: the keys of the call's context are gone, so that no reply to it can be verified. */
	bool (*orphaned)(const struct rpc_credentials *credentials, const struct rpc_stamp *stamp);
	/* The call was answered, or no reply to its stamp's numbers is awaited any more. */
	void (*release)(struct rpc_credentials *credentials, struct rpc_stamp *stamp);
	/* The connection is lost: no call will be answered. */
	void (*lost)(struct rpc_credentials *credentials);

	/* The server denied the call. True: it may be sent again, with the context of step(). */
	bool (*denied)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
		       uint32_t auth_stat);

	/* Writes the call that destroys the context at the server; false: there is none. */
	bool (*put_farewell)(struct rpc_credentials *credentials, struct xdr_out *out,
			     const struct rpc_call_header *call);
};

struct rpc_flavor {
	/* Writes credential and verifier behind the header that begins at `start`. */
	void (*put)(struct rpc_credentials *credentials, struct rpc_stamp *stamp,
		    struct xdr_out *out, const uint8_t *start);

	/*
	 * Protects a call's arguments, which end at out->at, and its data. False: it cannot.
	 * wrap() and its opposites are NULL in a flavor without integrity or privacy.
	 */
	bool (*wrap)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
		     struct xdr_out *out, uint8_t *arguments, struct rpc_payload *data);
	/* Called before wrapped calls are sent. False: it failed. May be NULL. */
	bool (*wrap_end)(struct rpc_credentials *credentials);

	/* Called before an accepted reply is used, even if it is an error. */
	enum rpc_belief (*check)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
				 const struct rpc_verifier *verifier);

	/* The reverse of wrap(), for all of a reply behind its header; may change the bytes. False:
	 * no part of the reply may be used. */
	bool (*unwrap)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
		       struct xdr_in *in);

	/*
	 * Returns the number of bytes before the wrapped results, so that a READ's data can be
	 * received into place before the reply is complete. The reply has `length` bytes behind its
	 * header; `in` has the first of them. 0: more bytes are needed, or it is not possible, as
	 * where the results are not `results` bytes long.
	 */
	uint32_t (*lead)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			 struct xdr_in in, uint32_t length, uint32_t results);
	/* unwrap() for such a reply: *in lacks the data, whose place is right before `behind`. Sets
	 * *in to the results before the data. */
	bool (*unwrap_around)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			      struct xdr_in *in, const struct iovec *data, const uint8_t *behind);

	const struct rpc_context_ops *context; /* NULL: the flavor needs none */
};

struct rpc_credentials {
	const struct rpc_flavor *flavor;
};

/* --- AUTH_SYS: numbers of user and groups (RFC 5531, appendix A) --- */

#define AUTH_SYS_GIDS_MAX    16 /* the RFC's */
#define AUTH_SYS_MACHINE_MAX 64 /* ours; the RFC allows 255 */
#define AUTH_SYS_ROOM	     168

struct auth_sys_ids {
	char machine[AUTH_SYS_MACHINE_MAX + 1];
	uint32_t uid, gid;
	uint32_t gids[AUTH_SYS_GIDS_MAX];
	uint32_t gid_count;
};

/* Encoded once, and copied into each call. */
struct auth_sys {
	struct rpc_credentials base;
	uint32_t length;
	uint8_t bytes[AUTH_SYS_ROOM];
};

/* Fills in this process's machine name, ids and first AUTH_SYS_GIDS_MAX groups. Returns how many
 * groups it has. */
uint32_t auth_sys_own_ids(struct auth_sys_ids *ids);

void auth_sys_init(struct auth_sys *auth, const struct auth_sys_ids *ids);
