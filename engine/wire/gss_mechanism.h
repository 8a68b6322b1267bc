/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * gss_mechanism.h - what RPCSEC_GSS needs of a mechanism of GSS-API (RFC 2743): tokens that make a
 * context with the server, and then tokens that protect messages. One for each client. It has the
 * present context, and the one before, by which late replies come; and at most one in the making.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct gss_mechanism;

enum { GSS_MIC_MAX = 40, GSS_WRAP_MAX = 80 };

enum gss_progress {
	GSS_WORKING, /* to be asked again: nothing here waits for long */
	GSS_TOKEN,   /* `token` is to be sent to the server */
	GSS_MADE,    /* it is the context now, and the last one the earlier */
	GSS_FAILED,  /* `error` says why */
};

/* Where the making of a context stands: the mechanism's memory, valid until the next function that
 * makes one. */
struct gss_step {
	const uint8_t *token;
	uint32_t length;
	const char *error;

	/* GSS_MADE */
	uint64_t lifetime;   /* nanoseconds that the context is good for */
	const char *enctype; /* static, such as "aes256-cts-hmac-sha1-96" */
};

struct gss_mechanism_ops {
	/* Makes the next context, from begin() on. feed(): what the server has replied. */
	void (*begin)(struct gss_mechanism *mechanism);
	void (*feed)(struct gss_mechanism *mechanism, const uint8_t *reply, uint32_t length);
	enum gss_progress (*progress)(struct gss_mechanism *mechanism, struct gss_step *step);

	/* With a context. Bytes of a MIC, and those that a message grows by when it is wrapped. */
	uint32_t (*mic_size)(const struct gss_mechanism *mechanism);
	uint32_t (*wrap_size)(const struct gss_mechanism *mechanism);

	/* false: the library failed. */
	bool (*mic)(struct gss_mechanism *mechanism, const struct iovec *parts, int count,
		    uint8_t *mic);
	bool (*wrap)(struct gss_mechanism *mechanism, const struct iovec *parts, int count,
		     uint8_t *token);
	/* What wrap() may leave to be done for several messages together: their parts and tokens
	 * stay where they are until then. NULL: nothing. */
	bool (*wrap_end)(struct gss_mechanism *mechanism);

	/* False: these are not the server's, by the context or the earlier one. unwrap() decrypts
	 * in place. */
	bool (*verify)(struct gss_mechanism *mechanism, bool earlier, const struct iovec *parts,
		       int count, const uint8_t *mic, uint32_t length);
	bool (*unwrap)(struct gss_mechanism *mechanism, bool earlier, uint8_t *token,
		       uint32_t length, uint8_t **plain, uint32_t *plain_length);

	/* Of a token of which so many bytes are there: those before its plaintext, where that is as
	 * long as wrap_size() lets it be, and in order. 0: it is not, or cannot be told. */
	uint32_t (*wrap_front)(const uint8_t *token, uint32_t have);
	/* unwrap() of such a token in parts, three at most, which stay where they are. The last one
	 * has all that is behind the plaintext. */
	bool (*unwrap_parts)(struct gss_mechanism *mechanism, bool earlier,
			     const struct iovec *parts, int count);

	void (*free)(struct gss_mechanism *mechanism);
};

struct gss_mechanism {
	const struct gss_mechanism_ops *ops;
};
