/* SPDX-License-Identifier: GPL-2.0-only */
/* verdict.c - a reply is complete: what was moved is entered, and the verdict on it carried out. */
#include "group/durability.h"
#include "client/internal.h"
#include "client/timers.h"

/* Tells why an I/O is to fail; of a request only whoever made it can tell. */
static void explain(struct session_channel *channel, const struct call *call)
{
	const struct session_reply *reply = &channel->reply;

	if (reply->header.verdict != RPC_SUCCESS)
		notice_rpc_error(&channel->notices, call, &reply->header);
	else if (call->io)
		notice_failed(&channel->notices, call, &reply->result);
	if (call->io) {
		call->io->status = reply->result.status;
	} else {
		call->request->status = reply->result.status;
		call->request->fault = reply->result.fault;
	}
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
	case IO_META:
		if (result->lookup)
			counters->lookups++;
		else if (channel->reply.verdict == CALL_DONE) /* a listing takes several */
			counters->meta_ops++;
		break;
	}
	io->done += result->count;
}

static void delay(struct session_channel *channel, struct call *call)
{
	uint64_t wait = timer_delay(call->delays);

	if (++call->delays == DELAYS_QUIET)
		notice_delayed(&channel->notices, call, &channel->reply.result);
	call->resume_at = channel->conn.job->now + wait;
	TAILQ_INSERT_TAIL(&channel->delayed, call, link);
}

/*
 * A delayed call goes out again by another xid, as its own has been answered; what the protocol
 * numbers it by stays, as the server is at the first copy. Its time runs from when it may go out.
 */
static void repeat(struct session_channel *channel, struct call *call)
{
	call_note_sent(call);
	call->xid = call_new_xid(&channel->session->calls, call);
	call->tries = 1;
	call->since = call->resume_at;
	call->last_sent = 0;
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
		notice_unprepared(&channel->notices, call, reply->result.error);
		channel->setup_error = -reply->result.error;
	}
	channel_drop_setup(channel, true);
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
	case CALL_DONE: call_finish(call, true, 0); break;
	case CALL_REST:
	case CALL_AGAIN:
		call_renew(call, true);
		TAILQ_INSERT_TAIL(&channel->waiting, call, link);
		break;
	case CALL_RECOVER:
		recover(channel, call); /* and then */
	/* fall through */
	case CALL_DELAY:
		call_renew(call, true);
		delay(channel, call);
		break;
	case CALL_LATER:
		delay(channel, call);
		repeat(channel, call);
		break;
	case CALL_FAIL: call_finish(call, true, reply->result.error); break;
	}
}

/* The server is there. */
static void note_sign(struct session_channel *channel)
{
	channel->heard = channel->conn.job->now;
	channel->asked = false;
	channel->answered = true;
	if (channel->conn.dead)
		channel->conn.job->health_changed = true;
	if (channel->prepared) /* a server that refuses what comes before I/O is given its time */
		link_answered(&channel->link);
}

void session_reply_finished(void *context, void *token)
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
		channel_drop_probe(channel);
		return;
	}
	channel->broken = 0;
	channel->hopeless = false;
	if (channel->notices.in_trouble && channel->prepared)
		notice_answered(&channel->notices);
	if (call == channel->setup) {
		setup_answered(channel, call);
		return;
	}
	histogram_add(&channel->conn.latency.rtt, channel->heard - call->last_sent);
	TAILQ_REMOVE(&channel->sent, call, link);
	answered(channel, call);
}

void session_call_refused(void *context, uint32_t xid, int error, const char *why)
{
	struct session_channel *channel = context;
	struct call *call = call_find(&channel->session->calls, channel, xid);

	channel->reply.call = NULL;
	if (!call || call == channel->probe) /* a probe counts as not answered */
		return;
	notice_refused(&channel->notices, call, why);
	if (call == channel->setup) {
		channel->setup_error = -error;
		return;
	}
	TAILQ_REMOVE(&channel->sent, call, link);
	call_finish(call, false, error); /* it may have been carried out: its number is in doubt */
}
