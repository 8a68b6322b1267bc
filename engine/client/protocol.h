/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * protocol.h - the interface between the RPC client and a version of NFS: one const table each.
 *
 * The client handles calls, channels and time; the protocol encodes and decodes the messages, and
 * sets up sessions. The protocol's state of a server, a connection (rpc->state) and a file is
 * opaque to all other code. No function here blocks.
 */
#pragma once

#include "client/call.h"
#include "wire/credentials.h"
#include "wire/xdr.h"

struct rpc_client;

/* What the client does with an answered call. */
enum disposition {
	CALL_DONE,	      /* the I/O is complete */
	CALL_PARTIAL,	      /* part of the data was moved: send another call for the rest */
	CALL_RETRY_NOW,	      /* no data was moved: repeat it at once, as a new call */
	CALL_BACKOFF,	      /* the server asks to wait: repeat it later, as a new call */
	CALL_RETRY_LATER,     /* the server refuses for now: repeat it later, as a new call */
	CALL_RETRY_SAME_SLOT, /* an earlier copy is under way: repeat it later in the same slot */
	CALL_RECOVER,	      /* the server lost state: recover(), then repeat it as a new call */
	CALL_FAIL,	      /* the I/O ends with result->error */
	CALL_AUTHENTICATE,    /* set by the client: repeat it with another context */
};

enum { WRITE_VERIFIER = 8 }; /* bytes: RFC 1813, 3.3.7 */

struct call_result {
	bool whole;	/* set by the client: the reply was received completely */
	uint32_t count; /* READ, WRITE: bytes moved, never more than were asked for */
	bool lookup;	/* this call was the LOOKUP before a metadata operation */
	bool durable;	/* WRITE: the bytes are durable */
	uint8_t verifier[WRITE_VERIFIER]; /* WRITE, COMMIT */

	int error;	    /* CALL_FAIL: a positive errno */
	const char *status; /* a failed or delayed call's status, such as "NFS3ERR_STALE" */
	const char *fault;  /* CALL_FAIL: what is wrong with the reply; a static string, or NULL */
	const char *flaw;   /* what is wrong with a reply whose status is used anyway, or NULL */
	uint32_t code;	    /* CALL_RECOVER: the protocol's status, for recover() */
};

/* The call fails with a positive errno. */
static inline enum disposition call_fail(struct call_result *result, int error, const char *fault)
{
	result->error = error;
	result->fault = fault;
	return CALL_FAIL;
}

/* What a channel needs before I/O may be sent over it. */
enum preparation {
	PREPARED,
	PREPARE_ASK,  /* send the request, and call prepare() again once it is answered */
	PREPARE_WAIT, /* another connection is in set-up: call prepare() again after a while */
};

struct protocol {
	unsigned int program, version; /* of RPC (RFC 5531) */

	/* Bytes of a complete READ's results before the data. */
	uint32_t read_head;

	/* Each call is sent at most once per channel (RFC 8881, 2.9.2). */
	bool sends_once;

	/* The name of a call's operation: "READ", "NULL". */
	const char *(*operation)(const struct call *call);

	/* Create (0 or -ENOMEM) and free rpc->state. Both NULL: the protocol has no state. */
	int (*attach)(struct rpc_client *rpc);
	void (*detach)(struct rpc_client *rpc);

	/*
	 * Called after a channel has connected, and after recover(). The protocol owns *request; a
	 * client has at most one such request unanswered, and drops it when the channel is lost.
	 * The client closes the channel if the request fails. NULL: no set-up is needed.
	 */
	enum preparation (*prepare)(struct rpc_client *rpc, struct rpc_request **request);

	/*
	 * acquire() gives a call a slot before it is first sent. False: the call waits, because no
	 * slot is free, or because the session must be replaced (it clears rpc->prepared then).
	 * release() frees the slot of a call that was answered or abandoned. slot_valid(): false
	 * where a sent call's slot is of an earlier session. All NULL: calls have no slots.
	 */
	bool (*acquire)(struct rpc_client *rpc, struct call *call);
	void (*release)(struct rpc_client *rpc, struct call *call, bool answered);
	bool (*slot_valid)(const struct rpc_client *rpc, const struct call *call);

	/*
	 * Encodes the RPC header and arguments, without a WRITE's data, into `out` (RPC_HEAD_MAX
	 * bytes or more). The call's I/O continues at io->done. Returns where the arguments begin.
	 */
	uint8_t *(*encode)(struct xdr_out *out, struct call *call,
			   struct rpc_credentials *credentials);

	/*
	 * Decodes the results behind the RPC header: a READ's up to its data, a request's into the
	 * protocol's own structure. in->bad is XDR_SHORT: more bytes are needed; only
	 * result->status is valid, and decode() will be called again with more. A complete reply
	 * that still leaves that fails its call with result->status. XDR_WRONG: the reply
	 * contradicts the call or itself, and fails it.
	 */
	enum disposition (*decode)(struct xdr_in *in, struct call *call,
				   struct call_result *result);

	/* The server denied the credentials of the only copy sent with the call's xid, and so has
	 * not carried out the call. NULL: the protocol need not know. */
	void (*denied)(struct call *call);

	/*
	 * recover() notes which state the server has lost, so that prepare() recovers it. NULL: the
	 * protocol never returns CALL_RECOVER. tick() is called about every 100 ms. NULL: unused.
	 * due(): when tick() has something to do, unless calls are sent before. NULL: never.
	 */
	void (*recover)(struct rpc_client *rpc, const struct call *call,
			const struct call_result *result);
	void (*tick)(struct rpc_client *rpc, uint64_t now);
	uint64_t (*due)(const struct rpc_client *rpc);

	/* The lease in nanoseconds; 0: it is not known. NULL: the protocol has none. */
	uint64_t (*lease)(const struct rpc_client *rpc);
};

/* Bytes that the call's I/O has still to move. */
static inline uint32_t call_rest(const struct call *call)
{
	return call->io->length - call->io->done;
}
