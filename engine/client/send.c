/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * send.c - calls go out: I/O and requests, what the protocol asks before I/O, and what asks for a
 * sign of life.
 */
#include <errno.h>
#include <poll.h>

#include "client/internal.h"

void session_submit(struct conn *conn, struct conn_io *io)
{
	struct session_channel *channel = channel_of(conn);
	struct call *call = call_take(&channel->session->calls, channel);

	call->io = io;
	conn_began(conn, io);
	channel->unflushed++;
	TAILQ_INSERT_TAIL(&channel->waiting, call, link);
}

void session_request(struct session_channel *channel, struct request *request)
{
	struct call *call = call_take(&channel->session->calls, channel);

	*request = (struct request){.meta = request->meta};
	call->request = request;
	TAILQ_INSERT_TAIL(&channel->waiting, call, link);
}

/* Encodes a call and queues it on the channel; false where its data cannot be moved. */
static bool queue(struct session_channel *channel, struct call *call, struct xdr_out *head)
{
	const struct session *session = channel->session;
	const struct rpc_flavor *flavor = session->credentials->flavor;
	const struct conn_io *io = call->io;
	struct rpc_payload data = {0};
	const uint8_t *arguments;

	if (io && (io->op == IO_READ || io->op == IO_WRITE))
		data = (struct rpc_payload){
			.at = io->buffer + io->done,
			.length = call_rest(call),
			.incoming = io->op == IO_READ,
		};
	arguments = session->protocol->encode(head, call, session->credentials,
					      io ? session->path->files[io->file].state : NULL);
	if (flavor->wrap && !flavor->wrap(session->credentials, head, arguments, &data))
		return false;
	call->position = channel->link.ops->queue(channel->link.channel, call->xid, head, &data);
	call->last_sent = channel->conn.job->now;
	return call->position;
}

/* --- what comes before I/O --- */

/* Sends the protocol's next request, if there is room for it. */
static void send_setup(struct session_channel *channel, struct request *request)
{
	struct link *link = &channel->link;
	struct xdr_out head;

	if (!link->ops->begin(link->channel, &head))
		return;
	channel->setup = call_take(&channel->session->calls, channel);
	channel->setup->request = request;
	*request = (struct request){0};
	if (!call_number(channel->setup) || !queue(channel, channel->setup, &head))
		channel_drop_setup(channel, false);
}

/* True where I/O may go out. */
static bool prepare(struct session_channel *channel)
{
	const struct protocol *protocol = channel->session->protocol;
	struct request *request;

	if (!channel->prepared && !channel->setup && channel->setup_at <= channel->conn.job->now) {
		switch (protocol->prepare ? protocol->prepare(channel, &request) : PREPARED) {
		case PREPARED: channel->prepared = true; break;
		case PREPARE_ASK: send_setup(channel, request); break;
		case PREPARE_WAIT: break;
		}
	}
	return channel->prepared;
}

/* --- what waits --- */

/*
 * The next call, with its number; NULL: none is free. A call whose number means nothing any more,
 * and that finds no free one, goes behind those that have theirs: they may hold them all.
 */
static struct call *take_waiting(struct session_channel *channel)
{
	struct call *call;
	bool behind = true;

	while (behind && (call = TAILQ_FIRST(&channel->waiting))) {
		bool had_number = call->tries;

		if (call_number(call)) {
			TAILQ_REMOVE(&channel->waiting, call, link);
			return call;
		}
		behind = had_number && channel->prepared;
		if (behind) {
			TAILQ_REMOVE(&channel->waiting, call, link);
			TAILQ_INSERT_TAIL(&channel->waiting, call, link);
		}
	}
	return NULL;
}

/* Queues what the channel takes; false: it takes nothing. */
static bool queue_waiting(struct session_channel *channel)
{
	struct link *link = &channel->link;
	struct xdr_out head;
	struct call *call;
	bool took = false;

	if (!prepare(channel))
		return false;
	while (!TAILQ_EMPTY(&channel->waiting) && link->ops->begin(link->channel, &head) &&
	       (call = take_waiting(channel))) {
		if (queue(channel, call, &head))
			TAILQ_INSERT_TAIL(&channel->sent, call, link);
		else
			call_finish(call, false, EIO);
		took = true;
	}
	return took;
}

void channel_send(struct session_channel *channel)
{
	struct link *link = &channel->link;
	bool moved;

	if (!link->up)
		return;
	channel->unflushed = 0;
	do {
		uint64_t sent = link->ops->sent(link->channel);
		int error;

		moved = queue_waiting(channel);
		error = link->ops->flush(link->channel);
		if (error) {
			channel_lose(channel, error);
			return;
		}
		moved = moved || link->ops->sent(link->channel) != sent;
		/* Room again for the rest, unless the transport takes no more for now. */
	} while (moved && !TAILQ_EMPTY(&channel->waiting) &&
		 !(link->ops->poll_events(link->channel) & POLLOUT));
}

/*
 * A send costs the client as much as receiving 64 KiB. While a reply is still coming in, so that
 * there will soon be more to send, new calls are coalesced, up to a quarter of what the server has;
 * session_tick() bounds the wait where the reply stalls.
 */
static bool better_together(const struct session_channel *channel)
{
	enum { SHARE = 4 };
	const struct link *link = &channel->link;

	return link->up && SHARE * channel->unflushed < channel->conn.outstanding &&
	       link->ops->receiving(link->channel);
}

void session_flush(struct conn *conn)
{
	struct session_channel *channel = channel_of(conn);

	if (!better_together(channel))
		channel_send(channel);
}

/* --- a sign of life --- */

void channel_ask(struct session_channel *channel)
{
	struct link *link = &channel->link;
	struct xdr_out head;

	channel_drop_probe(channel);
	channel->asked = true;
	channel->heard = channel->conn.job->now; /* the silence begins anew */
	channel->acknowledged = link->ops->acknowledged(link->channel);
	if (!link->ops->begin(link->channel, &head))
		return;
	channel->probe = call_take(&channel->session->calls, channel);
	if (call_number(channel->probe))
		queue(channel, channel->probe, &head);
	channel_send(channel);
}
