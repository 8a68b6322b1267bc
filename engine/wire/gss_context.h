/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * gss_context.h - a context of RPCSEC_GSS (RFC 2203, 5.2) between client and server: how it is
 * made, and replaced before it ends or where the server does not know it any more; and its numbers.
 *
 * Its users are the credentials of one connection, or of several that share it. Of these, whoever
 * asks first makes it, and the others wait. Their calls have numbers of one counter, and one window
 * holds for all of them; where that has too little room, they go on in turn.
 */
#pragma once

#include <sys/queue.h>

#include "stats/counters.h"
#include "wire/credentials.h"
#include "wire/gss_mechanism.h"
#include "wire/gss_window.h"

enum gss_state {
	GSS_NONE,
	GSS_MAKING, /* the mechanism is at work */
	GSS_ASKING, /* its token is to be sent */
	GSS_ASKED,
	GSS_READY,
};

struct gss_handle {
	uint8_t bytes[128]; /* servers' have up to 16 */
	uint32_t length;
};

struct gss_user {
	struct security_counters *counters; /* of its connection */
	/* Some that waited may go on: gss_context_next() tells which. NULL: there are no others. */
	void (*room)(void *owner);
	void *owner;

	/* gss_context.c's */
	TAILQ_ENTRY(gss_user) link; /* where it waits for room */
	bool waits;
};

struct gss_context {
	struct gss_mechanism *mechanism;
	struct gss_context **shared; /* where others find it, or NULL */
	uint32_t users;
	TAILQ_HEAD(gss_users, gss_user) waiting; /* for room, the first one first */
	const struct gss_user *turn;		 /* may go before those */
	const struct gss_user *asker;		 /* GSS_ASKING, GSS_ASKED: whose call it is */

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

/*
 * One more user for the context at *shared; where there is none, for another by `mechanism`, which
 * is freed with it, and here where this fails. `shared` NULL: nobody else is to find it. 0 or
 * -ENOMEM. The last one that leaves frees it; no call waits for an answer to that one then: lost().
 */
int gss_context_join(struct gss_context **context, struct gss_mechanism *mechanism,
		     struct gss_context **shared);
void gss_context_leave(struct gss_context *context);

/* struct rpc_context_ops's functions, for one user. */
enum rpc_context_state gss_context_step(struct gss_context *context, struct gss_user *user,
					uint64_t now);
bool gss_context_answered(struct gss_context *context, const struct rpc_reply_header *header,
			  struct xdr_in *in);
bool gss_context_due(struct gss_context *context, const struct gss_user *user, uint64_t now);
bool gss_context_room(struct gss_context *context, struct gss_user *user);
void gss_context_lost(struct gss_context *context, struct gss_user *user);
bool gss_context_denied(struct gss_context *context, const struct rpc_stamp *stamp,
			uint32_t auth_stat);

/* The token is on its way. */
void gss_context_asked(struct gss_context *context, const struct gss_user *user);

/* Gives the call its next number. Its last one is not waited for any more. */
uint32_t gss_context_stamp(struct gss_context *context, const struct gss_user *user,
			   struct rpc_stamp *stamp);
void gss_context_give_back(struct gss_context *context, const struct rpc_stamp *stamp);

/*
 * The owner of the next user that may send what it had no room for; NULL: none does, or there is no
 * room. To be called again once that one has sent; the first time when room() was.
 */
void *gss_context_next(struct gss_context *context);
