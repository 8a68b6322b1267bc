/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rpcrdma.h - encodes and decodes a client's transport headers of RPC-over-RDMA version 1 (RFC
 * 8166), and the private data that connections begin with (RFC 8797). No verbs, no state.
 *
 * A message is one Send: the transport header, then the RPC message. The long opaque of a READ
 * reply or WRITE call (RFC 8267) may stay out of the message: then a chunk of the header names
 * memory of the client, which the server writes or reads by RDMA before it replies.
 *
 * Section numbers are RFC 8166's where no other is named; lengths and sizes are bytes.
 */
#pragma once

#include "wire/xdr.h"

/*
 * Most segments of one chunk. fio's buffers are in few registered regions, so data rarely needs
 * more than one segment. With this limit the longest call fits into the smallest inline threshold.
 */
#define RPCRDMA_SEGMENTS_MAX 8

#define RPCRDMA_HEADER_MIN   28 /* four fixed words, three empty lists (4.2, 4.3) */
#define RPCRDMA_SEGMENT_SIZE 16 /* of a Write chunk (3.4.3) */
#define RPCRDMA_READ_SIZE    24 /* of a Read list's segment, with its mark and position (4.3.1) */
#define RPCRDMA_CHUNK_SIZE   8	/* of a Write chunk without its segments: mark, count (4.3.2) */
#define RPCRDMA_HEADER_MAX                                                                        \
	(RPCRDMA_HEADER_MIN + RPCRDMA_SEGMENTS_MAX * (RPCRDMA_READ_SIZE + RPCRDMA_SEGMENT_SIZE) + \
	 RPCRDMA_CHUNK_SIZE)

/* A part of registered memory: its rkey, length and offset (3.4.3). */
struct rpcrdma_segment {
	uint32_t handle, length;
	uint64_t offset;
};

/* The memory of one opaque, in order (3.4.4). */
struct rpcrdma_chunk {
	uint32_t count; /* 0: there is no chunk */
	struct rpcrdma_segment segments[RPCRDMA_SEGMENTS_MAX];
};

/* --- calls --- */

struct rpcrdma_call {
	uint32_t xid;	  /* the RPC message's (4.2.1) */
	uint32_t credits; /* requested, at least 1 (3.3.1) */
	/*
	 * WRITE's data, without its XDR pad, which the server adds (3.4.5). The RPC message that is
	 * sent ends with the opaque's length; `position` is the message's size, a multiple of four.
	 */
	struct rpcrdma_chunk read;
	uint32_t position;
	struct rpcrdma_chunk write; /* where READ's data goes (3.4.6) */
};

/* Bytes that rpcrdma_encode_call() writes, RPCRDMA_HEADER_MIN … RPCRDMA_HEADER_MAX. */
uint32_t rpcrdma_call_size(const struct rpcrdma_call *call);

/*
 * Writes the header of an RDMA_MSG; the RPC message follows it. No Reply chunk is offered: servers
 * would use it for each reply, and replies fit inline. out->bad: no room.
 */
void rpcrdma_encode_call(struct xdr_out *out, const struct rpcrdma_call *call);

/* --- replies --- */

enum rpcrdma_verdict {
	RPCRDMA_MSG,	   /* an RPC message with the same xid follows */
	RPCRDMA_ERR_VERS,  /* the server speaks versions `low` to `high` (4.5.1) */
	RPCRDMA_ERR_CHUNK, /* the server could not use the header, or its reply did not fit (4.5) */
	RPCRDMA_MALFORMED, /* not an answer to a call of ours: `fault` says why */
	RPCRDMA_TOO_SHORT  /* not even the fixed words: nothing else is valid */
};

struct rpcrdma_reply {
	enum rpcrdma_verdict verdict;
	/* Valid for all verdicts but RPCRDMA_TOO_SHORT: all versions have them in one place (4.2).
	 */
	uint32_t xid, credits;
	struct rpcrdma_chunk write; /* RPCRDMA_MSG: the Write list as returned, not checked yet */
	uint32_t low, high;	    /* RPCRDMA_ERR_VERS */
	const char *fault;	    /* RPCRDMA_MALFORMED: a few words, static */
};

/*
 * Reads a reply's header; `in` is all that one Receive brought. Leaves `in` at the RPC message for
 * RPCRDMA_MSG, and anywhere else for the other verdicts. RDMA_NOMSG, a Reply chunk and a second
 * Write chunk are also malformed: RFC 8166 allows them, but rpcrdma_encode_call() never requests
 * them.
 */
void rpcrdma_decode_reply(struct xdr_in *in, struct rpcrdma_reply *reply);

/*
 * Sets *bytes to how many bytes the server wrote into the chunk that a call offered, by the reply's
 * Write list (4.3.2): 0 if the list is empty, as in a reply without data. False, *bytes invalid:
 * the list has another count of segments, a segment longer than offered, or a gap: bytes in a
 * segment after one that is not full.
 */
bool rpcrdma_written(const struct rpcrdma_chunk *offered, const struct rpcrdma_chunk *returned,
		     uint64_t *bytes);

/* Writes a line for people, such as "the server speaks RPC-over-RDMA versions 2 to 3 …". Returns
 * the errno; 0 for RPCRDMA_MSG. */
int rpcrdma_verdict_text(const struct rpcrdma_reply *reply, char *text, size_t size);

/*
 * How many calls may be outstanding after a reply that granted `credits`, with this many Receives
 * (at least 1) posted. A grant of 0 counts as 1, or nothing could ever be sent again (3.3.1). On a
 * new connection the window is 1 until the first reply (3.3.3).
 */
uint32_t rpcrdma_credit_window(uint32_t credits, uint32_t receives);

/* --- private data of the connection manager (RFC 8797, 4) --- */

#define RPCRDMA_PRIVATE_SIZE 8
#define RPCRDMA_INLINE_MIN   1024   /* also for a peer without private data (3.3.2) */
#define RPCRDMA_INLINE_MAX   262144 /* the most that private data can encode */

/* Inline thresholds: the longest messages that one side sends and receives. */
struct rpcrdma_inline {
	uint32_t send, receive; /* RPCRDMA_INLINE_MIN … RPCRDMA_INLINE_MAX */
};

/*
 * Rounds thresholds down to KiB. Leaves the flag for remote invalidation clear: registrations are
 * kept after the calls that name them.
 */
void rpcrdma_encode_private(uint8_t bytes[RPCRDMA_PRIVATE_SIZE], const struct rpcrdma_inline *mine);

/*
 * The peer's thresholds: both RPCRDMA_INLINE_MIN if the peer sent no private data (length 0), or
 * not in RFC 8797's form. More bytes may follow: InfiniBand pads private data.
 */
struct rpcrdma_inline rpcrdma_decode_private(const uint8_t *bytes, uint32_t length);

/* The thresholds of a connection: each is bounded by both sides. */
struct rpcrdma_inline rpcrdma_effective_inline(const struct rpcrdma_inline *mine,
					       const struct rpcrdma_inline *peers);
