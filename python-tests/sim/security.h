/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * security.h - a simulated job's Kerberos: the engine's RPCSEC_GSS for each client, by a
 * mechanism whose KDC is slow, or away for a while: tickets have an end, and contexts end with
 * them. What it promises is checked for each number, context and reply.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "contexts.h"

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
