/* SPDX-License-Identifier: GPL-2.0-only */
/* session.c - a session's life: it is made, its channel connects, receives, ticks. */
#include "client/client.h"

#include <errno.h>
#include <poll.h>

#include "client/internal.h"
#include "wait.h"

int session_init(struct session *session, struct path *path, uint32_t calls)
{
	enum { OTHERS = 3 }; /* that ask for a sign of life, prepare a channel, or renew a lease */
	int error;

	*session = (struct session){
		.path = path,
		.protocol = path->protocol,
		.credentials = &path->credentials.base,
		.calls_max = calls,
	};
	error = call_table_init(&session->calls, calls + OTHERS);
	if (!error && path->protocol->attach)
		error = path->protocol->attach(session);
	if (error)
		session_free(session);
	return error;
}

void session_free(struct session *session)
{
	if (session->state)
		session->protocol->detach(session);
	call_table_free(&session->calls);
}

int session_open_channel(struct session_channel *channel, struct session *session,
			 const struct rpc_channel_ops *ops, struct rpc_terms *terms)
{
	channel->session = session;
	channel->handler = (struct rpc_handler){session_reply_begins, session_reply_finished,
						session_call_refused, channel};
	channel->notices.path = session->path;
	TAILQ_INIT(&channel->waiting);
	TAILQ_INIT(&channel->sent);
	TAILQ_INIT(&channel->delayed);
	terms->handler = &channel->handler;
	link_init(&channel->link, ops, terms);
	return link_open(&channel->link);
}

/* One step towards a connected channel; session_ready()'s results. */
static int connect_channel(struct session_channel *channel)
{
	struct conn *conn = &channel->conn;
	bool again = channel->link.was_up, came_up;
	int error;

	if (channel->session->path->unusable)
		return channel->link.up ? 0 : -EINPROGRESS;
	error = link_step(&channel->link, &came_up);
	conn->poll_epoch = channel->link.epoch;
	if (error || !came_up)
		return error;
	conn->job->now = clock_now();
	channel->setup_error = 0;
	if (again)
		conn->counters.reconnects++;
	if (conn->dead)
		channel_ask(channel); /* a connection is not an answer */
	else
		channel_send(channel);
	return 0;
}

static void receive(struct conn *conn, bool wait)
{
	struct session_channel *channel = channel_of(conn);
	uint64_t received = conn->transport.bytes_received;
	int error;

	conn->job->now = 0; /* read again by the first reply */
	error = channel->link.ops->receive(channel->link.channel, wait);
	if (!conn->job->now)
		conn->job->now = clock_now();
	if (conn->transport.bytes_received != received)
		channel->heard = conn->job->now; /* also within a long reply */
	if (!error && channel->reply.untimely)
		error = -ECANCELED;
	error = error ?: channel->setup_error;
	if (error)
		channel_lose(channel, error);
	else if (!channel->prepared)
		channel_send(channel);
	else if (!TAILQ_EMPTY(&channel->waiting) ||
		 channel->link.ops->poll_events(channel->link.channel) & POLLOUT)
		session_flush(conn);
}

/* True where what comes before I/O is not answered: nothing is sent again here. */
static bool unprepared_for_too_long(const struct session_channel *channel)
{
	return channel->setup && channel->conn.job->now - channel->setup->last_sent >
					 path_names_timeout(channel->session->path);
}

int session_ready(struct session_channel *channel)
{
	int error = connect_channel(channel);

	if (error || channel->prepared)
		return error;
	if (channel->link.up)
		receive(&channel->conn, false);
	if (!channel->link.up)
		return channel->setup_error ?: channel->lost;
	if (unprepared_for_too_long(channel)) {
		notice(&channel->notices, "the server does not answer what comes before I/O: "
					  "is it starting, or too busy?");
		channel->setup_error = -ETIMEDOUT;
		return -ETIMEDOUT;
	}
	return channel->prepared ? 0 : -EINPROGRESS;
}

void session_tick(struct conn *conn)
{
	struct session_channel *channel = channel_of(conn);
	uint64_t now = conn->job->now = clock_now();
	int error;

	if (!channel_watch(channel, now))
		return;
	error = connect_channel(channel);
	if (error && error != -EINPROGRESS)
		channel_lose(channel, error);
	if (!channel->prepared || !TAILQ_EMPTY(&channel->waiting))
		channel_send(channel);
}

/* A wait for I/O goes on with connecting meanwhile. */
static void await_link(struct session_channel *channel, bool wait)
{
	const struct link *link = &channel->link;
	struct pollfd poll_fd = {
		.fd = link->channel ? link->ops->poll_fd(link->channel) : -1,
		.events = POLLIN | POLLOUT,
	};

	if (wait)
		poll(&poll_fd, 1, WAIT_SLICE_MS);
	if (link->channel)
		session_tick(&channel->conn);
}

void session_reap(struct conn *conn, bool wait)
{
	struct session_channel *channel = channel_of(conn);

	if (channel->link.up)
		receive(conn, wait);
	else
		await_link(channel, wait);
}
