/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * gss_mechanism.h - what RPCSEC_GSS needs of a mechanism of GSS-API (RFC 2743): tokens that make a
 * context with the server, and then tokens that protect messages. One for each client, at most one
 * context at a time.
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
	GSS_MADE,    /* the context is there, after a token at the last step or before */
	GSS_FAILED,  /* `error` says why */
};

/* Where the making of a context stands: the mechanism's memory, valid until the next function. */
struct gss_step {
	const uint8_t *token;
	uint32_t length;
	const char *error;
	uint64_t lifetime; /* GSS_MADE: nanoseconds that the context is good for */
};

struct gss_mechanism_ops {
	/* Begins another context, and forgets the last. feed(): what the server has replied. */
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

	/* False: these are not the server's. unwrap() decrypts in place. */
	bool (*verify)(struct gss_mechanism *mechanism, const struct iovec *parts, int count,
		       const uint8_t *mic, uint32_t length);
	bool (*unwrap)(struct gss_mechanism *mechanism, uint8_t *token, uint32_t length,
		       uint8_t **plain, uint32_t *plain_length);

	void (*free)(struct gss_mechanism *mechanism);
};

struct gss_mechanism {
	const struct gss_mechanism_ops *ops;
};
