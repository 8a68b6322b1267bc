/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * call.c - releases a call's xid and slot, ends the call, and acts on its complete reply; and what
 * the calls of a lost channel do: wait for the next one, fail, or move away.
 */
#include "client/client.h"

/* Tells the credentials that the call's stamp is no longer needed to verify a reply. */
static void release_stamp(struct rpc_client *rpc, struct call *call)
{
	struct rpc_credentials *credentials = rpc->credentials;
	const struct rpc_context_ops *context = credentials->flavor->context;

	if (context)
		context->release(credentials, &call->stamp);
}

static void release(struct rpc_client *rpc, struct call *call, bool answered)
{
	release_stamp(rpc, call);
	if (rpc->protocol->release && !call_is_context(call))
		rpc->protocol->release(rpc, call, answered);
}

/* `answered_for`: how many copies of the call the reply accounts for. */
static void note_resent(const struct call *call, uint32_t answered_for)
{
	if (call->request && call->tries > answered_for)
		call->request->resent = true;
}

void call_renew(struct rpc_client *rpc, struct call *call, bool answered)
{
	release(rpc, call, answered);
	note_resent(call, answered);
	if (call->io && call->io->op == IO_COMMIT)
		rpc->events->commit_undone(call->io);
	call->tries = 0;
	call->since = 0;
	call->last_sent = 0;
}

/* Releases xid and slot of a call that is in no list, and gives the call back. */
static void drop(struct rpc_client *rpc, struct call *call, bool answered)
{
	if (call->tries)
		release(rpc, call, answered);
	call_give_back(&rpc->calls, call);
}

void call_finish(struct rpc_client *rpc, struct call *call, bool answered, int error)
{
	struct conn_io *io = call->io;

	if (error && io && io->op == IO_COMMIT) {
		if (!call->tries) /* never sent: begin it, so that its failure counts */
			rpc->events->commit_begins(io);
		rpc->events->commit_failed(io);
	}
	if (io) {
		io->error = error;
		rpc->outstanding--;
		rpc->events->finished(io);
	} else {
		call->request->error = error;
		/* With slots a reply is for all copies of the call. */
		note_resent(call, answered && rpc->protocol->sends_once ? call->tries : answered);
		call->request->done = true;
	}
	drop(rpc, call, answered);
}

void client_drop_setup(struct rpc_client *rpc, bool answered)
{
	if (rpc->setup)
		drop(rpc, rpc->setup, answered);
	rpc->setup = NULL;
}

void client_drop_probe(struct rpc_client *rpc)
{
	if (rpc->probe)
		drop(rpc, rpc->probe, !rpc->probed);
	rpc->probe = NULL;
	rpc->probed = false;
}

/* Stores words for the request's owner to report; a lease renewal has no such owner. */
static void explain_request(struct rpc_client *rpc, const struct call *call)
{
	struct rpc_request *request = call->request;
	const struct call_result *result = &rpc->reply.result;

	request->status = result->status;
	request->fault = result->fault;
	if (rpc->reply.header.verdict == RPC_SUCCESS)
		return;
	if (request == rpc->renewal)
		rpc->log->rpc_error(rpc, call);
	rpc_verdict_text(&rpc->reply.header, rpc->protocol->version, rpc->refusal,
			 sizeof(rpc->refusal));
	request->fault = rpc->refusal;
}

/* Counts what a call has moved or made durable. */
static void enter(struct rpc_client *rpc, struct conn_io *io, const struct call_result *result)
{
	struct counters *counters = rpc->counters;

	if (counters->outages.awaited)
		outages_answered(&counters->outages, rpc->heard);
	switch (io->op) {
	case IO_READ:
		counters->read_ops++;
		counters->read_bytes += result->count;
		break;
	case IO_WRITE:
		counters->write_ops++;
		counters->write_bytes += result->count;
		rpc->events->wrote(io, result->count, result->durable, result->verifier);
		break;
	case IO_COMMIT:
		counters->commits++;
		rpc->events->committed(io, result->verifier);
		break;
	case IO_META:
		if (result->lookup)
			counters->lookups++;
		else if (rpc->reply.disposition == CALL_DONE) /* a listing is several calls */
			counters->meta_ops++;
		break;
	}
	io->done += result->count;
}

/* Delays a call, after *times earlier delays. Returns the time when it is sent again. */
static uint64_t put_off(struct rpc_client *rpc, const struct call *call, uint32_t *times,
			uint64_t wait_max)
{
	uint64_t until = rpc->clock->now + min_of(timer_delay(*times), wait_max);

	if (++*times == DELAYS_QUIET)
		rpc->log->delayed(rpc, call);
	snprintf(rpc->refusal_words, sizeof(rpc->refusal_words), "%s: %s",
		 rpc->protocol->operation(call), rpc->reply.result.status);
	rpc->put_off_until = until;
	if (client_reply_asks_to_wait(&rpc->reply))
		rpc->wait_asked_until = until;
	return until;
}

static void delay(struct rpc_client *rpc, struct call *call)
{
	call->resume_at = put_off(rpc, call, &call->delays, DELAY_LAST);
	TAILQ_INSERT_TAIL(&rpc->delayed, call, link);
}

/*
 * Sends a delayed call again with a new xid, since the old one was answered, but with its old slot,
 * since the server still works on the first copy. Its time-out begins when it may be sent.
 */
static void repeat(struct rpc_client *rpc, struct call *call)
{
	release_stamp(rpc, call);
	call->xid = call_new_xid(&rpc->calls, call);
	call->tries = 1;
	call->since = call->resume_at;
	call->last_sent = 0;
}

static void recover(struct rpc_client *rpc, const struct call *call)
{
	rpc->protocol->recover(rpc, call, &rpc->reply.result);
	rpc->prepared = false;
}

/*
 * The server has forgotten the call's context, and did not carry out this copy. Sends the call
 * again with another context: with the same xid if an earlier copy may have been carried out, else
 * as a new call; and before all other calls, which may wait for its slot.
 */
static void authenticate(struct rpc_client *rpc, struct call *call)
{
	if (call->tries == 1) {
		if (rpc->protocol->denied)
			rpc->protocol->denied(call);
		call_renew(rpc, call, true);
	}
	release_stamp(rpc, call);
	call->denials++;
	call->last_sent = 0;
	TAILQ_INSERT_HEAD(&rpc->waiting, call, link);
	rpc->prepared = false;
}

/* Takes the reply to prepare()'s request. Repeated refusals lengthen the pauses between tries. */
static void setup_answered(struct rpc_client *rpc, struct call *call)
{
	struct client_reply *reply = &rpc->reply;

	switch (reply->disposition) {
	case CALL_DONE:
		call->request->done = true;
		if (call->epoch) /* there is a session */
			rpc->setup_refusals = 0;
		break;
	case CALL_AUTHENTICATE: break; /* prepare() makes another context, and asks again */
	case CALL_RECOVER:
		recover(rpc, call); /* and then */
	/* fall through */
	case CALL_PARTIAL:
	case CALL_RETRY_NOW:
	case CALL_RETRY_SAME_SLOT:
	case CALL_RETRY_LATER:
	case CALL_BACKOFF:
		if (!rpc->setup_refusals)
			rpc->setup_since = rpc->clock->now;
		rpc->setup_at = put_off(rpc, call, &rpc->setup_refusals, SETUP_DELAY_LAST);
		break;
	case CALL_FAIL:
		rpc->setup_error = -reply->result.error;
		if (reply->header.verdict != RPC_SUCCESS) {
			rpc->log->rpc_error(rpc, call);
			break;
		}
		explain_request(rpc, call);
		rpc->log->unprepared(rpc, call, reply->result.error);
	}
	client_drop_setup(rpc, !reply->unread);
}

static void answered(struct rpc_client *rpc, struct call *call)
{
	struct client_reply *reply = &rpc->reply;

	if (reply->disposition == CALL_FAIL && call->io) {
		if (reply->header.verdict == RPC_SUCCESS)
			rpc->log->failed(rpc, call);
		else
			rpc->log->rpc_error(rpc, call);
		call->io->status = reply->result.status;
	} else if (reply->disposition == CALL_FAIL) {
		explain_request(rpc, call);
	}
	if (call->io && (reply->disposition <= CALL_PARTIAL || reply->result.count))
		enter(rpc, call->io, &reply->result);
	switch (reply->disposition) {
	case CALL_DONE: call_finish(rpc, call, true, 0); break;
	case CALL_PARTIAL:
	case CALL_RETRY_NOW:
		call_renew(rpc, call, true);
		TAILQ_INSERT_TAIL(&rpc->waiting, call, link);
		break;
	case CALL_RECOVER:
		recover(rpc, call); /* and then */
	/* fall through */
	case CALL_RETRY_LATER:
	case CALL_BACKOFF:
		/* The slot's reply is for all copies of the call: none was carried out. */
		if (reply->disposition == CALL_BACKOFF && call->slot_used)
			call->tries = 1;
		call_renew(rpc, call, true);
		delay(rpc, call);
		break;
	case CALL_RETRY_SAME_SLOT:
		delay(rpc, call);
		repeat(rpc, call);
		break;
	case CALL_AUTHENTICATE: authenticate(rpc, call); break;
	case CALL_FAIL: call_finish(rpc, call, !reply->unread, reply->result.error); break;
	}
}

static void mark_alive(struct rpc_client *rpc)
{
	bool news = rpc->probed || !rpc->answered;

	rpc->heard = rpc->clock->now;
	rpc->probed = false;
	rpc->answered = true;
	if (news)
		rpc->events->health_changed(rpc);
	if (rpc->prepared) /* refused session set-up does not reset the pauses between channels */
		rpc->link.retry_delay = 0;
}

/* Reads the clock once for all replies of one receive. */
static void take_time(struct rpc_client *rpc)
{
	struct timespec now;

	clock_read(rpc->clock);
	if (!rpc->latency->stamps)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	response_received(&rpc->latency->response, rpc->link.channel->stamp, nanoseconds_of(&now));
}

static void note_rtt(struct latency *latency, uint64_t rtt)
{
	histogram_add(&latency->rtt, rtt);
	if (latency->stamps)
		response_add(&latency->response, rtt);
}

void client_reply_finished(void *context, void *token)
{
	struct rpc_client *rpc = context;
	struct call *call = token;

	if (!rpc->clock->now)
		take_time(rpc);
	rpc->reply.call = NULL;
	if (call == rpc->probe && rpc->reply.disposition != CALL_DONE)
		return; /* not NFS's answer: the probe counts as unanswered */
	mark_alive(rpc);
	if (call == rpc->probe) {
		client_drop_probe(rpc);
		return;
	}
	rpc->broken = 0;
	rpc->protocol_broken = false;
	if (rpc->told.in_trouble && rpc->prepared)
		rpc->log->answered(rpc);
	if (call == rpc->setup) {
		setup_answered(rpc, call);
		return;
	}
	if (call->io)
		note_rtt(rpc->latency, rpc->heard - call->last_sent);
	TAILQ_REMOVE(&rpc->sent, call, link);
	answered(rpc, call);
}

/* The server may have carried the call out: the next sequence number of its slot is unknown. */
void client_call_refused(void *context, uint32_t xid, int error, const char *why)
{
	struct rpc_client *rpc = context;
	struct call *call = call_find(&rpc->calls, rpc, xid);

	rpc->reply.call = NULL;
	if (!call || call == rpc->probe) /* a probe counts as not answered */
		return;
	rpc->log->refused(rpc, call, why);
	if (call == rpc->setup) {
		rpc->setup_error = -error;
		return;
	}
	TAILQ_REMOVE(&rpc->sent, call, link);
	call_finish(rpc, call, false, error);
}

/* --- a lost channel --- */

/* Once bad messages have broken this many channels in a row, others take over or I/O fails. */
enum { BROKEN_MAX = 3 };

void client_close(struct rpc_client *rpc)
{
	link_close(&rpc->link,
		   rpc->outstanding || rpc->probed || rpc->setup || !TAILQ_EMPTY(&rpc->sent));
	client_drop_probe(rpc);
	client_drop_setup(rpc, false);
	if (rpc->credentials->flavor->context)
		rpc->credentials->flavor->context->lost(rpc->credentials);
	rpc->prepared = false;
	rpc->queued = rpc->context_awaited = 0;
	rpc->reply = (struct client_reply){0};
	rpc->answered = false;
}

void client_abort(struct rpc_client *rpc, int error)
{
	struct call *call;

	client_close(rpc);
	TAILQ_CONCAT(&rpc->sent, &rpc->waiting, link);
	TAILQ_CONCAT(&rpc->sent, &rpc->delayed, link);
	while ((call = TAILQ_FIRST(&rpc->sent))) {
		TAILQ_REMOVE(&rpc->sent, call, link);
		call_finish(rpc, call, false, error);
	}
}

/* Queues sent calls first, in their order, for the next channel. Resets their denials: a restarted
 * server has forgotten contexts. */
static void wait_again(struct rpc_client *rpc)
{
	struct call *call;

	TAILQ_CONCAT(&rpc->sent, &rpc->waiting, link);
	TAILQ_CONCAT(&rpc->waiting, &rpc->sent, link);
	TAILQ_FOREACH (call, &rpc->waiting, link) {
		call->last_sent = 0;
		call->denials = 0;
	}
}

void client_lose(struct rpc_client *rpc, int error)
{
	bool was_up = rpc->link.up;

	rpc->lost = error;
	client_close(rpc);
	if (was_up)
		outages_lost(&rpc->counters->outages, rpc->link.down_since);
	wait_again(rpc);
	if (rpc->timing->reconnect == RECONNECT_LINUX && rpc->link.was_up)
		rpc->link.connect_time =
			timer_linux_connect(rpc->protocol->lease ? rpc->protocol->lease(rpc) : 0);
	link_retry_later(&rpc->link, rpc->setup_error);
	if (rpc->outstanding && rpc->events->role(rpc) != CLIENT_REPLACED) {
		if (was_up)
			rpc->log->lost(rpc, rpc->outstanding, error);
		else if (*rpc->link.why)
			rpc->log->refused_again(rpc, error);
	}
	if (!link_broke_protocol(error) || ++rpc->broken < BROKEN_MAX)
		return;
	rpc->log->gave_up(rpc);
	if (client_is_replaceable(rpc)) {
		rpc->protocol_broken = true;
		rpc->events->health_changed(rpc);
	} else {
		client_abort(rpc, EPROTO);
	}
}

void client_hand_over(struct rpc_client *rpc)
{
	struct call *call;

	rpc->log->handed_over(rpc);
	client_close(rpc);
	link_retry_later(&rpc->link, false);
	rpc->broken = 0;
	rpc->protocol_broken = false;
	TAILQ_CONCAT(&rpc->sent, &rpc->delayed, link);
	TAILQ_CONCAT(&rpc->sent, &rpc->waiting, link);
	while ((call = TAILQ_FIRST(&rpc->sent))) {
		struct conn_io *io = call->io;

		TAILQ_REMOVE(&rpc->sent, call, link);
		if (!io) {
			call_finish(rpc, call, false, ECANCELED);
			continue;
		}
		if (call->tries)
			call_renew(rpc, call, false);
		call_give_back(&rpc->calls, call);
		rpc->outstanding--;
		rpc->events->given_back(io);
	}
}
