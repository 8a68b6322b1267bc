/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * gss_context.h - a context of RPCSEC_GSS (RFC 2203, 5.2) between client and server: how it is
 * made, and replaced before it ends or where the server does not know it any more; and its numbers.
 *
 * One connection's credentials have it, and begin with it (rpcsec_gss.c).
 */
#pragma once

#include "stats/counters.h"
#include "wire/credentials.h"
#include "wire/gss_mechanism.h"
#include "wire/gss_window.h"

enum gss_state {
	GSS_NONE,
	GSS_MAKING, /* the mechanism is at work */
	GSS_ASKING, /* its token is to be sent, or to be answered */
	GSS_READY,
};

struct gss_handle {
	uint8_t bytes[128]; /* servers' have up to 16 */
	uint32_t length;
};

struct gss_context {
	struct rpc_credentials base;
	struct gss_mechanism *mechanism;
	struct security_counters *counters; /* of its connection */

	enum gss_state state; /* of the one that is being made, or of the present one */
	bool usable;	      /* the present one, for all that is known */
	bool renewing;	      /* the mechanism makes the next beside it */
	bool put_off;	      /* that was in vain: not again at once */
	uint32_t number;      /* how many there have been */
	struct gss_window window;
	struct gss_handle handle, next_handle;
	uint64_t began; /* when the making did */
	uint64_t renew_at, expires;
	uint32_t denials; /* contexts in a row that the server does not know */
	char error[400];
	struct gss_step step; /* the mechanism's latest */
	const char *enctype;  /* of the present one */

	/* The reply to INIT: its verifier is looked at once there are keys. */
	uint32_t window_size;
	uint8_t window_mic[GSS_MIC_MAX];
	uint32_t window_mic_length;
};

/* struct rpc_context_ops's functions, of credentials that begin with a struct gss_context. */
enum rpc_context_state gss_context_step(struct rpc_credentials *credentials, uint64_t now);
bool gss_context_answered(struct rpc_credentials *credentials,
			  const struct rpc_reply_header *header, struct xdr_in *in);
const char *gss_context_error(const struct rpc_credentials *credentials);
bool gss_context_due(struct rpc_credentials *credentials, uint64_t now);
void gss_context_overdue(struct rpc_credentials *credentials, const struct rpc_stamp *stamp);
void gss_context_release(struct rpc_credentials *credentials, struct rpc_stamp *stamp);
void gss_context_lost(struct rpc_credentials *credentials);
bool gss_context_denied(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			uint32_t auth_stat);

/* One more call may have a number. */
bool gss_context_has_room(const struct gss_context *context);

/* Gives the call its next number. Its last one is not waited for any more. */
uint32_t gss_context_stamp(struct gss_context *context, struct rpc_stamp *stamp);
