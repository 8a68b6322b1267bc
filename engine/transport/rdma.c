/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rdma.c - an RPC channel over RPC-over-RDMA version 1 (RFC 8166) on one queue pair.
 *
 * A call is one Send, its reply one Receive. Bulk data goes with them where it fits into the inline
 * threshold; else the call names the memory, and the server moves the data by RDMA before it
 * replies. The server's credits limit the calls outstanding.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "transport/rdma_link.h"
#include "transport/rdma_memory.h"
#include "wait.h"

enum {
	CALLS_MAX = 256,  /* the most credits we ask for; servers grant 32 to 128 */
	SPARES = 2,	  /* Receives beyond the credits, for an RDMA_ERROR that answers no call */
	REPLY_HEAD = 256, /* bytes a reply may need beside its bulk data */
	BATCH = 16,	  /* completions taken at once */
	LONGEST_INLINE = 65536, /* bytes: servers take no more */
};

/* Nanoseconds to poll before a sleep; see spin(). */
static const uint64_t SPIN_MIN = 500, SPIN_MAX = 32000;
enum { SPIN_PAUSE = 64 }; /* waits without polling, after polling did not pay */

#define SEND_ID (1ull << 32) /* in wr_id: a send; low bits: sends completed */

/* The call that uses one credit, and its part of the send buffer. */
struct rdma_call {
	struct rpc_payload data;
	struct rpcrdma_chunk written; /* offered for the reply's data */
	struct ibv_send_wr work;
	struct ibv_sge message;
};

struct rdma {
	struct rpc_channel base;
	struct rpc_terms terms;
	struct rdma_link link;
	struct rdma_device *device; /* NULL until the link is resolved */
	struct rpcrdma_inline mine, agreed;

	/* Messages: calls_max to send, then calls_max + SPARES to receive. */
	uint8_t *buffers;
	struct ibv_mr *buffers_mr;
	uint32_t send_size;

	/* calls[order[0 … outstanding)] are in use, the others free; order is a permutation. */
	struct rdma_call calls[CALLS_MAX];
	uint32_t xids[CALLS_MAX]; /* of calls; an array of their own, which each reply searches */
	uint16_t order[CALLS_MAX];
	uint32_t calls_max, outstanding, window;

	struct ibv_send_wr *first, *last; /* sends that are chained, not posted */
	uint32_t unreaped;		  /* sends not known to have completed */
	uint32_t unsignaled;		  /* sends since the latest that makes a completion */
	uint64_t queued, sent;		  /* calls */

	bool spins;	     /* polling leaves a processor to the server */
	uint64_t spin;	     /* nanoseconds to poll before the next sleep */
	uint32_t spin_pause; /* waits without polling that are left */
};

static struct rdma *rdma_of(const struct rpc_channel *channel)
{
	return container_of(channel, struct rdma, base);
}

/* --- connecting --- */

/* 0: a queue pair itself breaks when its messages are not acknowledged. */
static uint64_t rdma_unheard(const struct rpc_channel *channel)
{
	return 0;
}

/* Ignores `abort`: ending the queue pair drops all calls. */
static void rdma_close(struct rpc_channel *channel, bool abort)
{
	struct rdma *rdma = rdma_of(channel);

	/* Memory is freed after the queue pair that reaches it, and before its device closes. */
	rdma_link_stop(&rdma->link);
	if (rdma->buffers_mr)
		ibv_dereg_mr(rdma->buffers_mr);
	if (rdma->device)
		rdma_device_release(rdma->device, rdma->link.removed);
	rdma_link_close(&rdma->link);
	free(rdma->buffers);
	free(rdma);
}

static int rdma_open(struct rpc_channel **channel, const struct rpc_terms *terms)
{
	struct rdma *rdma = calloc(1, sizeof(*rdma));
	uint32_t threshold = max_of(terms->inline_max, (uint32_t)RPCRDMA_INLINE_MIN);
	int error;

	if (!rdma)
		return -ENOMEM;
	rdma->base.counters = terms->counters;
	rdma->terms = *terms;
	threshold = min_of(threshold, (uint32_t)LONGEST_INLINE) & ~1023u; /* sent in KiB */
	rdma->mine = (struct rpcrdma_inline){threshold, threshold};
	rdma->window = 1; /* until the first reply (RFC 8166, 3.3.3) */
	rdma->spins = sysconf(_SC_NPROCESSORS_ONLN) > 1;
	rdma->spin = SPIN_MAX;
	error = rdma_link_open(&rdma->link, &terms->address);
	if (error) {
		free(rdma);
		return error;
	}
	rdma->base.fd = rdma->link.poll_fd;
	*channel = &rdma->base;
	return 0;
}

/* Half of the queue's entries may belong to answered calls: see chain(). */
static uint32_t limit_calls(const struct rdma *rdma)
{
	struct ibv_device_attr device;
	uint32_t calls = min_of(max_of(rdma->terms.calls_max, 1u), (uint32_t)CALLS_MAX);

	if (ibv_query_device(rdma->link.id->verbs, &device))
		return calls;
	calls = min_of(calls, (uint32_t)device.max_qp_wr / 2);
	return max_of(min_of(calls, (uint32_t)(device.max_cqe - SPARES) / 3), 1u);
}

static uint8_t *send_buffer(const struct rdma *rdma, const struct rdma_call *call)
{
	return rdma->buffers + (size_t)(call - rdma->calls) * rdma->send_size;
}

static uint8_t *receive_buffer(const struct rdma *rdma, uint32_t index)
{
	return rdma->buffers + (size_t)rdma->calls_max * rdma->send_size +
	       (size_t)index * rdma->mine.receive;
}

static int post_receive(struct rdma *rdma, uint32_t index)
{
	struct ibv_sge message = {
		.addr = (uintptr_t)receive_buffer(rdma, index),
		.length = rdma->mine.receive,
		.lkey = rdma->buffers_mr->lkey,
	};
	struct ibv_recv_wr work = {.wr_id = index, .sg_list = &message, .num_sge = 1}, *bad;

	return -ibv_post_recv(rdma->link.id->qp, &work, &bad);
}

/* Makes the connection's buffers and queues, posts Receives, and begins to connect. */
static int prepare(struct rdma *rdma)
{
	uint32_t receives;
	size_t size;
	int error;

	rdma->device = rdma_memory_device(rdma->terms.memory, rdma->link.id->verbs);
	if (!rdma->device)
		return -errno;
	rdma->calls_max = limit_calls(rdma);
	receives = rdma->calls_max + SPARES;
	/* The header, whose length varies with its lists, ends where the RPC message begins. */
	rdma->send_size = RPCRDMA_HEADER_MAX + rdma->mine.send;
	size = (size_t)rdma->calls_max * rdma->send_size + (size_t)receives * rdma->mine.receive;
	rdma->buffers = calloc(1, size);
	if (!rdma->buffers)
		return -ENOMEM;
	for (uint32_t i = 0; i < rdma->calls_max; i++)
		rdma->order[i] = (uint16_t)i;
	rdma->buffers_mr = rdma_device_register(rdma->device, rdma->buffers, size);
	if (!rdma->buffers_mr)
		return -errno;
	rdma->base.counters->registrations++;
	error = rdma_link_build(&rdma->link, rdma_device_pd(rdma->device), 2 * rdma->calls_max,
				receives);
	for (uint32_t i = 0; i < receives && !error; i++)
		error = post_receive(rdma, i);
	return error ?: rdma_link_connect(&rdma->link, &rdma->mine);
}

static int rdma_connected(struct rpc_channel *channel)
{
	struct rdma *rdma = rdma_of(channel);
	int error = rdma_link_progress(&rdma->link);

	if (!error && rdma->link.state == RDMA_LINK_RESOLVED)
		error = prepare(rdma);
	if (error)
		return error;
	if (rdma->link.state != RDMA_LINK_CONNECTED)
		return -EINPROGRESS;
	rdma->agreed = rpcrdma_effective_inline(&rdma->mine, &rdma->link.peers);
	/* No Reply chunk is offered: a reply without data fits inline. */
	channel->head_max = rdma->agreed.receive - RPCRDMA_HEADER_MIN;
	/* From here on poll_fd is readable, or will be with the next completion. */
	return rdma_link_arm(&rdma->link);
}

/* --- sending --- */

static bool rdma_begin(struct rpc_channel *channel, struct xdr_out *head)
{
	struct rdma *rdma = rdma_of(channel);
	const struct rdma_call *call;

	if (rdma->outstanding >= rdma->window || rdma->unreaped >= 2 * rdma->calls_max)
		return false;
	call = &rdma->calls[rdma->order[rdma->outstanding]];
	head->at = send_buffer(rdma, call) + RPCRDMA_HEADER_MAX;
	head->end = head->at + RPC_HEAD_MAX;
	head->bad = false;
	return true;
}

static int name_memory(struct rdma *rdma, const struct rpc_payload *data,
		       struct rpcrdma_chunk *chunk)
{
	int registered = rdma_device_describe(rdma->device, data->at, data->length, chunk);

	if (registered > 0)
		rdma->base.counters->registrations += (uint32_t)registered;
	return min_of(registered, 0);
}

/* Decides how a call's data is moved. Returns the RPC message's length; 0: it cannot be moved. */
static uint32_t place_data(struct rdma *rdma, struct rpcrdma_call *header, uint8_t *message,
			   uint32_t length, const struct rpc_payload *data)
{
	const uint32_t pad = xdr_pad(data->length);
	const uint64_t bytes = (uint64_t)data->length + pad + RPCRDMA_HEADER_MIN;

	if (!data->length)
		return length;
	if (data->incoming) {
		if (bytes + REPLY_HEAD <= rdma->agreed.receive)
			return length;
		return name_memory(rdma, data, &header->write) ? 0 : length;
	}
	if (bytes + length <= rdma->agreed.send) {
		memcpy(message + length, data->at, data->length);
		memset(message + length + data->length, 0, pad);
		return length + data->length + pad;
	}
	if (data->stays_inline) {
		snprintf(rdma->terms.why, RPC_WHY_MAX,
			 "a message of %" PRIu64
			 " bytes does not fit into one RDMA Send of %u: raise inline=, and "
			 "the server's own threshold",
			 bytes + length, rdma->agreed.send);
		return 0;
	}
	header->position = length;
	return name_memory(rdma, data, &header->read) ? 0 : length;
}

/*
 * Adds the call's send to the chain. Once per calls_max / 4 sends it requests a completion, which
 * covers all sends before it: so answered calls do not fill more than half of the queue.
 */
static void chain(struct rdma *rdma, struct rdma_call *call, uint8_t *start, uint32_t length)
{
	call->message = (struct ibv_sge){(uintptr_t)start, length, rdma->buffers_mr->lkey};
	call->work = (struct ibv_send_wr){
		.sg_list = &call->message,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
	};
	rdma->unreaped++;
	rdma->unsignaled++;
	if (rdma->unsignaled >= max_of(rdma->calls_max / 4, 1u)) {
		call->work.send_flags = IBV_SEND_SIGNALED;
		call->work.wr_id = SEND_ID | rdma->unsignaled;
		rdma->unsignaled = 0;
	}
	if (rdma->first)
		rdma->last->next = &call->work;
	else
		rdma->first = &call->work;
	rdma->last = &call->work;
}

static uint64_t rdma_queue(struct rpc_channel *channel, uint32_t xid, const struct xdr_out *head,
			   const struct rpc_payload *data)
{
	struct rdma *rdma = rdma_of(channel);
	struct rdma_call *call = &rdma->calls[rdma->order[rdma->outstanding]];
	struct rpcrdma_call header = {.xid = xid, .credits = rdma->calls_max};
	uint8_t *message = send_buffer(rdma, call) + RPCRDMA_HEADER_MAX;
	uint32_t length = place_data(rdma, &header, message, head->at - message, data);
	uint32_t header_size;
	struct xdr_out out;

	if (!length)
		return 0;
	header_size = rpcrdma_call_size(&header);
	out = (struct xdr_out){message - header_size, message, false};
	rpcrdma_encode_call(&out, &header);
	rdma->xids[rdma->order[rdma->outstanding]] = xid;
	call->data = *data;
	call->written = header.write;
	chain(rdma, call, message - header_size, header_size + length);
	channel->counters->bytes_sent += header_size + length;
	rdma->outstanding++;
	return ++rdma->queued;
}

static uint64_t rdma_sent(const struct rpc_channel *channel)
{
	return rdma_of(channel)->sent;
}

static int rdma_flush(struct rpc_channel *channel)
{
	struct rdma *rdma = rdma_of(channel);
	struct ibv_send_wr *bad;
	int error;

	if (!rdma->first)
		return 0;
	error = ibv_post_send(rdma->link.id->qp, rdma->first, &bad);
	rdma->first = rdma->last = NULL;
	channel->counters->sends += rdma->queued - rdma->sent;
	rdma->sent = rdma->queued;
	return -error;
}

/* --- receiving --- */

/* The place in `order` of the outstanding call `xid`; `outstanding`: there is none. */
static uint32_t outstanding_call(const struct rdma *rdma, uint32_t xid)
{
	uint32_t at = 0;

	while (at < rdma->outstanding && rdma->xids[rdma->order[at]] != xid)
		at++;
	return at;
}

static void free_call(struct rdma *rdma, uint32_t at)
{
	uint16_t freed = rdma->order[at];

	rdma->order[at] = rdma->order[--rdma->outstanding];
	rdma->order[rdma->outstanding] = freed;
}

/* Copies inline data to the owner's buffer. False: the data is not where the reply says. */
static bool take_data(const struct rdma_call *call, const struct rpc_bulk *bulk, uint64_t written,
		      const uint8_t *rest, uint32_t rest_length)
{
	if (written)
		return written == bulk->length && bulk->to == call->data.at;
	if (rest_length < bulk->length)
		return false;
	if (bulk->length)
		memcpy(bulk->to, rest, bulk->length);
	return true;
}

/*
 * Hands a reply without transport errors to the handler. `call` NULL: the reply answers no
 * outstanding call, and the handler counts it.
 */
static int deliver(struct rdma *rdma, uint32_t xid, const struct rdma_call *call,
		   const struct xdr_in *message, uint64_t written)
{
	const struct rpc_handler *handler = rdma->terms.handler;
	const struct rpc_reply reply = {
		.message = message->at,
		.have = (uint32_t)(message->end - message->at),
		.whole = true,
	};
	struct rpc_bulk bulk = {0};
	int head = handler->reply(handler->context, &reply, &bulk);

	if (!call)
		return 0;
	if (head <= 0)
		return head ?: -EBADMSG;
	if (!bulk.token) /* not ours, or not authentic: ignored */
		return 0;
	if (!take_data(call, &bulk, written, reply.message + head, reply.have - head))
		handler->refused(handler->context, xid, EPROTO,
				 "the reply's data is not where it says");
	else
		handler->finished(handler->context, bulk.token);
	return 0;
}

static void refuse(struct rdma *rdma, const struct rpcrdma_reply *reply)
{
	const struct rpc_handler *handler = rdma->terms.handler;
	char why[160];
	int error = rpcrdma_verdict_text(reply, why, sizeof(why));

	handler->refused(handler->context, reply->xid, error, why);
}

static int take_message(struct rdma *rdma, const uint8_t *message, uint32_t length)
{
	struct xdr_in in = {message, message + length, false};
	struct rpcrdma_reply reply;
	const struct rdma_call *call = NULL;
	uint64_t written = 0;
	uint32_t at;

	rpcrdma_decode_reply(&in, &reply);
	if (reply.verdict == RPCRDMA_TOO_SHORT)
		return -EBADMSG;
	rdma->window = rpcrdma_credit_window(reply.credits, rdma->calls_max);
	rdma->base.counters->credits = reply.credits;
	at = outstanding_call(rdma, reply.xid);
	if (at < rdma->outstanding) {
		call = &rdma->calls[rdma->order[at]];
		free_call(rdma, at); /* `call` stays valid until the next begin() */
	}
	if (call && reply.verdict == RPCRDMA_MSG &&
	    !rpcrdma_written(&call->written, &reply.write, &written)) {
		reply.verdict = RPCRDMA_MALFORMED;
		reply.fault = "a Write list that is not the call's";
	}
	if (reply.verdict == RPCRDMA_MSG)
		return deliver(rdma, reply.xid, call, &in, written);
	if (call)
		refuse(rdma, &reply);
	return 0;
}

/* The errno of a broken queue pair, whose outstanding calls will not be answered. */
static int failure_of(struct rdma *rdma, const struct ibv_wc *done)
{
	switch (done->status) {
	case IBV_WC_RNR_RETRY_EXC_ERR: rdma->base.counters->rnr_errors++; return -ECONNRESET;
	case IBV_WC_RETRY_EXC_ERR: rdma->base.counters->retry_errors++; return -ETIMEDOUT;
	case IBV_WC_LOC_LEN_ERR: return -EMSGSIZE; /* a reply over the inline threshold */
	case IBV_WC_WR_FLUSH_ERR: return -ECONNRESET;
	default: return -EREMOTEIO;
	}
}

static int take_completion(struct rdma *rdma, const struct ibv_wc *done)
{
	int error;

	if (done->status != IBV_WC_SUCCESS)
		return failure_of(rdma, done);
	if (done->wr_id & SEND_ID) {
		rdma->unreaped -= (uint32_t)done->wr_id;
		return 0;
	}
	rdma->base.counters->receives++;
	rdma->base.counters->bytes_received += done->byte_len;
	error = take_message(rdma, receive_buffer(rdma, (uint32_t)done->wr_id), done->byte_len);
	return error ?: post_receive(rdma, (uint32_t)done->wr_id);
}

/* Handles all completions there are. Returns how many, or a negative errno. */
static int take_completions(struct rdma *rdma)
{
	struct ibv_wc done[BATCH];
	int count, taken = 0;

	do {
		count = ibv_poll_cq(rdma->link.cq, BATCH, done);
		if (count < 0)
			return -EIO;
		for (int i = 0; i < count; i++) {
			int error = take_completion(rdma, &done[i]);

			if (error)
				return error;
		}
		taken += count;
	} while (count == BATCH);
	return taken;
}

/*
 * Polls before a sleep, as long as polling pays. A completion doubles the time of the next poll; a
 * poll without one halves it, and at SPIN_MIN polling stops for a while. A single processor never
 * polls: the server, or a software device, needs it.
 */
static int spin(struct rdma *rdma)
{
	uint64_t until;
	int taken;

	if (!rdma->spins)
		return 0;
	if (rdma->spin_pause) {
		rdma->spin_pause--;
		return 0;
	}
	until = clock_now() + rdma->spin;
	do
		taken = take_completions(rdma);
	while (!taken && clock_now() < until);
	if (taken)
		rdma->spin = min_of(2 * rdma->spin, SPIN_MAX);
	else if (rdma->spin > SPIN_MIN)
		rdma->spin /= 2;
	else
		rdma->spin_pause = SPIN_PAUSE;
	return taken;
}

static int rdma_receive(struct rpc_channel *channel, bool wait)
{
	struct rdma *rdma = rdma_of(channel);
	struct pollfd poll_fd = {.fd = channel->fd, .events = POLLIN};
	int taken = take_completions(rdma);

	if (!taken && wait)
		taken = spin(rdma);
	if (!taken)
		taken = rdma_link_arm(&rdma->link)
				?: rdma_link_progress(&rdma->link) ?: take_completions(rdma);
	if (!taken && wait) {
		poll(&poll_fd, 1, WAIT_SLICE_MS);
		channel->counters->syscalls++;
		taken = rdma_link_progress(&rdma->link) ?: take_completions(rdma);
	}
	return min_of(taken, 0);
}

static bool rdma_receiving(const struct rpc_channel *channel)
{
	return false; /* messages arrive whole */
}

static short rdma_poll_events(const struct rpc_channel *channel)
{
	return POLLIN;
}

static void rdma_names(const struct rpc_channel *channel, char *local, char *remote, size_t size)
{
	struct rdma_cm_id *id = rdma_of(channel)->link.id;

	rpc_address_text(rdma_get_local_addr(id), local, size);
	rpc_address_text(rdma_get_peer_addr(id), remote, size);
}

const struct rpc_channel_ops rpc_rdma = {
	.name = "rdma",
	.traits = RPC_MOVES_DATA | RPC_SENDS_ONCE,
	.open = rdma_open,
	.connected = rdma_connected,
	.poll_events = rdma_poll_events,
	.begin = rdma_begin,
	.queue = rdma_queue,
	.sent = rdma_sent,
	.flush = rdma_flush,
	.receive = rdma_receive,
	.receiving = rdma_receiving,
	.names = rdma_names,
	.unheard = rdma_unheard,
	.acknowledged = rdma_sent,
	.close = rdma_close,
};
