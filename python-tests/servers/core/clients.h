/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * clients.h - what a server of NFSv4.1 keeps of its clients (RFC 8881): client IDs, sessions with
 * their slots, opens, and a grace period. Time and chance are handed in.
 *
 * Either clients are known with their replies and opens (`keeps`), up to CLIENTS_MAX, or there are
 * any number of them, and nothing but sessions is kept. This is safe for use by several threads,
 * since a session may span connections, and SEQUENCE takes no lock. The latest sessions are known,
 * so that clients which vanish leave nothing that has to be cleared away.
 */
#pragma once

#include <pthread.h>

#include "core/call.h"
#include "core/nfs4.h"

/* A COMPOUND while it is served. */
struct compound {
	struct xdr_in whole;	 /* its arguments */
	const uint8_t *results;	 /* where they begin */
	uint64_t file, saved;	 /* file handles; NO_FILE: none */
	struct stateid stateid;	 /* the current one; zeros: none */
	uint32_t response_max;	 /* bytes of the reply; 0: any number */
	const struct slot *kept; /* has the results of this call's earlier reply; or NULL */
};

/* --- what is kept --- */

enum { CLIENTS_MAX = 128, CLIENTS_NAME = 160, CLIENTS_OPENS = 1024 };
enum { CLIENTS_BOUND = 16, CLIENTS_REPLY_MAX = 512 };

/* All but its number is for servers that keep replies. */
struct slot {
	_Atomic uint32_t sequence; /* of the latest call */
	uint32_t use;		   /* another for each call that it ever carried */
	uint32_t call_length;	   /* likewise: a retry is the same */
	uint32_t call_sum;
	uint16_t pending; /* replies to the latest call that have not left */
	uint16_t length;  /* of the kept results; 0: none are kept */
	bool answered;	  /* a reply has left */
	bool uncached;	  /* none is to be kept, or a retry was told that none is */
	uint32_t told;	  /* the front's: the slots that were to be used, in the latest reply */
	uint8_t *results; /* room for CLIENTS_REPLY_MAX bytes */
};

struct session {
	_Atomic uint32_t number; /* never given out again; 0: none */
	uint64_t client;
	_Atomic uint32_t slots, target;	    /* there are, and are to be used */
	uint32_t granted;		    /* slots, by CREATE_SESSION */
	uint32_t request_max, response_max; /* bytes with RPC's headers (18.36.3) */
	uint32_t bound[CLIENTS_BOUND];	    /* the latest connections that are */
	uint32_t bindings;
	struct slot *slot;
};

/* Where clients are kept: one, whose place is its own also after it was forgotten. */
struct client {
	uint64_t id;	   /* 0: it is not known */
	uint32_t user;	   /* the front's: whose it is */
	uint32_t sequence; /* of the next CREATE_SESSION */
	bool confirmed;
	bool reclaimed, told;	      /* RECLAIM_COMPLETE was carried out, and it has the answer */
	const struct slot *completed; /* that RECLAIM_COMPLETE came over */
	struct session *created;      /* by the latest CREATE_SESSION */
	uint32_t name_length;
	uint64_t verifier;	    /* of this incarnation */
	uint8_t name[CLIENTS_NAME]; /* its owner, as it sent it */
};

struct clients_terms {
	bool binds;	/* SEQUENCE does not bind its connection (2.10.3.1) */
	bool spans;	/* sessions span addresses (2.10.5) */
	bool uncached;	/* no reply is kept */
	bool thrifty;	/* a reply is kept only where the client asks for that */
	bool delegates; /* each OPEN gives a delegation of reads, whatever was wished */
	uint32_t slots; /* of a session; 0: by chance */
};

struct clients {
	/* The front's. */
	const struct clients_terms *terms; /* may change at any time */
	const char *name;    /* the server's: addresses where it is the same are one server's */
	uint32_t instance;   /* differs from that of a server that ran before */
	bool keeps;	     /* clients, their replies and opens */
	bool joins;	     /* OPENs of one owner and file: they are one open (9.9) */
	uint64_t now, grace; /* ns: now, and how long clients may reclaim after a restart */
	uint64_t (*random)(uint64_t below); /* NULL: always 0 */

	uint64_t grace_until;
	uint32_t session_count, slot_count; /* rooms; slots: of each session */
	uint32_t open_count, client_count;  /* the opens in use; clients that have a place */
	uint32_t sessions_made, opens_made, uses;
	struct session *sessions;
	struct clients_open {
		uint32_t number; /* 0: none */
		uint32_t owner;	 /* the sum of its name */
		uint32_t access; /* of all its OPENs; 0: a delegation */
		uint64_t client, file;
	} opens[CLIENTS_OPENS];
	struct client all[CLIENTS_MAX];
	pthread_mutex_t lock;
};

/* Makes room, behind which the front sets what is its own. False: there is no memory. */
bool clients_init(struct clients *clients, uint32_t sessions, uint32_t slots);
/* All is as it was at first, but for what is the front's. */
void clients_begin(struct clients *clients);
void clients_restart(struct clients *clients);
/* A client is forgotten with all that it has; all clients are, or their sessions or opens alone. */
void clients_forget_one(struct clients *clients, struct client *client);
void clients_forget(struct clients *clients);
void clients_forget_sessions(struct clients *clients);
void clients_forget_opens(struct clients *clients);

/* What there is, where clients are kept; the access of all opens together. */
struct clients_kept {
	uint32_t clients, sessions, opens, access;
};
struct clients_kept clients_kept(const struct clients *clients);

/* --- replies, where they are kept --- */

/*
 * The reply to the call that `slot` carries is there: these results; returns a number by which it
 * is ended. Then it has left, or never does.
 */
uint32_t clients_begin_reply(struct clients *clients, struct slot *slot, const uint8_t *results,
			     uint32_t length);
void clients_end_reply(struct slot *slot, uint32_t number, bool left);

/* --- operations: those that return a number return an nfsstat4 --- */

struct exchanged {
	uint64_t client;
	uint32_t sequence; /* of the next CREATE_SESSION */
	bool confirmed;
};
/* Who asks. `owner`: the client's verifier and name, as it sent them. */
struct exchanged clients_exchange(struct nfs_call *call, struct xdr_in owner);
uint32_t clients_destroy(struct nfs_call *call, uint64_t id);

/* As asked for, and then as granted; bytes of a message. */
struct channel {
	uint32_t padding, request_max, response_max, kept_max, operations, slots;
};
enum { CHANNEL_WORDS = sizeof(struct channel) / sizeof(uint32_t) };
uint32_t clients_create_session(struct nfs_call *call, struct channel *channel);
/* A CREATE_SESSION that fails, and uses up its sequence number all the same. */
void clients_refuse_session(struct nfs_call *call, uint64_t client);
uint32_t clients_bind_session(struct nfs_call *call);
uint32_t clients_destroy_session(struct nfs_call *call);

/* As call->asked says. *slots, *target: there are, and are to be used. */
uint32_t clients_sequence(struct nfs_call *call, uint32_t *slots, uint32_t *target);
uint32_t clients_reclaim_complete(struct nfs_call *call);

uint32_t clients_may_open(struct nfs_call *call, enum nfs4_claim claim);
struct stateid clients_open(struct nfs_call *call, uint64_t file, uint32_t access,
			    struct xdr_in owner);
struct stateid clients_delegate(struct nfs_call *call, uint64_t file);
/* For a READ or WRITE of the file. */
uint32_t clients_use(struct nfs_call *call, uint64_t file, const struct stateid *stateid);
/* DELEGRETURN, too. */
uint32_t clients_close(struct nfs_call *call, uint64_t file, const struct stateid *stateid);

/* --- a front's, beside those of call.h --- */

/* Where replies are kept, before a new call takes the slot; not 0: the slot does not count it. */
uint32_t front_take_slot(struct nfs_call *call, struct session *session, struct slot *slot);
/* Where clients are kept: the call names one, by its owner or ID, or uses what it has. */
void front_uses(struct nfs_call *call, struct client *client);
