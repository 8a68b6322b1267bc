/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rpcsec_gss.h - RPCSEC_GSS version 1 (RFC 2203): authenticates calls, with integrity or privacy of
 * arguments, results and data, by Kerberos. Each client has its own credentials and context.
 *
 * NULL calls have no credentials, unless they make or destroy a context. A context that expires
 * soon, or that the server has forgotten, is replaced; the old one still verifies late replies.
 */
#pragma once

#include "stats/counters.h"
#include "wire/credentials.h"
#include "wire/krb5_token.h"

/* RFC 2203, 5.3.1 */
enum gss_service { GSS_SERVICE_NONE = 1, GSS_SERVICE_INTEGRITY = 2, GSS_SERVICE_PRIVACY = 3 };

struct gss_mechanism;

struct rpcsec_gss_terms {
	enum gss_service service;
	struct gss_mechanism *mechanism;    /* freed with the credentials, or if new() fails */
	struct security_counters *counters; /* the owner's; it outlives the credentials */
	uint32_t data_max;		    /* bytes of data that a call carries at most */
};

/* 0 or -ENOMEM. */
int rpcsec_gss_new(struct rpc_credentials **credentials, const struct rpcsec_gss_terms *terms);
void rpcsec_gss_free(struct rpc_credentials *credentials);

/*
 * --- what RPCSEC_GSS needs of a mechanism of GSS-API (RFC 2743) ---
 *
 * A mechanism makes the tokens that set up a context, and the context's keys, by which krb5_token.h
 * protects messages. Each client has its own mechanism, which makes at most one context at a time.
 */

/* The result of progress(). Pointers are valid until the next begin(), feed(), progress() or
 * adopt(), but `enctype`, which is static. */
struct gss_step {
	const uint8_t *token;
	uint32_t length;
	const char *error;

	/* RPC_CONTEXT_READY */
	uint64_t lifetime;   /* of the context, nanoseconds */
	const char *enctype; /* such as "aes256-cts-hmac-sha1-96" */
};

struct gss_mechanism_ops {
	/* begin() starts the next context; feed() takes the server's reply. progress():
	 * RPC_CONTEXT_WAITS: ask again later; RPC_CONTEXT_ASKS: `token` is for the server;
	 * RPC_CONTEXT_READY: it has the new context's keys, in `next`; RPC_CONTEXT_FAILED: `error`
	 * says why. adopt() may follow RPC_CONTEXT_READY: it makes these keys the present ones,
	 * with `sequence`, and the old ones the earlier. free() frees keys. */
	void (*begin)(struct gss_mechanism *mechanism);
	void (*feed)(struct gss_mechanism *mechanism, const uint8_t *reply, uint32_t length);
	enum rpc_context_state (*progress)(struct gss_mechanism *mechanism, struct gss_step *step);
	void (*adopt)(struct gss_mechanism *mechanism);

	void (*free)(struct gss_mechanism *mechanism);
};

struct gss_mechanism {
	const struct gss_mechanism_ops *ops;
	struct krb5_keys *keys;	   /* of the present context; NULL: there is none */
	struct krb5_keys *earlier; /* of the context before, for late replies */
	struct krb5_keys *next;	   /* of the context that was made, until it is adopted */
	uint64_t sequence;	   /* of our next token */
};
