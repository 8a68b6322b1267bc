/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sessions.h - NFSv4.1's sessions (RFC 8881, 2.10): slots, and the last sequence number seen in
 * each. Replies are not kept: a call that comes again is told so.
 *
 * Safe for use by several threads, since a session may span connections. The latest SESSIONS_MAX
 * sessions are known, so that clients which vanish leave nothing that has to be cleared away.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "nfs4.h"

enum { SESSIONS_MAX = 4096, SLOTS_MAX = 1024 };

/* 16 bytes on the wire. */
struct session_id {
	uint32_t instance, index;
	uint64_t serial; /* not given out again, and never 0 */
};

void sessions_init(void);

/* Differs from that of a sink that ran before. It is in all that a client refers to by number. */
uint32_t sessions_instance(void);

/* Grants 1 … SLOTS_MAX of `slots`; *granted says how many. */
struct session_id sessions_create(uint64_t client, uint32_t slots, uint32_t *granted);

/* OK or BADSESSION. */
uint32_t sessions_destroy(struct session_id id);
uint32_t sessions_find(struct session_id id);

/* Whether the client has any. */
bool sessions_of(uint64_t client);

/* SEQUENCE: OK, and *slots is how many there are; or BADSESSION, BADSLOT, RETRY_UNCACHED_REP,
 * SEQ_MISORDERED. */
uint32_t sessions_step(struct session_id id, uint32_t slot, uint32_t sequence, uint32_t *slots);
