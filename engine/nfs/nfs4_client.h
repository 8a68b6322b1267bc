/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4_client.h - the client that a job is to a server (RFC 8881, 2.4): its client ID, its sessions
 * and the files that it has open; and what must be asked, in which order, to have them, or to have
 * them again.
 *
 * The paths of a job that lead to one server share it, by whatever addresses (2.10.5); so do their
 * sessions, those for data and those for names. A job is one thread, so nothing is locked. Nothing
 * here blocks or sends: nfs4_client_prepare() names the next request, and reads the answer to the
 * one before.
 */
#pragma once

#include "client/call.h"
#include "client/protocol.h"
#include "nfs/nfs4.h"
#include "nfs/nfs4_session.h"
#include "nfs/nfs4_template.h"
#include "nfs/path.h"

/* A compound that carries no I/O: the protocol's own struct rpc_request. */
struct nfs4_request {
	struct rpc_request base;
	enum nfs4_operation operation; /* what it is for, as people are told */
	bool sequenced;		       /* it needs a slot */
	bool cached; /* its reply is to be kept: it may not be carried out twice */

	/* Writes the operations; reads their results and returns the first status that is not 0. */
	void (*put)(const struct nfs4_request *request, struct nfs4_compound *compound);
	uint32_t (*get)(struct nfs4_request *request, struct nfs4_results *results);
	/* True for a status that whoever made it deals with; NULL: it can bear none. */
	bool (*tolerates)(const struct nfs4_request *request, uint32_t status);

	const struct nfs4_client *client;
	const struct nfs4_session *session;
	struct nfs_handle handle; /* what it begins with; of length 0: the root */
	const char *name;
	struct nfs4_stateid stateid;
	struct nfs4_open open;
	uint32_t status; /* of the server: 0, or what it refused with (see tolerates) */
	struct nfs_handle found;
	union {
		struct nfs4_open_result opened;
		struct flavors flavors;
		struct nfs4_exchange_result exchanged;
		struct nfs4_session_result granted;
	};
};

enum { NFS4_OWNER_MAX = 128 };

/*
 * What a path keeps of a file. Its open-owner is its own: two of our files may be one at the server
 * (hard links, a name given twice), and OPENs of one owner and file share a stateid, which each of
 * them ages and the first CLOSE ends (RFC 8881, 9.1.4).
 */
struct nfs4_file {
	TAILQ_ENTRY(nfs4_file) link; /* of its path's */
	struct nfs_handle handle;
	char owner[NFS4_OWNER_MAX + 16];
	struct nfs4_stateid stateid;
	struct nfs4_template calls[IO_COMMIT + 1]; /* by enum io_op, made from these two */
	enum nfs4_access access;
	struct nfs4_path *path;
	bool stateless; /* not opened: a special stateid serves */
	bool lost;	/* to be opened again */
	uint32_t gone;	/* it could not be: the server's status */
	bool delegated; /* opening it again has brought a delegation, which is to be returned */
	struct nfs4_stateid delegation; /* that one */
	uint64_t opened_at;		/* by its client's clock */
};

/* What one connection has of its session, or all of them where the session is shared. */
struct nfs4_state {
	struct nfs4_session session;
	struct nfs4_client *client;
	struct path *path;	   /* NULL: it has gone, and the session is to be destroyed */
	unsigned int users;	   /* connections */
	bool unbound;		   /* this connection is to be bound to the session */
	struct nfs4_request setup; /* prepare()'s: the latest */
	bool asked;
	uint32_t asked_after;	     /* the client's `answers`, when `setup` was asked */
	int shared;		     /* sessions granted in a row that were another's */
	struct nfs4_file *reopening; /* by `setup`, or its delegation is returned */
};

/* What a path's state is. */
struct nfs4_path {
	LIST_ENTRY(nfs4_path) link;    /* of its client's */
	TAILQ_HEAD(, nfs4_file) files; /* that are open */
	struct path *path;
	struct nfs4_client *client;
	uint64_t server_minor;	    /* of server_owner: sessions span addresses with the same one */
	bool trunks;		    /* its connections share the client's session */
	char owner[NFS4_OWNER_MAX]; /* what those of its opens begin with */
};

struct nfs4_client {
	LIST_ENTRY(nfs4_client) link; /* of its job's */
	struct nfs4_job *job;
	LIST_HEAD(, nfs4_path) paths;
	LIST_HEAD(, nfs4_session) sessions; /* in use, and those that the server may know */
	struct nfs4_server server;
	uint64_t id;	   /* any number, 0 as well (RFC 8881, 3.3): see `named` */
	bool named;	   /* the server has given it */
	uint32_t sequence; /* of the next CREATE_SESSION */
	uint32_t ahead;	   /* CREATE_SESSIONs that gave none, and may have taken their numbers */
	bool sequence_unknown; /* `sequence` is wrong: the server is to tell it */
	bool known;	       /* the server has given the id, and has not said that it forgot it */
	bool reclaims;	     /* after another id: opens are reclaimed first, in the grace period */
	uint32_t answers;    /* to EXCHANGE_ID and CREATE_SESSION, that were taken */
	bool complete;	     /* RECLAIM_COMPLETE */
	uint32_t epochs;     /* sessions begun */
	bool closes_apart;   /* the server takes no CLOSE by the current stateid */
	uint32_t lease_time; /* seconds; 0: not known yet */
	/* Bytes of the longest messages that all sessions for data take; 0: not known yet. */
	uint32_t request_max, response_max;
	uint64_t waited;	 /* times that a call found no slot, in sessions that have ended */
	uint32_t slots;		 /* of those sessions */
	struct rpc_client *busy; /* whose turn it is to ask */
	struct nfs4_session *creating; /* its CREATE_SESSION may have been carried out */
	struct nfs4_state *shared;     /* trunking=session: for data */
};

/* What the path keeps of the file that a call moves data of; NULL: it moves none. */
static inline struct nfs4_file *nfs4_file_of(const struct call *call)
{
	return call->io && call->io->op != IO_META ? call->io->state : NULL;
}

/* False where a refused stateid is not that of the latest OPEN: it says nothing of that. */
static inline bool nfs4_file_is_meant(const struct nfs4_file *file, const struct call *call)
{
	return file->opened_at <= call->last_sent &&
	       !memcmp(call->stateid, file->stateid.bytes, NFS4_STATEID);
}

static inline enum nfs4_operation nfs4_io_operation(enum io_op op)
{
	switch (op) {
	case IO_READ: return NFS4_READ;
	case IO_WRITE: return NFS4_WRITE;
	case IO_COMMIT:
	case IO_META: break; /* nfs4_meta.h's */
	}
	return NFS4_COMMIT;
}

/* How the clients of a job call themselves: to each server the same. */
struct nfs4_job {
	LIST_HEAD(, nfs4_client) clients;
	uint8_t verifier[NFS4_VERIFIER]; /* of this incarnation */
	char owner[96];
	unsigned int paths; /* that have begun */
};

/* Bytes of a message, beside its data. */
enum { NFS4_MESSAGE_ROOM = 1024 };

/*
 * After a path's first session is ready: trunking=session, held against who the servers say they
 * are. 0, or -EINVAL, logged.
 */
int nfs4_path_check_trunking(struct nfs4_path *path);

/* Frees the state of `path`, whose connections are closed. */
void nfs4_path_free(struct path *path);

/* Sets the stateid, of zeros with open=none, and encodes the calls; the rest of `file` is set. */
void nfs4_client_file_opened(struct nfs4_file *file, const struct nfs4_stateid *stateid,
			     uint64_t now);

/* Before `file` is freed: an OPEN of it may be under way. */
void nfs4_client_forget_file(struct nfs4_client *client, const struct nfs4_file *file);

int nfs4_client_attach(struct rpc_client *rpc);
void nfs4_client_detach(struct rpc_client *rpc);
enum preparation nfs4_client_prepare(struct rpc_client *rpc, struct rpc_request **request);
void nfs4_client_recover(struct rpc_client *rpc, const struct call *call,
			 const struct call_result *result);
/* An idle client renews its lease, by whichever connection can. */
void nfs4_client_tick(struct rpc_client *rpc, uint64_t now);
