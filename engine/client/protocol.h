/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * protocol.h - a version of NFS as a client speaks it: one const table each.
 *
 * A client knows calls, channels and time; a protocol knows the messages, and what a server must be
 * told before and after I/O. A protocol's records of a server, of a client (`state`) and of a file
 * are opaque to everybody else. Nothing here blocks.
 */
#pragma once

#include "client/call.h"
#include "client/io.h"
#include "wire/credentials.h"
#include "wire/xdr.h"

struct rpc_client;

/* What becomes of an answered call. */
enum disposition {
	CALL_DONE,	      /* the I/O is complete */
	CALL_PARTIAL,	      /* a part was moved: another call asks for the rest */
	CALL_RETRY_NOW,	      /* nothing was moved: another call asks the same */
	CALL_BACKOFF,	      /* the server asks to wait: the same later, as a new call */
	CALL_RETRY_LATER,     /* the server refuses, for now perhaps: the same, as a new call */
	CALL_RETRY_SAME_SLOT, /* an earlier copy is under way: the same later, in its slot */
	CALL_RECOVER,	      /* the server lost state: after recover(), the same as a new call */
	CALL_FAIL,	      /* the I/O ends with result->error */
	CALL_AUTHENTICATE,    /* set by the client: the same again, with another context */
};

enum { WRITE_VERIFIER = 8 }; /* bytes: RFC 1813, 3.3.7 */

struct call_result {
	bool whole;	/* the client's: all bytes of the reply are there to decode */
	uint32_t count; /* READ, WRITE: bytes moved, never more than were asked for */
	bool lookup;	/* this call was the LOOKUP before a metadata operation */
	bool durable;	/* WRITE: the bytes are durable */
	uint8_t verifier[WRITE_VERIFIER]; /* WRITE, COMMIT */

	int error;	    /* CALL_FAIL: a positive errno */
	const char *status; /* CALL_FAIL, and calls put off: such as "NFS3ERR_STALE" */
	const char *fault;  /* CALL_FAIL: what is wrong with the reply; a static string, or NULL */
	const char *flaw;   /* what is wrong with a reply whose status counts anyway, or NULL */
	uint32_t code;	    /* CALL_RECOVER: the protocol's own, for recover() */
};

/* What a channel needs before I/O may go out over it. */
enum preparation {
	PREPARED,
	PREPARE_ASK,  /* send the request, and call prepare() again once it is answered */
	PREPARE_WAIT, /* another channel is preparing: call prepare() again after a while */
};

struct protocol {
	unsigned int program, version; /* RPC's */

	/* Bytes of a READ's results before its data, where it brings all bytes asked for. */
	uint32_t read_head;

	/* A call goes out once on a channel, and again only on another (RFC 8881, 2.9.2). */
	bool sends_once;

	/* The name of what a call does: "READ", "NULL". */
	const char *(*operation)(const struct call *call);

	/* Makes and frees rpc->state: 0 or -ENOMEM. Both NULL: there is none. */
	int (*attach)(struct rpc_client *rpc);
	void (*detach)(struct rpc_client *rpc);

	/*
	 * Called after a channel has come up, and after recover(). *request is the protocol's own;
	 * a client has at most one under way, and forgets it when the channel is lost. Where a
	 * request fails, the channel is closed. NULL: a channel needs nothing.
	 */
	enum preparation (*prepare)(struct rpc_client *rpc, struct rpc_request **request);

	/*
	 * Gives a call a slot before it is first sent. False: no slot is free, and the call waits
	 * until another is answered, or the session is to be replaced (prepared is false then).
	 * release(): the call was answered, or is given up. slot_valid(): false where the slot of a
	 * sent call is of a session that is gone. All NULL: calls have no slots.
	 */
	bool (*acquire)(struct rpc_client *rpc, struct call *call);
	void (*release)(struct rpc_client *rpc, struct call *call, bool answered);
	bool (*slot_valid)(const struct rpc_client *rpc, const struct call *call);

	/*
	 * Writes a call's head, for its I/O from io->done on, into room for RPC_HEAD_MAX bytes, up
	 * to a WRITE's data. Returns where the arguments begin, behind the RPC header.
	 */
	uint8_t *(*encode)(struct xdr_out *out, struct call *call,
			   struct rpc_credentials *credentials);

	/*
	 * Reads the results behind the RPC header: of a READ up to its data, of a request into the
	 * protocol's own structure. in->bad: more bytes are needed, nothing else is valid, and the
	 * results will be read again from their beginning. Where the reply has no more bytes, the
	 * call fails, with result->status where that is set.
	 */
	enum disposition (*decode)(struct xdr_in *in, struct call *call,
				   struct call_result *result);

	/* The server has denied the credentials of the only copy sent with the call's xid, and so
	 * has not carried out the call. NULL: that makes no difference. */
	void (*denied)(struct call *call);

	/*
	 * Notes which state a CALL_RECOVER has found lost, for prepare() to recover. NULL where
	 * decode() never returns CALL_RECOVER. tick() is called every 100 ms; NULL: nothing is due.
	 */
	void (*recover)(struct rpc_client *rpc, const struct call *call,
			const struct call_result *result);
	void (*tick)(struct rpc_client *rpc, uint64_t now);
};

/* Bytes that the I/O of `call` still has to move. */
static inline uint32_t call_rest(const struct call *call)
{
	return call->io->length - call->io->done;
}
