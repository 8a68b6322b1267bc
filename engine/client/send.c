/* SPDX-License-Identifier: GPL-2.0-only */
/* send.c - sends calls: I/O and requests, session set-up, and the liveness probe. */
#include "client/client.h"

void client_submit(struct rpc_client *rpc, struct conn_io *io)
{
	struct call *call = call_take(&rpc->calls, rpc);

	call->io = io;
	rpc->outstanding++;
	rpc->unflushed++;
	TAILQ_INSERT_TAIL(&rpc->waiting, call, link);
}

void client_request(struct rpc_client *rpc, struct rpc_request *request)
{
	struct call *call = call_take(&rpc->calls, rpc);

	*request = (struct rpc_request){.meta = request->meta};
	call->request = request;
	TAILQ_INSERT_TAIL(&rpc->waiting, call, link);
}

/*
 * Gives a call its xid and slot. A call that is sent again keeps both, unless its slot's session
 * was replaced. False: the protocol has no free slot.
 */
static bool give_number(struct rpc_client *rpc, struct call *call)
{
	const struct protocol *protocol = rpc->protocol;
	struct conn_io *io = call->io;
	bool numbered = protocol->acquire && !call_is_context(call);

	if (call->tries && numbered && protocol->slot_valid && !protocol->slot_valid(rpc, call))
		call_renew(rpc, call, false);
	if (call->tries) {
		rpc->counters->retransmissions++;
	} else {
		if (numbered && !protocol->acquire(rpc, call))
			return false;
		call->xid = call_new_xid(&rpc->calls, call);
		call->since = rpc->clock->now;
		if (io && !io->sent)
			io->sent = call->since;
		if (io && io->op == IO_COMMIT)
			rpc->events->commit_begins(io);
	}
	call->tries++;
	return true;
}

/* Queues an encoded call on the channel. False: its data cannot be moved. */
static bool queue_head(struct rpc_client *rpc, struct call *call, const struct xdr_out *head,
		       const struct rpc_payload *data)
{
	call->position = rpc->link.ops->queue(rpc->link.channel, call->xid, head, data);
	call->last_sent = rpc->clock->now;
	rpc->queued = call->position ?: rpc->queued;
	return call->position;
}

static bool encode_and_queue(struct rpc_client *rpc, struct call *call, struct xdr_out *head)
{
	const struct rpc_flavor *flavor = rpc->credentials->flavor;
	const struct conn_io *io = call->io;
	struct rpc_payload data = {0};
	uint8_t *arguments;

	if (io && (io->op == IO_READ || io->op == IO_WRITE))
		data = (struct rpc_payload){
			.at = io->buffer + io->done,
			.length = call_rest(call),
			.incoming = io->op == IO_READ,
		};
	arguments = rpc->protocol->encode(head, call, rpc->credentials);
	if (flavor->wrap && !flavor->wrap(rpc->credentials, &call->stamp, head, arguments, &data))
		return false;
	if (head->bad)
		return false;
	return queue_head(rpc, call, head, &data);
}

/* --- session set-up --- */

/* True where the credentials allow one more call. */
static inline bool has_room(struct rpc_client *rpc, const struct rpc_context_ops *context)
{
	const struct link *link = &rpc->link;

	return !context ||
	       context->room(rpc->credentials, link->ops->sent(link->channel) >= rpc->queued);
}

static bool queue_context(struct rpc_client *rpc, struct call *call, struct xdr_out *head)
{
	const struct protocol *protocol = rpc->protocol;
	const struct rpc_call_header header = {call->xid, protocol->program, protocol->version};
	struct rpc_payload token = {0};

	rpc->credentials->flavor->context->put_request(rpc->credentials, head, &header, &token);
	return queue_head(rpc, call, head, &token);
}

/* Logs why there is no context, and marks the channel to be closed. */
static void fail_context(struct rpc_client *rpc, int error, const char *why)
{
	struct call call = {.rpc = rpc, .request = &rpc->context};

	rpc->context.fault = why;
	rpc->setup_error = -error;
	rpc->log->unprepared(rpc, &call, error);
}

/* Sends the next request, if there is room for it. */
static void send_setup(struct rpc_client *rpc, struct rpc_request *request)
{
	const bool context = request == &rpc->context;
	struct link *link = &rpc->link;
	struct call *call;
	struct xdr_out head;

	if ((!context && !has_room(rpc, rpc->credentials->flavor->context)) ||
	    !link->ops->begin(link->channel, &head))
		return;
	rpc->setup = call = call_take(&rpc->calls, rpc);
	call->request = request;
	*request = (struct rpc_request){0};
	if (give_number(rpc, call) &&
	    (context ? queue_context(rpc, call, &head) : encode_and_queue(rpc, call, &head)))
		return;
	client_drop_setup(rpc, false);
	if (context)
		fail_context(rpc, EMSGSIZE, rpc->link.why);
}

/* True where the credentials have the context that calls need, or need none. */
static bool has_context(struct rpc_client *rpc)
{
	const struct rpc_context_ops *context = rpc->credentials->flavor->context;
	enum rpc_context_state state =
		context ? context->step(rpc->credentials, rpc->clock->now) : RPC_CONTEXT_READY;

	if (state != RPC_CONTEXT_WAITS)
		rpc->context_awaited = 0;
	else if (!rpc->context_awaited)
		rpc->context_awaited = rpc->clock->now;
	if (state == RPC_CONTEXT_ASKS)
		send_setup(rpc, &rpc->context);
	if (state == RPC_CONTEXT_FAILED)
		fail_context(rpc, EACCES, context->error(rpc->credentials));
	return state == RPC_CONTEXT_READY;
}

/* True where I/O may go out. */
static bool prepare(struct rpc_client *rpc)
{
	const struct protocol *protocol = rpc->protocol;
	struct rpc_request *request;

	if (!rpc->setup && rpc->setup_at <= rpc->clock->now && !rpc->setup_error &&
	    has_context(rpc)) {
		switch (protocol->prepare ? protocol->prepare(rpc, &request) : PREPARED) {
		case PREPARED:
			rpc->prepared = true;
			rpc->setup_refusals = 0;
			outages_up(&rpc->counters->outages, rpc->clock->now, rpc->outstanding);
			break;
		case PREPARE_ASK: send_setup(rpc, request); break;
		case PREPARE_WAIT: break;
		}
	}
	return rpc->prepared;
}

/*
 * Returns the next call, with xid and slot; NULL: no slot is free. A call that has lost its slot
 * and finds none free moves to the end of the list: calls behind it may hold all slots.
 */
static struct call *take_waiting(struct rpc_client *rpc)
{
	struct call *call;
	bool behind = true;

	while (behind && (call = TAILQ_FIRST(&rpc->waiting))) {
		bool had_number = call->tries;

		if (give_number(rpc, call)) {
			TAILQ_REMOVE(&rpc->waiting, call, link);
			return call;
		}
		behind = had_number && rpc->prepared;
		if (behind) {
			TAILQ_REMOVE(&rpc->waiting, call, link);
			TAILQ_INSERT_TAIL(&rpc->waiting, call, link);
		}
	}
	return NULL;
}

/* Queues as many calls as the channel takes; false: none. */
static bool queue_waiting(struct rpc_client *rpc)
{
	const struct rpc_context_ops *context = rpc->credentials->flavor->context;
	struct link *link = &rpc->link;
	struct xdr_out head;
	struct call *call;
	bool took = false;

	if (!rpc->prepared && !prepare(rpc))
		return false;
	while (!TAILQ_EMPTY(&rpc->waiting) && has_room(rpc, context) &&
	       link->ops->begin(link->channel, &head) && (call = take_waiting(rpc))) {
		if (encode_and_queue(rpc, call, &head))
			TAILQ_INSERT_TAIL(&rpc->sent, call, link);
		else
			call_finish(rpc, call, false, EIO);
		took = true;
	}
	return took;
}

/* -ECONNABORTED also if the channel takes no more calls, and all its calls are answered. */
static int flush(struct rpc_client *rpc)
{
	const struct rpc_flavor *flavor = rpc->credentials->flavor;
	const struct link *link = &rpc->link;
	int error;

	if (flavor->wrap_end && !flavor->wrap_end(rpc->credentials))
		return -EIO;
	error = link->ops->flush(link->channel);
	if (!error && link->ops->spent && TAILQ_EMPTY(&rpc->sent) && !rpc->setup &&
	    link->ops->spent(link->channel))
		return -ECONNABORTED;
	return error;
}

void client_send(struct rpc_client *rpc)
{
	struct link *link = &rpc->link;
	bool moved;

	if (!link->up)
		return;
	rpc->unflushed = 0;
	do {
		uint64_t sent = link->ops->sent(link->channel);
		int error;

		moved = queue_waiting(rpc);
		error = rpc->setup_error ?: flush(rpc);
		if (error) {
			client_lose(rpc, error);
			return;
		}
		moved = moved || link->ops->sent(link->channel) != sent;
		/* After a send there is room for more calls, unless the transport is full. */
	} while (moved && !TAILQ_EMPTY(&rpc->waiting) &&
		 !(link->ops->poll_events(link->channel) & POLLOUT));
}

/*
 * A send costs the client as much as receiving 64 KiB. So while a reply is partly received, new
 * calls are coalesced: up to a quarter of the outstanding I/Os, or an eighth if the server has
 * waited for this client (starved). client_tick() bounds the wait if the reply stalls.
 */
void client_flush(struct rpc_client *rpc)
{
	const struct link *link = &rpc->link;

	if (link->up && (link->channel->starved ? 8 : 4) * rpc->unflushed < rpc->outstanding &&
	    link->ops->receiving(link->channel))
		return;
	client_send(rpc);
}

/* Waits for the answer: closing before it arrives would reset the connection. */
void client_take_leave(struct rpc_client *rpc)
{
	static const uint64_t RECENT = SEC;
	const struct rpc_context_ops *context = rpc->credentials->flavor->context;
	const struct protocol *protocol = rpc->protocol;
	struct link *link = &rpc->link;
	const struct rpc_payload none = {0};
	struct rpc_call_header call = {
		.program = protocol->program,
		.version = protocol->version,
	};
	struct xdr_out head;

	if (!context || !link->up || !TAILQ_EMPTY(&rpc->sent) ||
	    clock_read(rpc->clock) - rpc->heard > RECENT || !link->ops->begin(link->channel, &head))
		return;
	call.xid = call_new_xid(&rpc->calls, rpc->calls.calls);
	if (context->put_farewell(rpc->credentials, &head, &call)) {
		link->ops->queue(link->channel, call.xid, &head, &none);
		if (!link->ops->flush(link->channel))
			link->ops->receive(link->channel, true);
	}
}

void client_probe(struct rpc_client *rpc)
{
	struct link *link = &rpc->link;
	struct xdr_out head;

	client_drop_probe(rpc);
	rpc->probed = true;
	rpc->heard = rpc->clock->now; /* restart the silence timer */
	rpc->acknowledged = link->ops->acknowledged(link->channel);
	if (!link->ops->begin(link->channel, &head))
		return;
	rpc->probe = call_take(&rpc->calls, rpc);
	if (give_number(rpc, rpc->probe))
		encode_and_queue(rpc, rpc->probe, &head);
	client_send(rpc);
}
