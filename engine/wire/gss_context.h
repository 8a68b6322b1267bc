/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * gss_context.h - a context of RPCSEC_GSS (RFC 2203, 5.2) between client and server: makes it,
 * replaces it before it ends or after the server has forgotten it, and gives sequence numbers. A
 * connection's credentials (rpcsec_gss.c) begin with a struct gss_context.
 */
#pragma once

#include "wire/rpcsec_gss.h"

enum gss_state {
	GSS_NONE,
	GSS_MAKING, /* the mechanism is working */
	GSS_ASKING, /* a token must be sent, or its reply is awaited */
	GSS_READY,
};

/*
 * A context's sequence numbers, and their limit. A server drops a call whose number is below the
 * window (RFC 2203, 5.3.3.1); some servers also close the connection. A server's threads may take
 * calls in any order, so the oldest unanswered number limits the next one.
 */
enum { GSS_WINDOW_MAX = 256 }; /* our limit, also for a larger window */

struct gss_window {
	uint32_t size;		      /* the server's, at most GSS_WINDOW_MAX */
	uint32_t oldest, next;	      /* the oldest unanswered number; the next to give */
	bool awaited[GSS_WINDOW_MAX]; /* numbers that are not answered yet */
};

struct gss_handle {
	uint8_t bytes[128]; /* servers use up to 16 */
	uint32_t length;
};

struct gss_context {
	struct rpc_credentials base;
	struct gss_mechanism *mechanism;
	struct security_counters *counters; /* of the connection */

	enum gss_state state; /* of the present context, or of the next while calls wait for it */
	bool usable;	      /* there is a present context, and it was not denied */
	bool renewing;	      /* the mechanism is making the next context */
	bool put_off;	      /* making it failed: wait before the next try */
	uint32_t number;      /* contexts made so far */
	struct gss_window window;
	struct gss_handle handle, next_handle;
	uint64_t began; /* when the latest context was begun */
	uint64_t renew_at, expires;
	uint32_t denials; /* contexts in a row that the server denied */
	char error[400];
	struct gss_step step; /* the mechanism's latest step */

	/* From the reply to INIT, whose verifier is checked once there are keys. */
	uint32_t window_size;
	uint8_t window_mic[KRB5_MIC_MAX];
	uint32_t window_mic_length;
};

/* struct rpc_context_ops's functions, for credentials that begin with a struct gss_context. */
enum rpc_context_state gss_context_step(struct rpc_credentials *credentials, uint64_t now);
bool gss_context_answered(struct rpc_credentials *credentials,
			  const struct rpc_reply_header *header, struct xdr_in *in);
const char *gss_context_error(const struct rpc_credentials *credentials);
bool gss_context_due(struct rpc_credentials *credentials, uint64_t now);
uint64_t gss_context_renew_at(const struct rpc_credentials *credentials);
void gss_context_overdue(struct rpc_credentials *credentials, const struct rpc_stamp *stamp);
bool gss_context_orphaned(const struct rpc_credentials *credentials, const struct rpc_stamp *stamp);
void gss_context_release(struct rpc_credentials *credentials, struct rpc_stamp *stamp);
void gss_context_lost(struct rpc_credentials *credentials);
bool gss_context_denied(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			uint32_t auth_stat);

/* True if one more call may get a number. */
bool gss_context_has_room(const struct gss_context *context);

/* Gives the call the next sequence number; its earlier one no longer holds back the window. */
uint32_t gss_context_stamp(struct gss_context *context, struct rpc_stamp *stamp);
