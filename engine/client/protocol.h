/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * protocol.h - a version of NFS as a client speaks it: one const table each.
 *
 * A client knows calls, channels and time; a protocol knows what the messages say, and what a
 * server must be told before and after. What it keeps of a server, of a client (`state`) and of a
 * file is its own, and opaque to everybody else. Nothing here blocks.
 */
#pragma once

#include "client/call.h"
#include "client/io.h"
#include "wire/credentials.h"
#include "wire/xdr.h"

struct rpc_client;

/* What is to become of a call that was answered. */
enum disposition {
	CALL_DONE,	      /* the I/O is complete */
	CALL_PARTIAL,	      /* it moved a part: another call is to ask for the rest */
	CALL_RETRY_NOW,	      /* it moved nothing: another call is to ask the same */
	CALL_BACKOFF,	      /* the server asks to wait: the same again later, as a new call */
	CALL_RETRY_LATER,     /* it refuses, and may not the next time: the same, as a new call */
	CALL_RETRY_SAME_SLOT, /* an earlier copy is under way: the same again later, numbered as it
				 is */
	CALL_RECOVER, /* state at the server is gone: after recover(), the same as a new call */
	CALL_FAIL,    /* the I/O ends with result->error */
	CALL_AUTHENTICATE, /* the client's own: the same again, by another context */
};

enum { WRITE_VERIFIER = 8 }; /* bytes: RFC 1813, 3.3.7 */

struct call_result {
	bool whole;	/* the client's: the reply has no more bytes than there are to decode */
	uint32_t count; /* READ, WRITE: bytes moved, never more than were asked for */
	bool lookup;	/* of a metadata operation: a LOOKUP before it */
	bool durable;	/* WRITE: at once */
	uint8_t verifier[WRITE_VERIFIER]; /* WRITE, COMMIT */

	int error;	    /* CALL_FAIL: a positive errno */
	const char *status; /* CALL_FAIL, and what is put off: the server's word, such as
			       "NFS3ERR_STALE" */
	const char *fault;  /* CALL_FAIL: what is wrong with the reply; a static string, or NULL */
	const char *flaw; /* what is wrong with a reply whose status counts all the same, or NULL */
	uint32_t code;	  /* CALL_RECOVER: the protocol's own, for recover() */
};

/* What a channel needs before I/O may go out over it. */
enum preparation {
	PREPARED,
	PREPARE_ASK,  /* the request is to be answered, and then prepare() be called again */
	PREPARE_WAIT, /* another channel is at work on it: to be called again after a while */
};

struct protocol {
	unsigned int program, version; /* RPC's */

	/* Bytes of a READ's results before its data, where that is all that was asked for. */
	uint32_t read_head;

	/* A call goes out once on a channel, and again only on another (RFC 8881, 2.9.2). */
	bool sends_once;

	/* The name of what a call does: "READ", "NULL". */
	const char *(*operation)(const struct call *call);

	/* Makes and frees what it keeps of a client: 0 or -ENOMEM. Both NULL: nothing. */
	int (*attach)(struct rpc_client *rpc);
	void (*detach)(struct rpc_client *rpc);

	/*
	 * A channel has come up, or something was lost by recover(). *request is the protocol's
	 * own; a client has one under way at most, and forgets it when it is lost. A request that
	 * fails costs the channel. NULL: a channel needs nothing.
	 */
	enum preparation (*prepare)(struct rpc_client *rpc, struct rpc_request **request);

	/*
	 * Before a call is sent for the first time: what the protocol numbers it by, beside its
	 * xid. False: no number is free, and the call waits until another is answered, or the
	 * session is to be replaced (prepared is false then). release(): it was answered, or is
	 * given up. slot_valid(): false where the number of a call that was sent means nothing any
	 * more. All NULL: the xid is all.
	 */
	bool (*acquire)(struct rpc_client *rpc, struct call *call);
	void (*release)(struct rpc_client *rpc, struct call *call, bool answered);
	bool (*slot_valid)(const struct rpc_client *rpc, const struct call *call);

	/*
	 * Writes a call's head, for its I/O from io->done on, into room for RPC_HEAD_MAX bytes. A
	 * WRITE's data follows it. Returns where the arguments begin, behind the RPC header.
	 */
	uint8_t *(*encode)(struct xdr_out *out, struct call *call,
			   struct rpc_credentials *credentials);

	/*
	 * Reads the results behind the RPC header, of a READ up to its data; of a request into the
	 * protocol's own structure. in->bad: more bytes are needed, nothing else is valid, and the
	 * same results are read again from their beginning; of a reply that has no more, the call
	 * fails, with result->status where that is set.
	 */
	enum disposition (*decode)(struct xdr_in *in, struct call *call,
				   struct call_result *result);

	/* The server has denied the credentials of a call's only copy by its number, and not
	 * carried that out. NULL: it makes no difference. */
	void (*denied)(struct call *call);

	/*
	 * Notes what a CALL_RECOVER misses: prepare() is to win it back. NULL where decode() never
	 * asks for that. tick() is called every 100 ms; NULL: nothing is ever due.
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
