/* SPDX-License-Identifier: GPL-2.0-only */
#include "session/session.h"

#include <errno.h>
#include <poll.h>

#include "conn/durability.h"
#include "session/timers.h"
#include "util.h"
#include "wait.h"

enum {
	BROKEN_MAX = 3,	  /* channels in a row before I/O fails for what the server sends */
	DELAYS_QUIET = 6, /* times that a call is delayed before that is told: after 3 s */
};

static const struct path_config *config_of(const struct session_channel *channel)
{
	return &channel->session->path->config;
}

/* --- calls go out --- */

static void release(struct session *session, struct call *call, bool answered)
{
	if (session->protocol->release)
		session->protocol->release(session, call, answered);
}

/* The call has lost its number; what is to be done goes on with another. */
static void renew(struct session_channel *channel, struct call *call, bool answered)
{
	release(channel->session, call, answered);
	if (call->io && call->io->op == IO_COMMIT)
		durability_commit_undone(call->io);
	call->tries = 0;
	call->since = 0;
	call->last_sent = 0;
}

/* Gives a call its number, unless it goes out again: then it keeps it. False: none is free. */
static bool number(struct session_channel *channel, struct call *call)
{
	struct session *session = channel->session;

	if (call->tries && session->protocol->current && !session->protocol->current(session, call))
		renew(channel, call, false);
	if (call->tries) {
		channel->conn.counters.retransmissions++;
	} else {
		if (session->protocol->acquire && !session->protocol->acquire(session, call))
			return false;
		call->xid = call_new_xid(&session->calls, call);
		call->since = channel->conn.job->now;
		if (call->io && call->io->op == IO_COMMIT)
			durability_commit_begins(&channel->conn, call->io);
	}
	call->tries++;
	return true;
}

/* Encodes a call and queues it on the channel; false where its data cannot be moved. */
static bool queue(struct session_channel *channel, struct call *call, struct xdr_out *head)
{
	const struct session *session = channel->session;
	const struct rpc_flavor *flavor = session->credentials->flavor;
	const struct conn_io *io = call->io;
	struct rpc_payload data = {0};
	const uint8_t *arguments;

	if (io && io->op != IO_COMMIT)
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

static void drop_setup(struct session_channel *channel, bool answered)
{
	struct session *session = channel->session;
	struct call *call = channel->setup;

	if (!call)
		return;
	channel->setup = NULL;
	if (call->tries)
		release(session, call, answered);
	call_give_back(&session->calls, call);
}

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
	if (!number(channel, channel->setup) || !queue(channel, channel->setup, &head))
		drop_setup(channel, false);
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

static void finish(struct session_channel *channel, struct call *call, bool answered, int error);

/* Queues what the channel takes; false: it takes nothing. */
static bool queue_waiting(struct session_channel *channel)
{
	struct link *link = &channel->link;
	struct xdr_out head;
	struct call *call;
	bool took = false;

	if (!prepare(channel))
		return false;
	while ((call = TAILQ_FIRST(&channel->waiting)) && link->ops->begin(link->channel, &head) &&
	       number(channel, call)) {
		TAILQ_REMOVE(&channel->waiting, call, link);
		if (queue(channel, call, &head))
			TAILQ_INSERT_TAIL(&channel->sent, call, link);
		else
			finish(channel, call, false, EIO);
		took = true;
	}
	return took;
}

static void lose(struct session_channel *channel, int error);

static void send_waiting(struct session_channel *channel)
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
			lose(channel, error);
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
		send_waiting(channel);
}

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

	*request = (struct request){0};
	call->request = request;
	TAILQ_INSERT_TAIL(&channel->waiting, call, link);
}

/* --- signs of life --- */

static void drop_probe(struct session_channel *channel)
{
	struct session *session = channel->session;

	if (channel->probe) {
		release(session, channel->probe, !channel->asked);
		call_give_back(&session->calls, channel->probe);
	}
	channel->probe = NULL;
	channel->asked = false;
}

/* Asks the server for a sign of life. What cannot be sent counts as not answered. */
static void ask(struct session_channel *channel)
{
	struct link *link = &channel->link;
	struct xdr_out head;

	drop_probe(channel);
	channel->asked = true;
	channel->heard = channel->conn.job->now; /* the silence begins anew */
	channel->acknowledged = link->ops->acknowledged(link->channel);
	if (!link->ops->begin(link->channel, &head))
		return;
	channel->probe = call_take(&channel->session->calls, channel);
	if (number(channel, channel->probe))
		queue(channel, channel->probe, &head);
	send_waiting(channel);
}

static uint64_t silence_max(const struct session_channel *channel)
{
	return timer_silence(config_of(channel), channel->conn.job->ask);
}

/* Long calls are no silence: a server that owes replies is asked before it is given up. */
static void ask_if_silent(struct session_channel *channel, uint64_t now)
{
	const struct call *oldest = channel->setup ?: TAILQ_FIRST(&channel->sent);

	if (channel->link.up && oldest && !channel->asked &&
	    now - max_of(channel->heard, oldest->last_sent) > silence_max(channel))
		ask(channel);
}

/*
 * A probe stands behind the data of WRITEs, or waits for room: while such data is acknowledged, and
 * the probe itself is not, the server has not been asked yet.
 */
static void note_progress(struct session_channel *channel, uint64_t now)
{
	const struct link *link = &channel->link;
	uint64_t acknowledged = link->ops->acknowledged(link->channel);

	if (acknowledged == channel->acknowledged)
		return;
	channel->acknowledged = acknowledged;
	if (!channel->probe)
		ask(channel);
	else if (acknowledged < channel->probe->position)
		channel->heard = now;
}

static bool unanswered(const struct session_channel *channel, uint64_t now)
{
	return channel->asked && now - channel->heard > silence_max(channel);
}

enum conn_health session_health(const struct conn *conn)
{
	const struct session_channel *channel = channel_of_const(conn);
	uint64_t now = conn->job->now;

	if (channel->hopeless || unanswered(channel, now) ||
	    link_down_for(&channel->link, now) > DOWN_MAX)
		return CONN_SILENT;
	return channel->answered ? CONN_ANSWERS : CONN_UNKNOWN;
}

/* --- replies come in --- */

static void finish_io(struct session_channel *channel, const struct call *call, int error)
{
	struct conn_io *io = call->io;

	if (error && io->op == IO_COMMIT) {
		if (!call->tries) /* nor will another be sent for what it was to cover */
			durability_commit_begins(&channel->conn, io);
		durability_commit_failed(&channel->conn, io);
	}
	io->error = error;
	conn_finish(&channel->conn, io);
}

/* What was asked for ends with 0 or a positive errno; the call stands in no list. */
static void finish(struct session_channel *channel, struct call *call, bool answered, int error)
{
	struct session *session = channel->session;

	if (call->tries)
		release(session, call, answered);
	if (call->io) {
		finish_io(channel, call, error);
	} else {
		call->request->error = error;
		call->request->done = true;
	}
	call_give_back(&session->calls, call);
}

static void delay(struct session_channel *channel, struct call *call)
{
	uint64_t wait = timer_delay(call->delays);

	if (++call->delays == DELAYS_QUIET)
		notice_delayed(&channel->notices, channel->session->protocol, call,
			       &channel->reply.result);
	call->resume_at = channel->conn.job->now + wait;
	TAILQ_INSERT_TAIL(&channel->delayed, call, link);
}

/* It has been answered, so that its xid is used up; what the protocol numbers it by is not. */
static void repeat(struct session_channel *channel, struct call *call)
{
	call->xid = call_new_xid(&channel->session->calls, call);
	call->since = channel->conn.job->now;
	call->last_sent = 0;
}

/* Tells why an I/O is to fail; of a request only whoever made it can tell. */
static void explain(struct session_channel *channel, const struct call *call)
{
	const struct session_reply *reply = &channel->reply;
	const struct protocol *protocol = channel->session->protocol;

	if (reply->header.verdict != RPC_SUCCESS)
		notice_rpc_error(&channel->notices, protocol, call, &reply->header);
	else if (call->io)
		notice_failed(&channel->notices, protocol, call, &reply->result);
	if (call->io) {
		call->io->status = reply->result.status;
	} else {
		call->request->status = reply->result.status;
		call->request->fault = reply->result.fault;
	}
}

/* Enters what a call has moved, or made durable. */
static void enter(struct session_channel *channel, struct conn_io *io,
		  const struct call_result *result)
{
	struct counters *counters = &channel->conn.counters;

	switch (io->op) {
	case IO_READ:
		counters->read_ops++;
		counters->read_bytes += result->count;
		break;
	case IO_WRITE:
		counters->write_ops++;
		counters->write_bytes += result->count;
		durability_wrote(&channel->conn, io, result->count, result->durable,
				 result->verifier);
		break;
	case IO_COMMIT:
		counters->commits++;
		durability_committed(&channel->conn, io, result->verifier);
		break;
	}
	io->done += result->count;
}

/* The server is there. */
static void note_sign(struct session_channel *channel)
{
	channel->heard = channel->conn.job->now;
	channel->asked = false;
	channel->answered = true;
	channel->conn.job->signs++;
	if (channel->conn.dead)
		channel->conn.job->health_changed = true;
	if (channel->prepared) /* a server that refuses what comes before I/O is given its time */
		link_answered(&channel->link);
}

/* Its data is complete: the credentials' flavor may find that it is not the server's. */
static void check_data(struct session_channel *channel, const struct call *call)
{
	const struct rpc_credentials *credentials = channel->session->credentials;
	const struct rpc_flavor *flavor = credentials->flavor;
	struct session_reply *reply = &channel->reply;
	const struct conn_io *io = call->io;

	if (!flavor->unwrap_data || !io || io->op != IO_READ || !reply->result.count ||
	    flavor->unwrap_data(credentials, call->xid, io->buffer + io->done, reply->result.count))
		return;
	reply->verdict = CALL_FAIL;
	reply->result = (struct call_result){.error = EBADMSG, .fault = "its data is forged"};
}

static void recover(struct session_channel *channel, const struct call *call)
{
	struct session *session = channel->session;

	session->protocol->recover(session, call, &channel->reply.result);
	channel->prepared = false;
}

/* The answer to what prepare() has asked. What the protocol can bear counts as done. */
static void setup_answered(struct session_channel *channel, struct call *call)
{
	struct session_reply *reply = &channel->reply;
	struct request *request = call->request;

	switch (reply->verdict) {
	case CALL_DONE: request->done = true; break;
	case CALL_REST:
	case CALL_AGAIN: break;
	case CALL_LATER:
	case CALL_DELAY: channel->setup_at = channel->conn.job->now + DELAY_FIRST; break;
	case CALL_RECOVER:
		recover(channel, call);
		channel->setup_at = channel->conn.job->now + DELAY_FIRST;
		break;
	case CALL_FAIL:
		explain(channel, call);
		notice_unprepared(&channel->notices, channel->session->protocol, call,
				  reply->result.error);
		channel->setup_error = -reply->result.error;
	}
	drop_setup(channel, true);
}

static void answered(struct session_channel *channel, struct call *call)
{
	struct session_reply *reply = &channel->reply;

	check_data(channel, call);
	if (reply->verdict == CALL_FAIL)
		explain(channel, call);
	if (call->io && (reply->verdict <= CALL_REST || reply->result.count))
		enter(channel, call->io, &reply->result);
	switch (reply->verdict) {
	case CALL_DONE: finish(channel, call, true, 0); break;
	case CALL_REST:
	case CALL_AGAIN:
		renew(channel, call, true);
		TAILQ_INSERT_TAIL(&channel->waiting, call, link);
		break;
	case CALL_RECOVER:
		recover(channel, call); /* and then */
	/* fall through */
	case CALL_DELAY:
		renew(channel, call, true);
		delay(channel, call);
		break;
	case CALL_LATER:
		repeat(channel, call);
		delay(channel, call);
		break;
	case CALL_FAIL: finish(channel, call, true, reply->result.error); break;
	}
}

/* rpc.h's finished(): the reply that session_reply_begins() saw is complete. */
static void on_finished(void *context, void *token)
{
	struct session_channel *channel = context;
	struct call *call = token;

	if (!channel->conn.job->now)
		channel->conn.job->now = clock_now();
	channel->reply.call = NULL;
	if (call == channel->probe && channel->reply.verdict != CALL_DONE)
		return; /* somebody is there, but does not serve NFS: it counts as not answered */
	note_sign(channel);
	if (call == channel->probe) {
		drop_probe(channel);
		return;
	}
	channel->broken = 0;
	channel->hopeless = false;
	if (channel->notices.in_trouble)
		notice_answered(&channel->notices);
	if (call == channel->setup) {
		setup_answered(channel, call);
		return;
	}
	counters_rtt(&channel->conn.counters, channel->heard - call->last_sent);
	TAILQ_REMOVE(&channel->sent, call, link);
	answered(channel, call);
}

/* rpc.h's refused(): the transport could not do what a call asks for. */
static void on_refused(void *context, uint32_t xid, int error, const char *why)
{
	struct session_channel *channel = context;
	struct call *call = call_find(&channel->session->calls, channel, xid);

	channel->reply.call = NULL;
	if (!call || call == channel->probe) /* a probe counts as not answered */
		return;
	if (call == channel->setup) {
		channel->setup_error = -error;
		return;
	}
	notice_refused(&channel->notices, channel->session->protocol, call, why);
	TAILQ_REMOVE(&channel->sent, call, link);
	finish(channel, call, true, error);
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
		lose(channel, error);
	else if (!channel->prepared)
		send_waiting(channel);
	else if (!TAILQ_EMPTY(&channel->waiting) ||
		 channel->link.ops->poll_events(channel->link.channel) & POLLOUT)
		session_flush(conn);
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

/* --- channels come and go --- */

void session_close_channel(struct session_channel *channel)
{
	link_close(&channel->link, channel->conn.outstanding || channel->asked || channel->setup ||
					   !TAILQ_EMPTY(&channel->sent));
	drop_probe(channel);
	drop_setup(channel, false);
	channel->prepared = false;
	channel->reply = (struct session_reply){0};
	channel->answered = false;
	channel->conn.poll_epoch = channel->link.epoch;
}

static void fail_list(struct session_channel *channel, struct call_list *list, int error)
{
	struct call *call;

	while ((call = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, call, link);
		finish(channel, call, false, error);
	}
}

void session_abort(struct conn *conn, int error)
{
	struct session_channel *channel = channel_of(conn);

	session_close_channel(channel);
	fail_list(channel, &channel->sent, error);
	fail_list(channel, &channel->waiting, error);
	fail_list(channel, &channel->delayed, error);
}

/* The server breaks the protocol again and again: others take over, or the I/O fails. */
static void give_up(struct session_channel *channel)
{
	notice(&channel->notices, "the server broke the protocol %u times running: giving up",
	       channel->broken);
	if (conn_may_retire(&channel->conn))
		channel->hopeless = channel->conn.job->health_changed = true;
	else
		session_abort(&channel->conn, EPROTO);
}

/* What was sent goes out first on the next channel, in its order. */
static void wait_again(struct session_channel *channel)
{
	struct call *call;

	TAILQ_FOREACH (call, &channel->sent, link)
		call->last_sent = 0;
	TAILQ_CONCAT(&channel->sent, &channel->waiting, link);
	TAILQ_CONCAT(&channel->waiting, &channel->sent, link);
}

/* The channel has failed: its calls wait for the next one. */
static void lose(struct session_channel *channel, int error)
{
	bool was_up = channel->link.up;

	session_close_channel(channel);
	wait_again(channel);
	link_retry_later(&channel->link);
	if (was_up && !channel->conn.dead && channel->conn.outstanding)
		notice_lost(&channel->notices, channel->conn.outstanding, error);
	if (link_broke_protocol(error) && ++channel->broken >= BROKEN_MAX)
		give_up(channel);
}

int session_connect(struct session_channel *channel)
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
		ask(channel); /* a connection is not an answer */
	else
		send_waiting(channel);
	return 0;
}

int session_ready(struct session_channel *channel)
{
	int error = session_connect(channel);

	if (error || channel->prepared)
		return error;
	if (channel->link.up)
		receive(&channel->conn, false);
	if (!channel->link.up)
		return channel->setup_error ?: -ECONNRESET;
	return channel->prepared ? 0 : -EINPROGRESS;
}

bool session_hand_over(struct conn *conn)
{
	struct session_channel *channel = channel_of(conn);
	struct call *call;

	notice_handed_over(&channel->notices);
	session_close_channel(channel);
	link_retry_later(&channel->link);
	channel->broken = 0;
	channel->hopeless = false;
	TAILQ_CONCAT(&channel->sent, &channel->delayed, link);
	TAILQ_CONCAT(&channel->sent, &channel->waiting, link);
	while ((call = TAILQ_FIRST(&channel->sent))) {
		struct conn_io *io = call->io;

		TAILQ_REMOVE(&channel->sent, call, link);
		if (!io) {
			finish(channel, call, false, ECANCELED);
			continue;
		}
		if (call->tries)
			renew(channel, call, false);
		call_give_back(&channel->session->calls, call);
		conn_requeue(conn, io);
	}
	return true;
}

/* --- what is due --- */

/* Where others take over, failover tells of it. */
static void say_silent(struct session_channel *channel)
{
	if (!conn_may_retire(&channel->conn))
		notice_silent(&channel->notices);
}

/* soft: what took longer than its retransmissions fails, and so may not be in a channel any more.
 */
static void enforce_soft(struct session_channel *channel, uint64_t now)
{
	const struct path_config *config = config_of(channel);
	struct call *call, *next;

	TAILQ_FOREACH (call, &channel->sent, link) {
		if (!timer_expired(call, config, now))
			continue;
		notice(&channel->notices,
		       "no answer within %.1f s (timeo %.1f s, retrans %u, soft)",
		       (double)timer_major(config) / SEC, (double)config->timeo / SEC,
		       config->retrans);
		lose(channel, -ETIMEDOUT);
		break;
	}
	for (call = TAILQ_FIRST(&channel->waiting); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (!call->since)
			call->since =
				now; /* not sent yet: its time runs from the first look at it */
		if (!timer_expired(call, config, now))
			continue;
		TAILQ_REMOVE(&channel->waiting, call, link);
		finish(channel, call, false, ETIMEDOUT);
	}
}

/*
 * True where the other host has sent nothing, not even an acknowledgement, for so long that it
 * cannot be reached. A server that is alive and does not read is not meant: its host answers.
 */
static bool cut_off(const struct session_channel *channel, uint64_t now)
{
	const struct link *link = &channel->link;

	return (channel->setup || !TAILQ_EMPTY(&channel->sent)) &&
	       now - channel->heard > UNHEARD_MAX &&
	       link->ops->unheard(link->channel) > UNHEARD_MAX;
}

/*
 * True where an overdue call calls for another connection: on a transport that delivers or breaks,
 * or after a major time-out (nfs(5), retrans). One that brings bytes is trusted: the server is at
 * work on something else. A protocol that sends once on a channel does not wait for so long.
 */
static bool wants_another(const struct session_channel *channel, const struct call *call,
			  uint64_t now)
{
	const struct path_config *config = config_of(channel);
	bool silent = channel->heard < call->last_sent;

	if (channel->link.ops->traits & RPC_SENDS_ONCE)
		return true;
	if (channel->session->protocol->sends_once)
		return silent || now - call->last_sent > timer_major(config);
	return silent && call->tries > config->retrans;
}

/* False where its way out, or its reply's way in, is not finished yet. */
static bool may_go_again(const struct session_channel *channel, const struct call *call)
{
	const struct link *link = &channel->link;

	return link->ops->traits & RPC_SENDS_ONCE ||
	       (call != channel->reply.call && link->ops->sent(link->channel) >= call->position);
}

static void retransmit(struct session_channel *channel, uint64_t now)
{
	struct call *call = channel->setup, *next;

	if (call && timer_overdue(call, config_of(channel), now)) {
		say_silent(channel);
		lose(channel, -ETIMEDOUT);
		return;
	}

	for (call = TAILQ_FIRST(&channel->sent); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (!timer_overdue(call, config_of(channel), now))
			continue;
		say_silent(channel);
		if (!may_go_again(channel, call))
			continue;
		if (wants_another(channel, call, now)) {
			lose(channel, -ETIMEDOUT);
			return;
		}
		if (channel->session->protocol->sends_once)
			continue;
		call->last_sent = 0; /* until it has gone out again a reply is dropped */
		TAILQ_REMOVE(&channel->sent, call, link);
		TAILQ_INSERT_TAIL(&channel->waiting, call, link);
	}
}

static void resume_delayed(struct session_channel *channel, uint64_t now)
{
	struct call *call, *next;

	for (call = TAILQ_FIRST(&channel->delayed); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (call->resume_at > now)
			continue;
		TAILQ_REMOVE(&channel->delayed, call, link);
		TAILQ_INSERT_TAIL(&channel->waiting, call, link);
	}
}

/* With `spare` others take over what is overdue, and tell of it. */
static void watch(struct session_channel *channel, uint64_t now, bool spare)
{
	struct conn *conn = &channel->conn;

	if (channel->asked)
		note_progress(channel, now);
	if (spare || conn->job->ask)
		ask_if_silent(channel, now);
	if (conn->dead && unanswered(channel, now))
		lose(channel, -ETIMEDOUT);
	if (spare)
		return;
	if (!conn->dead && conn->outstanding && link_down_for(&channel->link, now) > DOWN_MAX)
		notice_silent(&channel->notices);
	enforce_soft(channel, now);
}

void session_tick(struct conn *conn)
{
	struct session_channel *channel = channel_of(conn);
	uint64_t now = conn->job->now = clock_now();
	bool spare = conn_may_retire(conn);
	int error;

	watch(channel, now, spare);
	if (spare && session_health(conn) == CONN_SILENT)
		return; /* its I/O is about to be handed over: nothing of it goes out again */
	resume_delayed(channel, now);
	if (channel->session->protocol->tick)
		channel->session->protocol->tick(channel, now);
	if (channel->link.up && cut_off(channel, now)) {
		say_silent(channel);
		lose(channel, -ETIMEDOUT);
	}
	if (channel->link.up)
		retransmit(channel, now);
	error = session_connect(channel);
	if (error && error != -EINPROGRESS)
		lose(channel, error);
	if (!channel->prepared || !TAILQ_EMPTY(&channel->waiting))
		send_waiting(channel);
}

/* --- opening and closing --- */

int session_init(struct session *session, struct path *path, const struct protocol *protocol,
		 const struct rpc_credentials *credentials, uint32_t calls)
{
	enum { OTHERS = 3 }; /* that ask for a sign of life, prepare a channel, or renew a lease */
	int error;

	*session = (struct session){
		.path = path,
		.protocol = protocol,
		.credentials = credentials,
		.calls_max = calls,
	};
	error = call_table_init(&session->calls, calls + OTHERS);
	if (!error && protocol->attach)
		error = protocol->attach(session);
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
	channel->handler =
		(struct rpc_handler){session_reply_begins, on_finished, on_refused, channel};
	channel->notices.path = session->path;
	TAILQ_INIT(&channel->waiting);
	TAILQ_INIT(&channel->sent);
	TAILQ_INIT(&channel->delayed);
	terms->handler = &channel->handler;
	link_init(&channel->link, ops, terms);
	return link_open(&channel->link);
}
