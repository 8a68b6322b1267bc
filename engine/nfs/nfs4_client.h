/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4_client.h - a job as an NFSv4.1 client of one server (RFC 8881, 2.4): its client ID, sessions
 * and open files, and the order in which it sets them up, at first and after a loss.
 *
 * All paths of a job that lead to one server, by whatever addresses (2.10.5), share one client; so
 * do their sessions, for data and for names. A job is one thread: nothing is locked. Nothing here
 * blocks or sends: nfs4_client_prepare() names the next request, and reads the answer to the
 * previous one.
 */
#pragma once

#include "client/call.h"
#include "client/protocol.h"
#include "nfs/nfs4_meta.h"
#include "nfs/nfs4_session.h"
#include "nfs/path.h"

/* A server of a job, by its owner and scope: `minor` is that of the address first asked. */
struct nfs4_known_server {
	SLIST_ENTRY(nfs4_known_server) link; /* in job->servers */
	struct nfs4_server server;
};

/* EXCHANGE_ID's result, with a pointer in place of two names of up to 1 KiB. */
struct nfs4_exchanged {
	uint64_t client;
	uint32_t sequence, flags;
	uint64_t minor;
	const struct nfs4_known_server *server;
};

/* A compound without I/O: a struct rpc_request with NFSv4's own members. */
struct nfs4_request {
	struct rpc_request base;
	enum nfs4_operation operation; /* its purpose; messages use its name */

	const struct nfs4_client *client;
	const struct nfs4_session *session;
	struct nfs_handle handle; /* PUTFH's, the first operation; length 0: the root */
	const char *name;
	struct nfs4_stateid stateid;
	struct nfs4_open open;
	bool first; /* OPEN by CLAIM_FH: the file was never open, so that a refusal is an error */
	uint32_t status; /* the server's: 0, or one that the caller handles */
	struct nfs_handle found;
	union {
		struct nfs4_open_result opened;
		struct flavors flavors;
		struct nfs4_exchanged exchanged;
		struct nfs4_session_result granted;
	};
};

enum { NFS4_OWNER_MAX = 128 };

/*
 * An open file of a path. Each has its own open-owner, since two of a job's files may be the same
 * file at the server (hard links, a name given twice): OPENs of one owner and file share a stateid,
 * which each OPEN replaces and the first CLOSE ends (RFC 8881, 9.9).
 */
struct nfs4_file {
	TAILQ_ENTRY(nfs4_file) link; /* in path->files */
	struct nfs_handle handle;
	char owner[NFS4_OWNER_MAX + 16];
	struct nfs4_stateid stateid;
	enum nfs4_access access;
	struct nfs4_path *path;
	bool stateless; /* open=none: a special stateid is used */
	bool lost;	/* the server has forgotten the OPEN, or never had one: it is sent next */
	bool closing;	/* nclients=: CLOSE is sent next */
	uint32_t gone;	/* status of the failed attempt to open it again; 0: none failed */
	bool delegated; /* opening it again gave `delegation`, which must be returned */
	struct nfs4_stateid delegation;
	uint64_t opened_at; /* by its client's clock */
	/* By enum io_op, with this handle: its own, or with nclients= those of the path's file. */
	const struct nfs4_template *calls;
	struct nfs4_template own_calls[];
};

/* A session: of one connection, or of all that share it under trunking=session. */
struct nfs4_state {
	LIST_ENTRY(nfs4_state) link; /* in the client's `sessions` */
	struct nfs4_session session;
	struct nfs4_client *client;
	struct nfs4_path *mine;	   /* path->state, or that of a client of its own (nclients=) */
	struct path *path;	   /* NULL: closed, but the session is not destroyed yet */
	unsigned int users;	   /* connections */
	bool unbound;		   /* BIND_CONN_TO_SESSION is due */
	struct nfs4_request setup; /* the latest request of prepare() */
	bool asked;		   /* `setup` is unanswered, or its answer was not taken */
	uint32_t asked_after;	   /* the client's `answers`, when `setup` was asked */
	int shared;		   /* CREATE_SESSIONs in a row that gave another's session */
	struct nfs4_file
		*reopening;   /* the file that `setup` opens, or whose delegation it returns */
	uint32_t sequences[]; /* the session's */
};

/* A path to a client's server: path->state, and one more for each client of nclients=. */
struct nfs4_path {
	LIST_ENTRY(nfs4_path) link;    /* in client->paths */
	TAILQ_HEAD(, nfs4_file) files; /* that are open */
	struct path *path;
	struct nfs4_client *client;
	uint64_t server_minor;	    /* so_minor_id: a session spans addresses with the same value */
	bool trunks;		    /* its connections share the client's session */
	char owner[NFS4_OWNER_MAX]; /* the prefix of its open-owners */
};

struct nfs4_client {
	LIST_ENTRY(nfs4_client) link; /* in job->clients, unless it is of one connection's own */
	struct nfs4_job *job;
	uint32_t
		own; /* nclients=: not 0: it is the client of the connection of that number alone */
	bool renewed;			 /* own: its lease was renewed once */
	bool leaving;			 /* own: all that the server keeps of it is returned */
	const char *owner;		 /* co_ownerid */
	uint8_t verifier[NFS4_VERIFIER]; /* of this incarnation */
	LIST_HEAD(, nfs4_path) paths;
	LIST_HEAD(, nfs4_state) sessions; /* in use, or to be destroyed by teardown */
	const struct nfs4_known_server *server;
	uint64_t id;	       /* client ID: any number, even 0 (RFC 8881, 3.3) */
	bool named;	       /* `id` is set */
	uint32_t sequence;     /* of the next CREATE_SESSION */
	uint32_t ahead;	       /* CREATE_SESSIONs counted in `sequence` that gave no session */
	bool sequence_unknown; /* `sequence` is wrong: EXCHANGE_ID gives the right one */
	bool known;	       /* `id` and `sequence` may be used; else EXCHANGE_ID is next */
	bool reclaims;	       /* after a restart: OPENs are reclaimed first, in the grace period */
	uint32_t answers;      /* answers that were taken, to EXCHANGE_ID and CREATE_SESSION */
	bool complete;	       /* RECLAIM_COMPLETE is answered */
	uint32_t epochs;       /* sessions created */
	bool closes_apart;     /* the server refuses CLOSE by the current stateid */
	uint32_t lease_time;   /* seconds; 0: not known yet */
	/* Bytes of the longest messages that all data sessions accept; 0: not known yet. */
	uint32_t request_max, response_max;
	uint64_t waited;	       /* calls that found no slot, in ended data sessions */
	uint32_t slots;		       /* of the ended sessions */
	struct rpc_client *busy;       /* the connection that may set up now */
	struct nfs4_session *creating; /* its CREATE_SESSION may have been carried out */
	struct nfs4_state *shared;     /* trunking=session: the session for data */
};

/* The open file that the call reads, writes or commits; NULL: it does none of these. */
static inline struct nfs4_file *nfs4_file_of(const struct call *call)
{
	return call->io && call->io->op != IO_META ? call->io->state : NULL;
}

/* True if the call's stateid, which was refused, is from the latest OPEN. */
static inline bool nfs4_file_is_meant(const struct nfs4_file *file, const struct call *call)
{
	return file->opened_at <= call->last_sent &&
	       !memcmp(call->stateid, file->stateid.bytes, NFS4_STATEID);
}

/* All clients of a job. They send the same verifier and owner to each server, except those of
 * nclients=. */
struct nfs4_job {
	LIST_HEAD(, nfs4_client) clients;
	SLIST_HEAD(, nfs4_known_server) servers;
	uint8_t verifier[NFS4_VERIFIER]; /* of this incarnation */
	char owner[96];
	unsigned int paths; /* numbers given out so far */
};

/* Bytes of a message beyond its data. */
enum { NFS4_MESSAGE_ROOM = 1024 };

/*
 * Fills *request, which its owner then submits: EXCHANGE_ID, CREATE_SESSION, BIND_CONN_TO_SESSION,
 * RECLAIM_COMPLETE, DESTROY_SESSION (over a connection that is bound to it: 18.37.3),
 * DESTROY_CLIENTID, SEQUENCE alone, which renews the lease, or another operation, whose arguments
 * the caller sets. `session`: the session to create, bind to or destroy; else NULL.
 */
void nfs4_ask(struct nfs4_request *request, enum nfs4_operation operation,
	      const struct nfs4_client *client, const struct nfs4_session *session);

/* --- clients --- */

/*
 * Called when a path's first session is ready: checks trunking=session against the server's owner
 * and scope. 0, or -EINVAL, logged.
 */
int nfs4_path_check_trunking(struct nfs4_path *path);

/* Frees the state of `path`, whose connections are closed. */
void nfs4_path_free(struct path *path);

/* File `number` of `path`, not open yet nor in its list, with `calls`, or NULL: calls of its own.
 * NULL: out of memory. */
struct nfs4_file *nfs4_client_new_file(struct nfs4_path *path, uint32_t number,
				       const struct nfs4_template *calls);

/* Sets the stateid (zeros with open=none) and encodes the calls. The caller sets the rest. */
void nfs4_client_file_opened(struct nfs4_file *file, const struct nfs4_stateid *stateid,
			     uint64_t now);

/* Removes a file from its list, and frees it. An OPEN of it may be unanswered. */
void nfs4_client_free_file(struct nfs4_file *file);

/* --- clients of one connection's own (nclients=): struct nfs_version has what these do --- */

int nfs4_own_file(struct rpc_client *rpc, uint32_t number, const void *file, void **own);
void nfs4_close_own_file(struct rpc_client *rpc, void *own);
void nfs4_leave(struct rpc_client *rpc);

/* --- struct protocol --- */

int nfs4_client_attach(struct rpc_client *rpc);
void nfs4_client_detach(struct rpc_client *rpc);
enum preparation nfs4_client_prepare(struct rpc_client *rpc, struct rpc_request **request);
void nfs4_client_recover(struct rpc_client *rpc, const struct call *call,
			 const struct call_result *result);
/* Renews the lease where the session is idle and the connection prepared. */
void nfs4_client_tick(struct rpc_client *rpc, uint64_t now);
uint64_t nfs4_client_due(const struct rpc_client *rpc);
uint64_t nfs4_client_lease(const struct rpc_client *rpc);
