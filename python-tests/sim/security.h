/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * security.h - a simulated job's Kerberos: the engine's RPCSEC_GSS for each client, by a
 * mechanism whose KDC is slow, or away for a while: tickets have an end, and contexts end with
 * them. What it promises is checked for each number, context and reply.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "contexts.h"
#include "wire/rpcsec_gss.h"

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
struct security_terms {
	struct contexts_terms contexts;
	struct kdc_terms kdc;
};
struct security_terms security_choose(uint64_t seed);

void security_begin(const struct kdc_terms *terms);
/* All clients are gone: they have given back what was theirs. */
void security_end(void);

/* The server has dropped that number, as it lies behind the window of the context with that key. */
void security_check_dropped(uint64_t key, uint32_t number);

/*
 * --- a mechanism of GSS-API in Kerberos' place (mechanism.c, engine/wire/rpcsec_gss.h): the
 * client's first token says when its ticket ends, and has half of the context's key; the server's
 * has the other half, and whether a second round follows ---
 */

/* Of the context in the making. */
enum mechanism_state { IDLE, WORKS, TELLS, WAITS_FOR_REPLY, HAS_MADE, HAS_FAILED };
enum { REMEMBERED = 256 };

/* One client's. */
struct mechanism {
	struct gss_mechanism base;
	struct krb5_keys present, earlier, next_keys; /* next_keys.key 0: it is not known yet */
	enum mechanism_state state, next;	      /* when its work is done */
	uint64_t work_until, ticket_end;
	uint64_t half;		 /* of the key of the context in the making */
	uint64_t made, lifetime; /* of the context */
	uint64_t token[256];
	uint32_t token_length;

	/* What is known of the client, for the checks. */
	LIST_ENTRY(mechanism) link;
	const struct rpc_client *rpc;
	uint32_t latest;	   /* number of a call */
	uint32_t xids[REMEMBERED]; /* of the latest numbers */
	uint64_t keys[2];	   /* of the contexts that were used last, the latest first */
	uint32_t contexts[2];	   /* the engine's numbers of these */
	uint64_t denied;	   /* the key by which a call was */
	uint32_t epoch;		   /* of its link, when a context was begun */
};

struct mechanism *mechanism_new(const struct rpc_client *rpc);

/* It begins another context. */
void security_context_begins(struct mechanism *mechanism);
