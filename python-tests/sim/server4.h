/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * server4.h - what the simulated server is over NFSv4.1 (RFC 8881): client IDs, sessions with their
 * slots, opens and a grace period, all of which a restart forgets.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "scenario.h"
#include "wire/xdr.h"

/* One in so many calls, as in struct server_terms. */
struct server4_terms {
	uint64_t forget_session_in; /* NFS4ERR_BADSESSION */
	uint64_t forget_client_in;  /* the client ID has expired, with all opens */
	uint64_t forget_open_in;    /* NFS4ERR_BAD_STATEID */
	uint64_t resize_in;	    /* the slot table gets another size */
	uint64_t busy_in;	    /* SEQUENCE gets NFS4ERR_DELAY */
	bool closes_apart;	    /* CLOSE does not take the current stateid */
	bool binds;		    /* SEQUENCE does not bind its connection (2.10.3.1) */
	bool spans;		    /* sessions span addresses (2.10.5) */
	bool uncached;		    /* no reply is kept */
	uint32_t slots;		    /* of a session; 0: by chance */
};

/* What a slot has to remember of the call that it carries: the owner's to give back. */
struct server4_slot;

void server4_begin(void);
void server4_restart(void);

/* Where a call comes from: the connection's number, and the address that it leads to. */
struct server4_connection {
	uint32_t number, address;
};

/* An answer: the caller sets the first members. */
struct server4_answer {
	struct xdr_out *out;
	struct scenario_fate *fate; /* gets what becomes of the message */
	uint32_t xid;
	struct server4_slot *slot;  /* that the call came over, or NULL */
	struct scenario_call *call; /* its last operation, or NULL */
};

/* Answers the compound in `in`. */
void server4_answer(const struct server4_connection *from, struct xdr_in *in,
		    struct server4_answer *answer);

/* What the server still keeps of its clients, or "": "sessions". */
const char *server4_keeps(void);
/* The client, its opens, or its sessions are forgotten. */
void server4_forget_client(void);
void server4_forget_opens(void);
void server4_forget_sessions(void);

/*
 * The reply to the call that `slot` carries is there: these results; returns a number by which it
 * is ended. Then it has left, or never does.
 */
uint32_t server4_begin_reply(struct server4_slot *slot, const uint8_t *results, uint32_t length);
void server4_end_reply(struct server4_slot *slot, uint32_t number, bool left);
