/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * call.h - what is submitted to a client: I/O and requests; and the RPC calls that carry them, with
 * the table that finds a call by its xid.
 *
 * The client takes a call from the table for each submitted I/O or request, and gives the call back
 * when the I/O or request is finished. Until then the call may be sent several times, over several
 * channels. An xid consists of a generation and the call's index in the table.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "terms/choices.h"
#include "wire/credentials.h"

struct commit_io;
struct conn;
struct hold_extent;
struct meta_io;
struct rpc_client;

/* IO_META is one metadata operation on one directory entry (nfs/meta.h). */
enum io_op { IO_READ, IO_WRITE, IO_COMMIT, IO_META };

TAILQ_HEAD(io_list, conn_io);

/*
 * An outstanding READ, WRITE, COMMIT or metadata operation. The connection owns it from its
 * submission until it reports the I/O as finished. Until then the buffer must stay valid, and a
 * WRITE's buffer unchanged.
 */
struct conn_io {
	/* Set by the owner before it submits the I/O. */
	enum io_op op;
	enum io_stable stable; /* IO_WRITE */
	uint32_t file;	       /* the number given to open_file() */
	uint32_t length;
	uint64_t offset; /* IO_META: the entry's number, with length 0 */
	uint8_t *buffer;
	void *owner;
	struct meta_io *meta;	  /* IO_META: the operation (nfs/meta_call.h) */
	struct commit_io *commit; /* IO_COMMIT: the WRITEs it covers (group/connection.h) */
	struct hold_extent *held; /* IO_WRITE: the copy that hold_writes keeps, or NULL */
	uint32_t load_conn;	  /* the connection whose load includes this I/O's bytes */
	bool nfs_only;		  /* a mount cannot use its buffer */
	bool unwanted;		  /* IO_READ: the data is not used, and may be discarded */

	/* The result, valid once the I/O is finished. */
	uint32_t done; /* bytes moved: less than length after an error, or at the end of file */
	int error;     /* 0 or a positive errno */
	const char *status; /* the server's status for `error`, such as "NFS3ERR_STALE", or NULL */

	/* Used by the connection while it owns the I/O. */
	struct conn *conn;
	void *state;		   /* the protocol's state of the file */
	TAILQ_ENTRY(conn_io) link; /* the owner uses it too, while it owns the I/O */
	uint64_t sent;		   /* when it was first sent, by the client's clock; 0: not yet */
	uint64_t last_sent;	   /* mount.c: when it was put into the ring */
};

/* Removes and returns the first I/O; NULL: the list is empty. */
static inline struct conn_io *io_list_take(struct io_list *list)
{
	struct conn_io *io = TAILQ_FIRST(list);

	if (io)
		TAILQ_REMOVE(list, io, link);
	return io;
}

/*
 * A request that is not an I/O: for session set-up or name look-ups. It is the first member of the
 * protocol's own structure. The submitter sets `meta`; the rest is valid once `done` is set.
 */
struct rpc_request {
	bool meta; /* it is part of a struct meta_request (nfs/meta_call.h) */
	bool done;
	bool resent;	    /* a copy other than the answered one may have been carried out */
	int error;	    /* 0, or a positive errno */
	const char *status; /* the server's status for the error, or NULL */
	const char *fault;  /* what is wrong, or NULL; valid until the client's next RPC error */
};

struct call {
	/* One of io and request is set, except in the liveness probe (a NULL call). */
	struct conn_io *io;
	struct rpc_request *request;
	struct rpc_client *rpc; /* NULL: the call is free */
	union {			/* in one of the client's lists, or in the list of free calls */
		TAILQ_ENTRY(call) link;
		SLIST_ENTRY(call) next_free;
	};
	uint32_t xid;
	uint32_t tries;		/* transmissions of this xid */
	uint32_t delays;	/* how often the call was delayed */
	uint32_t denials;	/* contexts denied in a row over this channel */
	uint64_t since;		/* when this xid was first sent, or (soft) found waiting */
	uint64_t last_sent;	/* when it was last sent on this channel; 0: not yet */
	uint64_t resume_at;	/* when a delayed call is sent again */
	uint64_t position;	/* the call is sent once the channel's sent() reaches this */
	struct rpc_stamp stamp; /* used by the credentials' flavor */

	/* Used by the protocol (NFSv4.1) */
	uint32_t slot, epoch; /* the slot, and its session's epoch */
	uint32_t highest;     /* the highest slot in use when acquire() gave the slot */
	uint8_t stateid[16];  /* of its first transmission */
	bool slot_used;	      /* the server has accepted the slot's sequence number */
	uint32_t reopened;    /* the epoch in which its file was opened again; 0: none */
};

TAILQ_HEAD(call_list, call);

struct call_table {
	struct call *calls; /* at most 2^24; the kernel allocates their pages at first use */
	uint32_t used;	    /* the calls from this index on have never been taken */
	SLIST_HEAD(, call) free;
	unsigned int index_bits; /* xid: generation << index_bits | index */
	uint32_t generation;
};

/*
 * Returns a zeroed call for `rpc`; at most calls_max + 3 calls (client_init()) may be taken at
 * once. The call given back last is reused first, since it is still in the CPU's cache.
 */
static inline struct call *call_take(struct call_table *table, struct rpc_client *rpc)
{
	struct call *call = SLIST_FIRST(&table->free);

	if (call)
		SLIST_REMOVE_HEAD(&table->free, next_free);
	else
		call = &table->calls[table->used++];
	*call = (struct call){.rpc = rpc};
	return call;
}

static inline void call_give_back(struct call_table *table, struct call *call)
{
	call->rpc = NULL;
	SLIST_INSERT_HEAD(&table->free, call, next_free);
}

/* Returns an xid that this client has not used recently: each xid has the next generation. */
static inline uint32_t call_new_xid(struct call_table *table, const struct call *call)
{
	return table->generation++ << table->index_bits | (uint32_t)(call - table->calls);
}

/* Returns the unanswered call that `rpc` has sent with this xid, or NULL. */
static inline struct call *call_find(const struct call_table *table, const struct rpc_client *rpc,
				     uint32_t xid)
{
	uint32_t index = xid & ((1u << table->index_bits) - 1);
	struct call *call = &table->calls[index];

	if (index >= table->used)
		return NULL;
	return call->rpc == rpc && call->xid == xid && call->last_sent ? call : NULL;
}

/* --- a call that `rpc` has taken; `answered`: its reply has come --- */

/* Releases the call's xid and slot: the call will be sent with a new xid and slot. */
void call_renew(struct rpc_client *rpc, struct call *call, bool answered);

/* Releases xid and slot of a call that is in no list, gives the call back, and ends its I/O or
 * request with `error`: 0 or a positive errno. */
void call_finish(struct rpc_client *rpc, struct call *call, bool answered, int error);
