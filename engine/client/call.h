/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * call.h - the RPC calls of a client, and the table that finds them by xid.
 *
 * A call is taken when an I/O or a request is submitted, and given back when that is finished; in
 * between it may be sent several times, over several channels. An xid is a generation and the
 * call's index in the table.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "wire/credentials.h"

struct conn_io;
struct rpc_client;

/*
 * A protocol's request that is no I/O: of session set-up, or about names. It is the first member of
 * the protocol's own structure. The submitter sets `meta`, and reads the rest once `done` is set.
 */
struct rpc_request {
	bool meta; /* a struct meta_request (nfs/meta_call.h) */
	bool done;
	bool resent;	    /* a copy other than the answered one may have been carried out */
	int error;	    /* 0, or a positive errno */
	const char *status; /* the server's word for the error, or NULL */
	const char *fault;  /* the reply's fault, or NULL; valid until the client's next refusal */
};

struct call {
	/* One of these is set; neither in the liveness probe, a NULL call. */
	struct conn_io *io;
	struct rpc_request *request;
	struct rpc_client *rpc; /* NULL: the call is free */
	union {			/* in a list of its client, or of the free calls */
		TAILQ_ENTRY(call) link;
		SLIST_ENTRY(call) next_free;
	};
	uint32_t xid;
	uint32_t tries;		/* transmissions of this xid */
	uint32_t delays;	/* times that the server has asked to wait */
	uint32_t denials;	/* contexts in a row, over this channel, that were denied */
	uint64_t since;		/* when this xid was first sent; 0: not yet */
	uint64_t last_sent;	/* when it was sent on the present channel; 0: not yet */
	uint64_t resume_at;	/* when a delayed call goes out again */
	uint64_t position;	/* the call has left when the channel's sent() reaches this */
	struct rpc_stamp stamp; /* the flavor's */

	/* The protocol's */
	uint32_t slot, epoch; /* acquire()'s */
	uint32_t highest;     /* the highest slot in use then */
	uint8_t stateid[16];  /* of its first transmission */
	bool slot_used;	      /* the server has accepted the slot's sequence number */
	uint32_t reopened;    /* the epoch in which its file was opened again; 0: none */
};

TAILQ_HEAD(call_list, call);

struct call_table {
	struct call *calls; /* at most 2^24; memory is used as they are taken */
	uint32_t used;	    /* calls[used …) have never been taken */
	SLIST_HEAD(, call) free;
	unsigned int index_bits; /* xid: generation << index_bits | index */
	uint32_t generation;
};

/*
 * A zeroed call for `rpc`; at most calls_max and three others (client_init()) may be taken at once.
 * The call given back last is taken first: the processor's cache still has it.
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

/* An xid that this client has not used for a long time. */
static inline uint32_t call_new_xid(struct call_table *table, const struct call *call)
{
	return table->generation++ << table->index_bits | (uint32_t)(call - table->calls);
}

/* The unanswered call that `rpc` has sent with this xid, or NULL. */
static inline struct call *call_find(const struct call_table *table, const struct rpc_client *rpc,
				     uint32_t xid)
{
	uint32_t index = xid & ((1u << table->index_bits) - 1);
	struct call *call = &table->calls[index];

	if (index >= table->used)
		return NULL;
	return call->rpc == rpc && call->xid == xid && call->last_sent ? call : NULL;
}

/* --- a call that was taken; `answered`: its reply has come --- */

/* Releases the call's xid and slot: it will be sent with new ones. */
void call_renew(struct call *call, bool answered);

/* Gives back a call that stands in no list, with its xid and slot. */
void call_drop(struct call *call, bool answered);

/* The same, and its I/O or request ends with 0 or a positive errno. */
void call_finish(struct call *call, bool answered, int error);
