/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rpcsec_gss.h - RPCSEC_GSS version 1 (RFC 2203): authenticates calls, with integrity or privacy of
 * arguments, results and data, by any mechanism of GSS-API. Each client has its own credentials and
 * context (gss_context.h).
 *
 * NULL calls have no credentials, unless they make or destroy a context. A context that expires
 * soon, or that the server has forgotten, is replaced; the old one still verifies late replies.
 */
#pragma once

#include "stats/counters.h"
#include "wire/credentials.h"

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
 * A mechanism makes the tokens that set up a context, and those that protect messages. Each client
 * has its own. It keeps the present context, the earlier one for late replies, and at most one
 * unfinished.
 */

enum { GSS_MIC_MAX = 40, GSS_WRAP_MAX = 80 };

enum gss_progress {
	GSS_WORKING, /* ask again later */
	GSS_TOKEN,   /* send `token` to the server */
	GSS_MADE,    /* the new context is the present one, the old one the earlier */
	GSS_FAILED,  /* `error` says why */
};

/* The result of progress(). Pointers are valid until the next begin(), feed() or progress(). */
struct gss_step {
	const uint8_t *token;
	uint32_t length;
	const char *error;

	/* GSS_MADE */
	uint64_t lifetime;   /* of the context, nanoseconds */
	const char *enctype; /* static, such as "aes256-cts-hmac-sha1-96" */
};

struct gss_mechanism_ops {
	/* begin() starts the next context; feed() takes the server's reply. */
	void (*begin)(struct gss_mechanism *mechanism);
	void (*feed)(struct gss_mechanism *mechanism, const uint8_t *reply, uint32_t length);
	enum gss_progress (*progress)(struct gss_mechanism *mechanism, struct gss_step *step);

	/* For the present context: bytes of a MIC, and bytes that wrapping adds. */
	uint32_t (*mic_size)(const struct gss_mechanism *mechanism);
	uint32_t (*wrap_size)(const struct gss_mechanism *mechanism);

	/* false: the library failed. */
	bool (*mic)(struct gss_mechanism *mechanism, const struct iovec *parts, int count,
		    uint8_t *mic);
	bool (*wrap)(struct gss_mechanism *mechanism, const struct iovec *parts, int count,
		     uint8_t *token);
	/* Finishes messages that wrap() left unfinished, several together: their parts and tokens
	 * must stay valid until then. NULL: wrap() finishes each. */
	bool (*wrap_end)(struct gss_mechanism *mechanism);

	/* False: not made by the server with this context (`earlier`: the earlier one). unwrap()
	 * decrypts in place. */
	bool (*verify)(struct gss_mechanism *mechanism, bool earlier, const struct iovec *parts,
		       int count, const uint8_t *mic, uint32_t length);
	bool (*unwrap)(struct gss_mechanism *mechanism, bool earlier, uint8_t *token,
		       uint32_t length, uint8_t **plain, uint32_t *plain_length);

	/* Bytes before the plaintext of a token, of which `have` bytes are there. 0: the token is
	 * rotated or has filler (RFC 4121, 4.2), so unwrap() is needed, or `have` is too little. */
	uint32_t (*wrap_front)(const uint8_t *token, uint32_t have);
	/* unwrap() of a token whose wrap_front() is not 0, in place in at most three parts. The
	 * last part has all that is behind the plaintext. */
	bool (*unwrap_parts)(struct gss_mechanism *mechanism, bool earlier,
			     const struct iovec *parts, int count);

	void (*free)(struct gss_mechanism *mechanism);
};

struct gss_mechanism {
	const struct gss_mechanism_ops *ops;
};
