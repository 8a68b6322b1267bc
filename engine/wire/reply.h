/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reply.h - a call's bulk data, and the handler to which replies go as they arrive: first the head,
 * then the bulk data: the one long opaque of a message, such as WRITE's and READ's data.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Bytes of the longest message head: RPC header and arguments, without bulk data. */
#define RPC_HEAD_MAX 640
/* The same over a byte stream, which also carries calls with names, such as an NFSv4 OPEN. */
#define RPC_STREAM_HEAD_MAX 1024

/* Bytes of the longest head of a reply: RPC header and results without bulk data, such as a
 * listing. */
#define RPC_REPLY_HEAD_MAX (36 * 1024)

enum { RPC_TAIL_MAX = 48 };

/* The bulk data of one call. */
struct rpc_payload {
	void *at;
	uint32_t length;   /* 0: the call has none */
	bool incoming;	   /* the reply has up to `length` bytes; else the call has them */
	bool stays_inline; /* not DDP-eligible (RFC 8166, 3.1): RDMA does not move it */
	/* Bytes behind the data and its pad, such as a checksum; queue() copies them. */
	const uint8_t *tail;
	uint32_t tail_length;
};

/* The first bytes of a reply, as far as they have arrived. */
struct rpc_reply {
	const uint8_t *message; /* from the xid on; a flavor may decrypt it in place */
	uint32_t have;		/* bytes received */
	bool whole;		/* the reply has no more bytes than these */
	uint32_t length;	/* of the whole reply; 0: not known */
	/* Not 0: a second reply() (rpc_bulk.again). The bulk data is in place: `message` lacks it;
	 * it came after the first `cut` bytes. */
	uint32_t cut;
};

/* Where a reply's bulk data goes. */
struct rpc_bulk {
	void *to; /* NULL: it is discarded */
	uint32_t length;
	void *token; /* handed back to finished() */
	/*
	 * True: once the data is in place, the channel calls reply() again with the other bytes;
	 * this second reply() sets the token, and cannot ask for more bytes. Only for a reply of
	 * known length, with at most RPC_STREAM_HEAD_MAX other bytes.
	 */
	bool again;
};

struct rpc_handler {
	/*
	 * A reply has begun. Returns the length of its head, after which the bulk data stands, with
	 * *bulk filled (length 0, token NULL where the reply answers no call: its rest is skipped);
	 * 0 to be called again with more bytes, unless reply->whole; or a negative errno: the
	 * server broke the protocol, and the channel fails with that errno.
	 */
	int (*reply)(void *context, const struct rpc_reply *reply, struct rpc_bulk *bulk);
	/* The bulk data is in place. Called at most once for each reply() that gave a token. */
	void (*finished)(void *context, void *token);
	/*
	 * The transport refused the call `xid`, or received a reply that cannot be used: the call
	 * gets no other answer. The channel stays usable. Only RDMA calls this.
	 */
	void (*refused)(void *context, uint32_t xid, int error, const char *why);
	void *context;
};
