/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * clients.h - what a server of NFSv4.1 keeps of its clients (RFC 8881): client IDs, sessions with
 * their slots, opens, and a grace period. Time and chance are handed in.
 *
 * Either the one client is known with its replies and opens (`keeps`), or there are any number of
 * clients, and nothing but sessions is kept. This is safe for use by several threads, since a
 * session may span connections, and SEQUENCE takes no lock. The latest sessions are known, so that
 * clients which vanish leave nothing that has to be cleared away.
 */
#pragma once

#include <pthread.h>

#include "core/call.h"
#include "core/nfs4.h"

enum { CLIENTS_OPENS = 64, CLIENTS_BOUND = 16, CLIENTS_REPLY_MAX = 512 };

/* All but its number is for servers that keep replies. */
struct slot {
	_Atomic uint32_t sequence; /* of the latest call */
	uint32_t use;		   /* another for each call that it ever carried */
	uint32_t call_length;	   /* likewise: a retry is the same */
	uint32_t call_sum;
	uint16_t pending; /* replies to the latest call that have not left */
	uint16_t length;  /* of the kept results; 0: none are kept */
	bool answered;	  /* a reply has left */
	bool uncached;	  /* a retry was told that none is kept */
	uint8_t *results; /* room for CLIENTS_REPLY_MAX bytes */
};

struct session {
	_Atomic uint64_t number; /* never given out again; 0: none */
	uint64_t client;
	_Atomic uint32_t slots, target; /* there are, and are to be used */
	uint32_t bound[CLIENTS_BOUND];	/* the latest connections that are */
	uint32_t bindings;
	struct slot *slot;
};

struct clients_terms {
	bool binds;	/* SEQUENCE does not bind its connection (2.10.3.1) */
	bool spans;	/* sessions span addresses (2.10.5) */
	bool uncached;	/* no reply is kept */
	uint32_t slots; /* of a session; 0: by chance */
};

struct clients {
	/* The front's. */
	const struct clients_terms *terms; /* may change at any time */
	const char *name;    /* the server's: addresses where it is the same are one server's */
	uint32_t instance;   /* differs from that of a server that ran before */
	bool keeps;	     /* the one client, whoever asks, its replies and opens */
	uint64_t now, grace; /* ns: now, and how long clients may reclaim after a restart */
	uint64_t (*random)(uint64_t below); /* NULL: always 0 */

	uint64_t grace_until;
	uint32_t session_count, slot_count; /* rooms; slots: of each session */
	uint32_t sessions_made, opens_made, uses;
	uint64_t client;   /* 0: none */
	uint32_t sequence; /* of the next CREATE_SESSION */
	bool confirmed, reclaimed;
	struct session *created; /* by the latest CREATE_SESSION */
	struct session *sessions;
	struct clients_open {
		uint32_t number; /* 0: none */
		uint64_t file;
	} opens[CLIENTS_OPENS];
	pthread_mutex_t lock;
};

/* Makes room, behind which the front sets what is its own. False: there is no memory. */
bool clients_init(struct clients *clients, uint32_t sessions, uint32_t slots);
/* All is as it was at first, but for what is the front's. */
void clients_begin(struct clients *clients);
void clients_restart(struct clients *clients);
/* The client is forgotten with all that it has, or sessions or opens alone. */
void clients_forget(struct clients *clients);
void clients_forget_sessions(struct clients *clients);
void clients_forget_opens(struct clients *clients);

/* --- replies, where they are kept --- */

/*
 * The reply to the call that `slot` carries is there: these results; returns a number by which it
 * is ended. Then it has left, or never does.
 */
uint32_t clients_begin_reply(struct clients *clients, struct slot *slot, const uint8_t *results,
			     uint32_t length);
void clients_end_reply(struct slot *slot, uint32_t number, bool left);

/* --- operations: those that return a number return an nfsstat4 --- */

/* Who asks: a client ID. `owner`: the client's verifier and name, as it sent them. */
uint64_t clients_exchange(struct nfs_call *call, struct xdr_in owner);
uint32_t clients_destroy(struct nfs_call *call, uint64_t id);

struct session_id {
	uint32_t instance, index;
	uint64_t number;
};
/* *slots: as asked for, and then as granted. */
uint32_t clients_create_session(struct nfs_call *call, uint64_t client, uint32_t sequence,
				uint32_t *slots, struct session_id *id);
uint32_t clients_bind_session(struct nfs_call *call, struct session_id id);
uint32_t clients_destroy_session(struct nfs_call *call, struct session_id id);

struct sequence {
	struct session_id session;
	uint32_t sequence, slot;
	uint32_t slots, target; /* there are, and are to be used */
	const uint8_t *kept;	/* the call has come again: these are its results; or NULL */
	uint32_t kept_length;	/* bytes */
};
/* `in`: the arguments from its own on, to the call's end. */
uint32_t clients_sequence(struct nfs_call *call, const struct xdr_in *in,
			  struct sequence *sequence);
uint32_t clients_reclaim_complete(struct nfs_call *call);

struct stateid {
	uint32_t words[4]; /* its sequence number first */
};
uint32_t clients_may_open(struct nfs_call *call, enum nfs4_claim claim);
struct stateid clients_open(struct nfs_call *call, uint64_t file);
/* For a READ or WRITE of the file. */
uint32_t clients_use(struct nfs_call *call, uint64_t file, const struct stateid *stateid);
uint32_t clients_close(struct nfs_call *call, uint64_t file, const struct stateid *stateid);

/* --- the fate of operations, which each front decides: it defines these --- */

/* Before an operation on `file`, the current one, whose arguments are next in the call; not 0: it
 * is not carried out. */
uint32_t front_begin(struct nfs_call *call, enum nfs4_operation operation, uint64_t file);
/* After it. */
void front_end(struct nfs_call *call, enum nfs4_operation operation, uint32_t status);
/* Where replies are kept, before a new call takes the slot; not 0: the slot does not count it. */
uint32_t front_take_slot(struct nfs_call *call, struct session *session, struct slot *slot);
