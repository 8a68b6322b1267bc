/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * protocol.h - a version of NFS as a session speaks it: one const table each.
 *
 * A session knows calls, channels and time; a protocol knows what the messages say, and what a
 * server must be told before and after. What it keeps of a server (struct session's `state`) and of
 * a file is its own, and opaque to everybody else. Nothing here blocks but open_file() and
 * limits().
 */
#ifndef NFSMULTI_SESSION_PROTOCOL_H
#define NFSMULTI_SESSION_PROTOCOL_H

#include "conn/connection.h"
#include "rpc/credentials.h"
#include "rpc/xdr.h"
#include "session/call.h"

struct names_ops;
struct names;
struct session;

/* What is to become of a call that was answered. */
enum verdict {
	CALL_DONE,    /* the I/O is complete */
	CALL_REST,    /* it moved a part: another call is to ask for the rest */
	CALL_AGAIN,   /* it moved nothing: another call is to ask the same */
	CALL_DELAY,   /* the server asks to wait: the same again later, as a new call */
	CALL_RECOVER, /* state at the server is gone: after recover(), the same as a new call */
	CALL_FAIL,    /* the I/O ends with result->error */
};

struct call_result {
	uint32_t count; /* READ, WRITE: bytes moved, never more than were asked for */
	bool durable;	/* WRITE: at once */
	uint8_t verifier[LEDGER_VERIFIER]; /* WRITE, COMMIT */

	int error;	    /* CALL_FAIL: a positive errno, and … */
	const char *status; /* … CALL_DELAY too: the server's word, such as "NFS3ERR_STALE" … */
	const char *fault;  /* … or what is wrong with its reply; static strings, or NULL */
	bool file_gone;	    /* the server does not know the file any more */
};

struct protocol {
	const struct names_ops *names;
	uint32_t reply_head_max; /* bytes of the longest reply without its bulk data */

	/*
	 * A call that was sent may be given up and its I/O be sent as another call. Where not, a
	 * number that was used must be answered before it can be used again.
	 */
	bool forgets_calls;

	/* The name of what a call does: "READ", "NULL". */
	const char *(*operation)(const struct call *call);

	/*
	 * Before a call is sent for the first time: what the protocol numbers it by, beside its
	 * xid. False: no number is free; the call waits until another is answered. release(): it
	 * was answered, or is given up. Both NULL: the xid is all.
	 */
	bool (*acquire)(struct session *session, struct call *call);
	void (*release)(struct session *session, struct call *call, bool answered);

	/*
	 * Writes a call's head, for its I/O from io->done on, into room for RPC_HEAD_MAX bytes. A
	 * WRITE's data follows it. `file` is NULL for a call without an I/O. Returns where the
	 * arguments begin, behind the RPC header.
	 */
	const uint8_t *(*encode)(struct xdr_out *out, const struct call *call,
				 const struct rpc_credentials *credentials, const void *file);

	/*
	 * Reads the results behind the RPC header, of a READ up to its data. in->bad: more bytes
	 * are needed, and nothing else is valid.
	 */
	enum verdict (*decode)(struct xdr_in *in, const struct call *call,
			       struct call_result *result);

	/*
	 * Begins to win back what a CALL_RECOVER misses; NULL where decode() never asks for that.
	 * tick() is called every 100 ms; NULL: nothing is ever due.
	 */
	void (*recover)(struct session *session);
	void (*tick)(struct session *session, uint64_t now);

	/*
	 * Finds a file. limits(): what one READ and one WRITE of any may carry. Both wait for the
	 * server, as names.h says. 0, or a negative errno: names->error() says why.
	 */
	int (*open_file)(struct names *names, const char *name, void **file);
	void (*close_file)(void *file);
	int (*limits)(struct names *names, const void *file, uint32_t *read_max,
		      uint32_t *write_max);
};

extern const struct protocol protocol_nfs3;

/* Bytes that the I/O of `call` still has to move. */
static inline uint32_t call_rest(const struct call *call)
{
	return call->io->length - call->io->done;
}

#endif
