/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/rpcrdma.h"

#include "wire/reply.h"
#include "util.h"

/* RFC 8166, 4.1 */
enum { RPCRDMA_VERSION = 1 };
enum { RDMA_MSG = 0, RDMA_NOMSG = 1, RDMA_MSGP = 2, RDMA_DONE = 3, RDMA_ERROR = 4 };
enum { ERR_VERS = 1, ERR_CHUNK = 2 };
enum { ABSENT = 0, PRESENT = 1 }; /* before each item of a list, and after the last */

_Static_assert(RPCRDMA_HEADER_MAX + RPC_HEAD_MAX <= RPCRDMA_INLINE_MIN,
	       "each call fits into one Send to any server");

/* --- chunks --- */

static void put_segment(struct xdr_out *out, const struct rpcrdma_segment *segment)
{
	xdr_put_u32(out, segment->handle);
	xdr_put_u32(out, segment->length);
	xdr_put_u64(out, segment->offset);
}

static void get_segment(struct xdr_in *in, struct rpcrdma_segment *segment)
{
	segment->handle = xdr_get_u32(in);
	segment->length = xdr_get_u32(in);
	segment->offset = xdr_get_u64(in);
}

/* Segments at the same position make one chunk (4.3.1). */
static void put_read_list(struct xdr_out *out, const struct rpcrdma_chunk *chunk, uint32_t position)
{
	for (uint32_t i = 0; i < chunk->count; i++) {
		xdr_put_u32(out, PRESENT);
		xdr_put_u32(out, position);
		put_segment(out, &chunk->segments[i]);
	}
	xdr_put_u32(out, ABSENT);
}

static void put_write_list(struct xdr_out *out, const struct rpcrdma_chunk *chunk)
{
	if (chunk->count) {
		xdr_put_u32(out, PRESENT);
		xdr_put_u32(out, chunk->count);
		for (uint32_t i = 0; i < chunk->count; i++)
			put_segment(out, &chunk->segments[i]);
	}
	xdr_put_u32(out, ABSENT);
}

/* A list of one chunk at most. Returns what is wrong with it, or NULL. */
static const char *get_write_list(struct xdr_in *in, struct rpcrdma_chunk *chunk)
{
	uint32_t mark = xdr_get_u32(in), count;

	if (mark == ABSENT)
		return NULL;
	if (mark != PRESENT)
		return "a Write list that is neither present nor absent";
	count = xdr_get_u32(in);
	if (count > RPCRDMA_SEGMENTS_MAX)
		return "a Write chunk of more segments than any call offers";
	for (uint32_t i = 0; i < count; i++)
		get_segment(in, &chunk->segments[i]);
	chunk->count = count;
	return xdr_get_u32(in) == ABSENT ? NULL : "a second Write chunk";
}

/* --- calls --- */

uint32_t rpcrdma_call_size(const struct rpcrdma_call *call)
{
	uint32_t size = RPCRDMA_HEADER_MIN + call->read.count * RPCRDMA_READ_SIZE;

	if (call->write.count)
		size += RPCRDMA_CHUNK_SIZE + call->write.count * RPCRDMA_SEGMENT_SIZE;
	return size;
}

void rpcrdma_encode_call(struct xdr_out *out, const struct rpcrdma_call *call)
{
	xdr_put_u32(out, call->xid);
	xdr_put_u32(out, RPCRDMA_VERSION);
	xdr_put_u32(out, call->credits);
	xdr_put_u32(out, RDMA_MSG);
	put_read_list(out, &call->read, call->position);
	put_write_list(out, &call->write);
	xdr_put_u32(out, ABSENT); /* the Reply chunk */
}

/* --- replies --- */

/* These return what is wrong with the reply, or NULL. */
static const char *decode_msg(struct xdr_in *in, struct rpcrdma_reply *reply)
{
	struct xdr_in message;
	const char *fault;
	uint32_t xid;

	reply->verdict = RPCRDMA_MSG;
	if (xdr_get_u32(in) != ABSENT)
		return "a Read list";
	fault = get_write_list(in, &reply->write);
	if (fault)
		return fault;
	if (xdr_get_u32(in) != ABSENT)
		return "a Reply chunk that no call offers";
	message = *in;
	xid = xdr_get_u32(&message);
	if (message.bad)
		return "no RPC message behind it";
	return xid == reply->xid ? NULL : "an RPC message of another xid";
}

static const char *decode_error(struct xdr_in *in, struct rpcrdma_reply *reply)
{
	uint32_t error = xdr_get_u32(in);

	reply->verdict = error == ERR_VERS ? RPCRDMA_ERR_VERS : RPCRDMA_ERR_CHUNK;
	if (error == ERR_VERS) {
		reply->low = xdr_get_u32(in);
		reply->high = xdr_get_u32(in);
	}
	if (in->bad)
		return "half of an RDMA_ERROR";
	return error == ERR_VERS || error == ERR_CHUNK ? NULL : "an unknown rdma_err";
}

static const char *decode_body(struct xdr_in *in, uint32_t procedure, struct rpcrdma_reply *reply)
{
	switch (procedure) {
	case RDMA_MSG: return decode_msg(in, reply);
	case RDMA_NOMSG: return "RDMA_NOMSG, though no call offers a Reply chunk";
	case RDMA_MSGP: return "RDMA_MSGP, which must not be sent";
	case RDMA_DONE: return "RDMA_DONE, which must not be sent";
	case RDMA_ERROR: return decode_error(in, reply);
	default: return "an unknown rdma_proc";
	}
}

void rpcrdma_decode_reply(struct xdr_in *in, struct rpcrdma_reply *reply)
{
	uint32_t version, procedure;

	memset(reply, 0, sizeof(*reply));
	reply->verdict = RPCRDMA_TOO_SHORT;
	reply->xid = xdr_get_u32(in);
	version = xdr_get_u32(in);
	reply->credits = xdr_get_u32(in);
	procedure = xdr_get_u32(in);
	if (in->bad)
		return;
	reply->fault = version == RPCRDMA_VERSION ? decode_body(in, procedure, reply)
						  : "another version than the call's";
	if (reply->fault)
		reply->verdict = RPCRDMA_MALFORMED;
}

bool rpcrdma_written(const struct rpcrdma_chunk *offered, const struct rpcrdma_chunk *returned,
		     uint64_t *bytes)
{
	bool full = true;

	*bytes = 0;
	if (returned->count && returned->count != offered->count)
		return false;
	for (uint32_t i = 0; i < returned->count; i++) {
		uint32_t room = offered->segments[i].length;
		uint32_t used = returned->segments[i].length;

		if (used > room || (used && !full))
			return false;
		full = full && used == room;
		*bytes += used;
	}
	return true;
}

int rpcrdma_verdict_text(const struct rpcrdma_reply *reply, char *text, size_t size)
{
	switch (reply->verdict) {
	case RPCRDMA_MSG: snprintf(text, size, "success"); return 0;
	case RPCRDMA_ERR_VERS:
		snprintf(text, size,
			 "the server speaks RPC-over-RDMA versions %u to %u, not 1 (ERR_VERS)",
			 reply->low, reply->high);
		return EPROTONOSUPPORT;
	case RPCRDMA_ERR_CHUNK:
		snprintf(text, size,
			 "the server could not use the call's chunks, or its reply did not fit "
			 "into a Send (ERR_CHUNK)");
		return EREMOTEIO;
	case RPCRDMA_MALFORMED:
		snprintf(text, size, "the reply's RPC-over-RDMA header has %s", reply->fault);
		return EPROTO;
	default: snprintf(text, size, "the reply is too short for RPC-over-RDMA"); return EPROTO;
	}
}

uint32_t rpcrdma_credit_window(uint32_t credits, uint32_t receives)
{
	return min_of(max_of(credits, 1u), receives);
}

/* --- private data (RFC 8797, 4) --- */

#define PRIVATE_MAGIC 0xf6ab0e18u

enum { PRIVATE_VERSION = 1, KIB = 1024 };

/* A size as one octet: KiB minus one. */
static uint32_t size_code(uint32_t size)
{
	return size / KIB - 1;
}

static uint32_t code_size(uint32_t code)
{
	return ((code & 0xff) + 1) * KIB;
}

/* Octets 4 … 7: version, flags, Send Size, Receive Size. */
void rpcrdma_encode_private(uint8_t bytes[RPCRDMA_PRIVATE_SIZE], const struct rpcrdma_inline *mine)
{
	struct xdr_out out = {bytes, bytes + RPCRDMA_PRIVATE_SIZE, false};

	xdr_put_u32(&out, PRIVATE_MAGIC);
	xdr_put_u32(&out, (uint32_t)PRIVATE_VERSION << 24 | size_code(mine->send) << 8 |
				  size_code(mine->receive));
}

struct rpcrdma_inline rpcrdma_decode_private(const uint8_t *bytes, uint32_t length)
{
	struct rpcrdma_inline peers = {RPCRDMA_INLINE_MIN, RPCRDMA_INLINE_MIN};
	struct xdr_in in = {bytes, bytes, false};
	uint32_t magic, word;

	if (length < RPCRDMA_PRIVATE_SIZE)
		return peers;
	in.end += RPCRDMA_PRIVATE_SIZE;
	magic = xdr_get_u32(&in);
	word = xdr_get_u32(&in);
	if (magic == PRIVATE_MAGIC && word >> 24 == PRIVATE_VERSION) {
		peers.send = code_size(word >> 8);
		peers.receive = code_size(word);
	}
	return peers;
}

struct rpcrdma_inline rpcrdma_effective_inline(const struct rpcrdma_inline *mine,
					       const struct rpcrdma_inline *peers)
{
	return (struct rpcrdma_inline){
		.send = min_of(mine->send, peers->receive),
		.receive = min_of(mine->receive, peers->send),
	};
}
