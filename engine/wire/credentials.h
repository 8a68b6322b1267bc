/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * credentials.h - who calls, and how a reply shows that it is the server's: one table for each
 * flavor of authentication (RFC 5531, 8.2).
 *
 * A flavor's own structure begins with a struct rpc_credentials. It belongs to whoever made it, and
 * outlives all calls that use it. Nothing here waits for longer than 2 ms; nothing allocates but
 * what makes a context.
 */
#pragma once

#include <sys/uio.h>

#include "wire/xdr.h"

/* RFC 5531, 8.2; RFC 2203, 3 */
enum rpc_flavor_number { RPC_AUTH_NONE = 0, RPC_AUTH_SYS = 1, RPC_AUTH_SHORT = 2, RPC_GSS = 6 };

/* RFC 5531, 9: of a denied call */
enum rpc_auth_stat { RPC_CREDENTIAL_PROBLEM = 13, RPC_CONTEXT_PROBLEM = 14 };

/* The server does not know the call's context: another is to be made. */
static inline bool rpc_denies_context(uint32_t auth_stat)
{
	return auth_stat == RPC_CREDENTIAL_PROBLEM || auth_stat == RPC_CONTEXT_PROBLEM;
}

/* A reply's verifier, where it lies in the message. */
struct rpc_verifier {
	uint32_t flavor, length;
	const uint8_t *body;
};

/*
 * What a flavor keeps of a call, from its first transmission until release(). Zeros: nothing. Of a
 * call that goes out again it keeps the latest numbers, since any copy may be the one answered.
 */
struct rpc_stamp {
	uint32_t context;    /* the context that the numbers are of */
	uint32_t numbers[3]; /* the latest first; 0: none */
};

/* What a reply's verifier says. */
enum rpc_belief {
	RPC_BELIEVED,	 /* it is the server's */
	RPC_NOT_ARRIVED, /* it is not, and counts as if it had not come: the server's may follow */
	RPC_REFUSED,	 /* the server's, which breaks the rules: the call fails */
};

/* Whether calls may go out. */
enum rpc_context_state {
	RPC_CONTEXT_READY,
	RPC_CONTEXT_ASKS,   /* the call of put_request() is to be answered first */
	RPC_CONTEXT_WAITS,  /* step() is to be called again after a while */
	RPC_CONTEXT_FAILED, /* error() says why; the next step() begins anew */
};

struct rpc_credentials;
struct rpc_payload;
struct rpc_reply_header;

/* A call's number and program, for a flavor that makes calls of its own. */
struct rpc_call_header {
	uint32_t xid, program, version;
};

/* A context between client and server, that calls need before they go out (RFC 2203, 5.2). */
struct rpc_context_ops {
	enum rpc_context_state (*step)(struct rpc_credentials *credentials, uint64_t now);

	/* Writes the NULL call that makes the context, with *data behind its head. */
	void (*put_request)(struct rpc_credentials *credentials, struct xdr_out *out,
			    const struct rpc_call_header *call, struct rpc_payload *data);
	/* Takes its reply, from the results on; in->bad: it is too short. False: error() says why.
	 */
	bool (*answered)(struct rpc_credentials *credentials, const struct rpc_reply_header *header,
			 struct xdr_in *in);
	const char *(*error)(const struct rpc_credentials *credentials);

	/* One is to be made: step() is to be called, and no call to go out meanwhile. To be asked
	 * about every 100 ms, while the connection is up. */
	bool (*due)(struct rpc_credentials *credentials, uint64_t now);

	/* True where one more call may go out. `sent`: all of the earlier ones have left. */
	bool (*room)(struct rpc_credentials *credentials, bool sent);

	/* The call is to go out again: its number is not waited for, but may still be answered. */
	void (*overdue)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp);
	/* The call was answered, or will not be answered by what its stamp says. */
	void (*release)(struct rpc_credentials *credentials, struct rpc_stamp *stamp);
	/* So will none, since the connection is lost. */
	void (*lost)(struct rpc_credentials *credentials);

	/* The server denied the call: true where another context is to be made, by step(). */
	bool (*denied)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
		       uint32_t auth_stat);

	/* Writes the call by which the server forgets the context; false: there is none. */
	bool (*put_farewell)(struct rpc_credentials *credentials, struct xdr_out *out,
			     const struct rpc_call_header *call);
};

struct rpc_flavor {
	/* Writes credential and verifier behind the header that begins at `start`. */
	void (*put)(struct rpc_credentials *credentials, struct rpc_stamp *stamp,
		    struct xdr_out *out, const uint8_t *start);

	/*
	 * Makes a call's arguments, which end at out->at, and its data what goes over the wire.
	 * False: it cannot. This and its opposites are NULL in a flavor without integrity or
	 * privacy.
	 */
	bool (*wrap)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
		     struct xdr_out *out, uint8_t *arguments, struct rpc_payload *data);
	/* Before anything that was wrapped leaves. False: it cannot. May be NULL. */
	bool (*wrap_end)(struct rpc_credentials *credentials);

	/* Asked before anything of an accepted reply is used, whether or not it is an error. */
	enum rpc_belief (*check)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
				 const struct rpc_verifier *verifier);

	/*
	 * The opposite of wrap(), for all of a reply behind its header, which it may change. False:
	 * nothing of it is to be used.
	 */
	bool (*unwrap)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
		       struct xdr_in *in);

	/*
	 * For a READ's data to be received where it belongs, before all of its reply is there: the
	 * bytes that are wrapped around the results in front. The reply has `length` bytes behind
	 * its header, of which `in` has the first. 0: its results are not `results` bytes, or that
	 * cannot be told yet.
	 */
	uint32_t (*lead)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			 struct xdr_in in, uint32_t length, uint32_t results);
	/* unwrap() for such a reply: *in is without its data, which stood right before `behind`.
	 * *in is left with the results before that. */
	bool (*unwrap_around)(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			      struct xdr_in *in, const struct iovec *data, const uint8_t *behind);

	const struct rpc_context_ops *context; /* NULL: it needs none */
};

struct rpc_credentials {
	const struct rpc_flavor *flavor;
};

/* --- AUTH_SYS: user, group and further groups by their numbers (RFC 5531, appendix A) --- */

#define AUTH_SYS_GIDS_MAX    16 /* the RFC's */
#define AUTH_SYS_MACHINE_MAX 64 /* ours; the RFC allows 255 */
#define AUTH_SYS_ROOM	     168

struct auth_sys_ids {
	char machine[AUTH_SYS_MACHINE_MAX + 1];
	uint32_t uid, gid;
	uint32_t gids[AUTH_SYS_GIDS_MAX];
	uint32_t gid_count;
};

/* Encoded once: each call copies it. */
struct auth_sys {
	struct rpc_credentials base;
	uint32_t length;
	uint8_t bytes[AUTH_SYS_ROOM];
};

/*
 * This process's own name, ids and groups, of which there is room for the first AUTH_SYS_GIDS_MAX.
 * Returns the number of groups that it is in.
 */
uint32_t auth_sys_own_ids(struct auth_sys_ids *ids);

void auth_sys_init(struct auth_sys *auth, const struct auth_sys_ids *ids);
