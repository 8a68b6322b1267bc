/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4_session.h - a session's slots (RFC 8881, 2.10.6): which are free, and the sequence of each.
 *
 * A slot carries one call at a time. After the server has accepted that call, the slot's next call
 * has the next sequence. A call that was lost with its connection is sent again with the same slot
 * and sequence. If a call is given up unanswered, its slot's sequence is unknown, and the session
 * must be replaced. No sockets, nothing blocks.
 */
#pragma once

#include "nfs/nfs4.h"
#include "client/call.h"

enum { NFS4_SLOTS_MAX = 1024 };

struct nfs4_session {
	uint8_t id[NFS4_SESSIONID];
	bool alive;		/* the server has not said that it forgot the session */
	bool needs_reset;	/* must be replaced: a call was given up, or sequences differ */
	uint32_t epoch;		/* number of this session, from 1; calls copy it with a slot */
	uint32_t wanted, slots; /* requested; granted */
	bool names;		/* a session for names; the server caches replies to changes */
	uint32_t highest;	/* the highest slot that the server accepts now */
	uint32_t target;	/* the highest slot that the server wants used */
	uint64_t waited;	/* times that a call found no slot */
	uint64_t used_at;	/* when a call with a slot was last sent */
	uint64_t busy[NFS4_SLOTS_MAX / 64];
	uint32_t slots_max; /* set by the owner, as is the room for `sequence` */
	uint32_t *sequence; /* of each slot */
};

/* Begins the session that CREATE_SESSION has granted. */
void nfs4_session_begin(struct nfs4_session *session, uint32_t epoch,
			const struct nfs4_session_result *granted);

/* Gives `call` the lowest free slot; false: there is none. */
bool nfs4_session_acquire(struct nfs4_session *session, struct call *call);
void nfs4_session_release(struct nfs4_session *session, struct call *call, bool answered);

/* Takes SEQUENCE's sr_highest_slotid and sr_target_highest_slotid. */
void nfs4_session_resize(struct nfs4_session *session, uint32_t highest, uint32_t target);

/* SEQUENCE's arguments for a call that has a slot: the same for each copy of the call. */
void nfs4_session_sequence(const struct nfs4_session *session, const struct call *call, bool cache,
			   struct nfs4_sequence *sequence);
