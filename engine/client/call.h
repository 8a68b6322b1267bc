/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * call.h - the RPC calls of a client, and the table that they are found in by their number.
 *
 * A call is taken when an I/O or a request is submitted and given back when that is finished; in
 * between it may be sent several times, on several channels. The xid names its place in the table,
 * and how often that has been numbered.
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
 * What a protocol asks beside I/O: to set a session up, or about names. It begins the protocol's
 * own structure, and belongs to whoever submits it, until `done`. Then:
 */
struct rpc_request {
	bool meta; /* set before it is submitted: a struct meta_request (nfs/meta_request.h) */
	bool done;
	bool resent;	    /* an earlier copy may have been carried out */
	int error;	    /* 0, or a positive errno */
	const char *status; /* the server's word for the error, or NULL */
	const char *fault;  /* what is wrong with its reply, or NULL; valid until the client's next
			       refusal */
};

struct call {
	struct conn_io *io; /* NULL: it carries no I/O */
	struct rpc_request
		*request; /* NULL: an I/O's call, or without I/O a NULL call, the liveness probe */
	struct rpc_client *rpc; /* whose it is; NULL: the call is free */
	union {			/* in a list of its channel, or of the free calls */
		TAILQ_ENTRY(call) link;
		SLIST_ENTRY(call) next_free;
	};
	uint32_t xid;
	uint32_t tries;		/* transmissions of this xid; a copy under way is one more */
	uint32_t delays;	/* times that the server has asked to wait */
	uint32_t denials;	/* contexts in a row, over this channel, that it was denied by */
	uint64_t since;		/* when this xid was first sent; 0: not yet */
	uint64_t last_sent;	/* when it was sent on the present channel; 0: not yet */
	uint64_t resume_at;	/* when a delayed call goes out again */
	uint64_t position;	/* it has left when the channel's sent() reaches this */
	struct rpc_stamp stamp; /* the flavor's */
	uint32_t slot, epoch;	/* the protocol's: what acquire() has given it */
	uint32_t highest;	/* the protocol's: the highest slot in use then */
	uint8_t stateid[16];	/* the protocol's: that it was first sent with */
	bool slot_used;		/* the protocol's: the server has accepted the slot's number */
	uint32_t reopened; /* the protocol's: the epoch its file was opened again in; 0: none */
};

TAILQ_HEAD(call_list, call);

struct call_table {
	struct call *calls;
	uint32_t used; /* calls[used …) have never been taken */
	SLIST_HEAD(, call) free;
	unsigned int index_bits; /* xid: generation << index_bits | index */
	uint32_t generation;
};

/* Room for `count` calls, at most 2^24, whose xids begin with generation `first`; memory is used
 * as calls are taken. 0 or -ENOMEM. */
int call_table_init(struct call_table *table, uint32_t count, uint32_t first);
void call_table_free(struct call_table *table);

/*
 * A call of zeros for `rpc`; at most `count` may be taken at once. The one given back last is
 * the one that the processor's cache still has.
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

/* A number that no call of this client has had for a long time. */
static inline uint32_t call_new_xid(struct call_table *table, const struct call *call)
{
	return table->generation++ << table->index_bits | (uint32_t)(call - table->calls);
}

/* The call of `rpc` that was sent with that number and not answered yet, or NULL. */
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

/* Takes the number of a call that has one; what is to be done goes on with another. */
void call_renew(struct call *call, bool answered);

/* Gives it back, its number as well. It stands in no list. */
void call_drop(struct call *call, bool answered);

/* The same, and its I/O or request ends with 0 or a positive errno. */
void call_finish(struct call *call, bool answered, int error);
