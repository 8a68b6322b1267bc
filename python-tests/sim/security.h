/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * security.h - Kerberos. The server's (contexts.c): contexts of RPCSEC_GSS (RFC 2203) with a window
 * each, which a restart forgets, chance as well, and which end with their ticket; calls are opened,
 * and replies sealed. The job's (security.c): the engine's RPCSEC_GSS for each client, by a
 * mechanism whose KDC is slow, or away for a while: tickets have an end. What it promises is
 * checked for each number, context and reply.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/krb5_token.h"
#include "wire/xdr.h"

/* --- the server --- */

struct krb5_keys {
	uint64_t key; /* of the context; 0: there is none */
};

/* What both ends make of the two halves of a key. */
uint64_t token_key(uint64_t clients, uint64_t servers);

struct contexts_terms {
	uint32_t service;   /* of enum gss_service, that the export asks for; 0: AUTH_SYS */
	uint32_t window;    /* numbers */
	bool cuts;	    /* a number behind the window costs the connection */
	uint64_t skew;	    /* nanoseconds that a ticket is taken after its end */
	uint64_t rounds_in; /* making one context in so many takes a second round */
};

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

/* --- the job --- */

struct kdc_terms {
	uint64_t lifetime; /* nanoseconds of a ticket; 0: it has no end */
	bool keeps;	   /* a ticket is used to its end; else another is fetched in time */
	uint64_t work;	   /* nanoseconds that a step takes, at most */
	uint64_t away_in;  /* one in so many contexts finds no KDC, for a while; 0: none */
	uint64_t silence;  /* nanoseconds until a KDC that is away is given up */
};

struct kdc {
	struct kdc_terms terms; /* may be set at any time */
	uint64_t back_at;
};
extern struct kdc kdc;

/* From now on it is there, and fast. */
void kdc_heal(void);

/* Chosen by a seed for its job, which has no Kerberos in two of three. */
struct server_terms;
struct server_fails;
void security_choose(uint64_t seed, struct server_terms *terms, struct server_fails *fails,
		     struct kdc_terms *kdc_terms);

void security_begin(const struct kdc_terms *terms);
/* All clients are gone: they have given back what was theirs. */
void security_end(void);
