/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * server4.h - what the simulated server is over NFSv4.1 (RFC 8881): client IDs, sessions with their
 * slots, opens and a grace period, all of which a restart forgets. What a client has may be sent by
 * that client alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/clients.h"
#include "scenario.h"
#include "wire/xdr.h"

/* One in so many calls, as in struct server_terms. */
struct server4_terms {
	uint64_t forget_session_in; /* NFS4ERR_BADSESSION */
	uint64_t forget_client_in;  /* a client ID has expired, with its opens */
	uint64_t forget_open_in;    /* NFS4ERR_BAD_STATEID */
	uint64_t resize_in;	    /* the slot table gets another size */
	uint64_t busy_in;	    /* SEQUENCE gets NFS4ERR_DELAY */
	bool closes_apart;	    /* CLOSE does not take the current stateid */
	struct clients_terms clients;
};

/* There will be so many clients beside the job's own. */
void server4_begin(uint32_t clients);
void server4_restart(void);

/* An answer: the caller sets the first members, with where the call comes from. */
struct server4_answer {
	struct xdr_out *out;
	struct scenario_fate *fate; /* gets what becomes of the message */
	struct scenario_call came;  /* what is the same for each operation */
	struct slot *slot;	    /* that the call came over, or NULL */
	struct scenario_call *call; /* its last operation, or NULL */
};

/* Answers the compound in `in`. */
void server4_answer(struct xdr_in *in, struct server4_answer *answer);

/* What the server still keeps of its clients, or "": "sessions". */
const char *server4_keeps(void);

extern struct clients server_clients;
