/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * contexts.h - the simulated server's RPCSEC_GSS (RFC 2203): contexts with a window each, which a
 * restart forgets, chance as well, and which end with their ticket; calls are opened, and replies
 * sealed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/krb5_token.h"
#include "wire/xdr.h"

/*
 * --- Kerberos' tokens (engine/wire/krb5_token.h), for both sides, by --wrap (tokens.c): a sum and
 * a cipher that cost next to nothing, by a context's key. They refuse what is changed or another
 * context's, and keep no secret ---
 */

enum { TOKEN_MIC = 8, TOKEN_WRAP = 8 }; /* bytes of a MIC, and those that a message grows by */

struct krb5_keys {
	uint64_t key; /* of the context; 0: there is none */
};

/* What both ends make of the two halves of a key. */
uint64_t token_key(uint64_t client, uint64_t server);

/* --- the server's contexts --- */

/* One in so many, as in struct server_terms. */
struct contexts_terms {
	uint32_t service;     /* of enum gss_service, that the export asks for; 0: AUTH_SYS */
	uint32_t window;      /* numbers */
	bool cuts;	      /* a number behind the window costs the connection */
	uint64_t skew;	      /* nanoseconds that a ticket is taken after its end */
	uint64_t rounds_in;   /* making a context takes a second round */
	uint64_t forget_in;   /* a context is forgotten */
	uint64_t change_in;   /* a byte of a reply is another when it arrives */
	uint64_t overtake_in; /* a call waits for its thread ten times as long as others */
};

/* The same, where nothing fails. */
struct contexts_terms contexts_heal(struct contexts_terms terms);

void contexts_begin(void);
void contexts_restart(void);
/* Forgets them, and refuses tickets until then. */
void contexts_refuse(uint64_t until);

/* A call, from the xid on, has come in: the numbers of a context come in their order. */
void contexts_note_arrival(const uint8_t *bytes, uint32_t length);

/* What becomes of a call. */
enum contexts_fate {
	CONTEXTS_SERVE,	   /* its arguments are there */
	CONTEXTS_ANSWERED, /* by the reply that is written */
	CONTEXTS_DROP,	   /* its number is behind the window: no answer */
};

struct contexts_call {
	struct krb5_keys keys; /* of the context; none: the call has no credentials */
	uint32_t number;       /* the call's */
};

/*
 * `in` is at the credential of the call that begins at `start`, and then at its arguments, which
 * were decrypted where they lie. `out`: behind the xid of the reply.
 */
enum contexts_fate contexts_open(struct contexts_call *call, const uint8_t *start,
				 struct xdr_in *in, struct xdr_out *out);

/* `results` and what follows them up to out->at is sealed, with another header behind `header`. */
void contexts_seal(struct contexts_call *call, uint8_t *header, const uint8_t *results,
		   struct xdr_out *out);
