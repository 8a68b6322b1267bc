/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * server.h - a simulated server of NFSv3 and NFSv4.1 with some files, of which it keeps what is
 * durable apart from what is only in its memory, and one directory. It may restart between any two
 * calls. Calls are carried out in the order in which they arrive, those with RPCSEC_GSS
 * (contexts.c) in any, as by a server's threads; they are answered in any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "core/clients.h"
#include "core/files.h"
#include "network.h"
#include "scenario.h"
#include "wire/krb5_token.h"

enum { SERVER_FILE = 32 << 10 /* bytes of all files */, SERVER_FILES_MAX = 4 };
enum { SERVER_CLIENTS_MAX = 64 };

/* What a server is like. */
struct server4_terms {
	bool closes_apart; /* CLOSE does not take the current stateid */
	uint32_t lease;	   /* seconds; 0: 90 */
	struct clients_terms clients;
};

struct contexts_terms {
	uint32_t service;   /* of enum gss_service, that the export asks for; 0: AUTH_SYS */
	uint32_t window;    /* numbers */
	bool cuts;	    /* a number behind the window costs the connection */
	uint64_t skew;	    /* nanoseconds that a ticket is taken after its end */
	uint64_t rounds_in; /* making one context in so many takes a second round */

	/* The KDC's */
	uint64_t lifetime; /* nanoseconds of a ticket; 0: it has no end */
	bool keeps;	   /* a ticket is used to its end; else another is fetched in time */
};

struct server_terms {
	uint64_t eager_in; /* an UNSTABLE write in so many is durable at once; 0: none is */
	struct server4_terms nfs4;
	struct contexts_terms gss;
};

/* What fails, or is slow: each is one in so many calls; 0: it never happens. */
struct server_fails {
	uint64_t crash_in;	/* it restarts after that call */
	uint64_t lose_call_in;	/* the call is not carried out, and not answered */
	uint64_t lose_reply_in; /* it is carried out, and not answered */
	uint64_t delay_in;	/* NFS3ERR_JUKEBOX */
	uint64_t short_in;	/* a READ or WRITE moves a part */
	uint64_t full_in;	/* a WRITE gets NFS3ERR_NOSPC */
	uint64_t fragments;	/* bytes of a reply's fragments, at most; 0: it is one */
	uint64_t service;	/* nanoseconds until the reply leaves, at most */
	uint64_t down;		/* nanoseconds that a restart takes, at most */

	/* NFSv4.1's */
	uint64_t forget_session_in; /* NFS4ERR_BADSESSION */
	uint64_t forget_client_in;  /* a client ID has expired, with its opens */
	uint64_t forget_open_in;    /* NFS4ERR_BAD_STATEID */
	uint64_t resize_in;	    /* the slot table gets another size */
	uint64_t busy_in;	    /* SEQUENCE gets NFS4ERR_DELAY */

	/* Kerberos's */
	uint64_t forget_context_in;
	uint64_t change_in;   /* a byte of a reply is another when it arrives */
	uint64_t overtake_in; /* a call waits for its thread ten times as long as others */
	uint64_t kdc_away_in; /* making a context finds no KDC, for a while */
	uint64_t kdc_silence; /* nanoseconds until a KDC that is away is given up */
	uint64_t kdc_work;    /* nanoseconds that a step takes, at most; 0: 1 ms */
};

struct server {
	struct server_terms terms;
	struct server_fails fails; /* may be set at any time */
	bool up;
	uint64_t verifier; /* of this incarnation */
	uint32_t
		clients; /* nclients=: each calls over a connection of its own; 0: there are none */
	uint32_t moves[SERVER_CLIENTS_MAX +
		       1]; /* READs and WRITEs that were carried out, by client */
	uint32_t files;	   /* of equal room: each begins where the one before it ends */
	uint32_t size;	   /* bytes of each, at most its room */
	uint8_t memory[SERVER_FILE], disk[SERVER_FILE];
};

extern struct server server;

/* Bytes have come. They are the callee's for the time of the call. */
void server_received(struct link_end *end, const uint8_t *bytes, size_t length);
/* The connection is gone, and `end` with it. */
void server_gone(struct link_end *end);

/* For such a job. Nothing fails at first. */
void server_begin(const struct server_terms *terms, const struct scenario *job);
/* Where a file begins in memory and on disk. */
uint32_t server_place(uint32_t file);
/* It loses what is not durable. */
void server_forget(void);
/* From now on nothing fails any more, and answers are fast; a server that is down comes up. */
void server_heal(void);

/* --- NFSv4.1: client IDs, sessions with their slots, opens and a grace period, all of which a
 * restart forgets. What a client has may be sent by that client alone --- */

/* What the server still keeps of its clients, or "": "sessions". */
const char *server4_keeps(void);

extern struct clients server_clients;

/*
 * --- Kerberos (contexts.c): contexts of RPCSEC_GSS (RFC 2203) with a window each, which a restart
 * forgets, chance as well, and which end with their ticket; calls are opened, and replies sealed.
 * What clients promise is checked for each number ---
 */

struct krb5_keys {
	uint64_t key; /* of the context; 0: there is none */
};

/* What both ends make of the two halves of a key. */
uint64_t token_key(uint64_t clients, uint64_t servers);

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

/* --- names (namespace.c): its files, and a directory whose entries have two names each
 * (nfs/entries.h), which may lead to an object. Changes are durable at once --- */

/* The first file's handle; the last byte counts files. */
#define SERVER_HANDLE "fil0"

enum { NAMESPACE_ENTRIES = 48 };

/* An object, which is its handle as well; 0: none. */
typedef uint64_t object_t;

struct namespace_entry {
	object_t names[2]; /* what its first and its other name lead to */
	uint64_t changes;  /* that were carried out on these */
};
extern struct namespace_entry namespace[NAMESPACE_ENTRIES];

void namespace_begin(void);
/* The number of a file outside the directory, from 0; 0 for any other object. */
uint32_t namespace_file(object_t object);
