/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kerberos.h - Kerberos as a mechanism of RPCSEC_GSS. The system's GSS-API library makes contexts;
 * wire/krb5_token.h makes messages' tokens. For each new context, sample tokens of both are
 * compared. Needs the library and GnuTLS at build time (HAVE_GSS).
 *
 * The library may wait half a minute for the KDC, so it runs in its own thread, which may outlive
 * the mechanism.
 */
#pragma once

#include <gssapi/gssapi.h>
#include <pthread.h>

#include "terms/terms.h"
#include "wire/rpcsec_gss.h"
#include "wire/krb5_token.h"

/* 0 or -ENOMEM. `terms` outlive the mechanism; their server_principal is never NULL. */
int kerberos_new(struct gss_mechanism **mechanism, const struct terms *terms);

/* --- kerberos_making.c: one context in the making --- */

struct making {
	/* Used by the thread, while it works. */
	struct terms terms; /* a copy; NULL: the library's default */
	gss_ctx_id_t context;
	gss_buffer_desc reply, token; /* from the server, and for it */
	char error[400];
	struct gss_step step;
	struct krb5_keys *keys; /* RPC_CONTEXT_READY */
	uint64_t sequence;	/* RPC_CONTEXT_READY: of our first token */
	enum rpc_context_state progress;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool works, left; /* under the lock: the thread is running; the owner has left */
	bool looked_at;	  /* the owner has already waited for this step */
};

/* One step of the library, which may wait: fills `step`; never returns RPC_CONTEXT_WAITS. */
enum rpc_context_state making_step(struct making *making);
void making_free(struct making *making);
