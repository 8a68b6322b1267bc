/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * gss_mechanism.h - what RPCSEC_GSS needs of a mechanism of GSS-API (RFC 2743): tokens that make a
 * context with the server, then tokens that protect messages. Each client has one. It keeps the
 * present context, the earlier one for late replies, and at most one in the making.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct gss_mechanism;

enum { GSS_MIC_MAX = 40, GSS_WRAP_MAX = 80 };

enum gss_progress {
	GSS_WORKING, /* ask again: nothing here waits for long */
	GSS_TOKEN,   /* `token` is to be sent to the server */
	GSS_MADE,    /* the new context is the present one, and the last one the earlier */
	GSS_FAILED,  /* `error` says why */
};

/* A step of making a context. The mechanism's memory, valid until its next such function. */
struct gss_step {
	const uint8_t *token;
	uint32_t length;
	const char *error;

	/* GSS_MADE */
	uint64_t lifetime;   /* of the context, nanoseconds */
	const char *enctype; /* static, such as "aes256-cts-hmac-sha1-96" */
};

struct gss_mechanism_ops {
	/* Makes the next context, from begin() on. feed() takes the server's reply. */
	void (*begin)(struct gss_mechanism *mechanism);
	void (*feed)(struct gss_mechanism *mechanism, const uint8_t *reply, uint32_t length);
	enum gss_progress (*progress)(struct gss_mechanism *mechanism, struct gss_step *step);

	/* With a context: bytes of a MIC, and bytes that wrapping adds to a message. */
	uint32_t (*mic_size)(const struct gss_mechanism *mechanism);
	uint32_t (*wrap_size)(const struct gss_mechanism *mechanism);

	/* false: the library failed. */
	bool (*mic)(struct gss_mechanism *mechanism, const struct iovec *parts, int count,
		    uint8_t *mic);
	bool (*wrap)(struct gss_mechanism *mechanism, const struct iovec *parts, int count,
		     uint8_t *token);
	/* Finishes the messages that wrap() has left unfinished, several together: their parts and
	 * tokens stay where they are until then. NULL: wrap() finishes all. */
	bool (*wrap_end)(struct gss_mechanism *mechanism);

	/* False: not made by the server with this context (`earlier`: the earlier one). unwrap()
	 * decrypts in place. */
	bool (*verify)(struct gss_mechanism *mechanism, bool earlier, const struct iovec *parts,
		       int count, const uint8_t *mic, uint32_t length);
	bool (*unwrap)(struct gss_mechanism *mechanism, bool earlier, uint8_t *token,
		       uint32_t length, uint8_t **plain, uint32_t *plain_length);

	/* Bytes before the plaintext of a token, of which `have` bytes are there. 0: the plaintext
	 * is not in order, or shorter than wrap_size() says, or `have` is too little. */
	uint32_t (*wrap_front)(const uint8_t *token, uint32_t have);
	/* unwrap() of such a token, in place in at most three parts. The last part has all that is
	 * behind the plaintext. */
	bool (*unwrap_parts)(struct gss_mechanism *mechanism, bool earlier,
			     const struct iovec *parts, int count);

	void (*free)(struct gss_mechanism *mechanism);
};

struct gss_mechanism {
	const struct gss_mechanism_ops *ops;
};
