/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reply.c - a reply is read: whose it is, whether to believe it, what it says. Once it is complete,
 * what it moved is entered, and what it means for its call is done.
 */
#include <errno.h>

#include "client/internal.h"
#include "client/timers.h"

/* Contexts that one call may cost, while others are served by each of them. */
enum { DENIALS_MAX = 8 };

/* --- its head --- */

static enum disposition fail_by_verdict(struct client_reply *reply)
{
	reply->result.error = rpc_verdict_errno(&reply->header);
	return CALL_FAIL;
}

/*
 * The server has not looked at the call, since it does not know its context, or not any more: it
 * goes out again by another one. Where that would be in vain, the call fails.
 */
static enum disposition judge_denial(const struct rpc_client *rpc, struct client_reply *reply,
				     uint32_t auth_stat)
{
	struct rpc_credentials *credentials = rpc->credentials;
	const struct rpc_context_ops *context = credentials->flavor->context;
	const struct call *call = reply->call;

	if (!context || call_is_context(call) || call->denials == DENIALS_MAX ||
	    !context->denied(credentials, &call->stamp, auth_stat))
		return fail_by_verdict(reply);
	return CALL_AUTHENTICATE;
}

static enum disposition fail(struct client_reply *reply, int error, const char *fault)
{
	reply->result.error = error;
	reply->result.fault = fault;
	return CALL_FAIL;
}

static enum disposition judge_context(const struct rpc_client *rpc, struct xdr_in *in,
				      struct client_reply *reply)
{
	struct rpc_credentials *credentials = rpc->credentials;
	const struct rpc_context_ops *context = credentials->flavor->context;

	if (context->answered(credentials, &reply->header, in))
		return CALL_DONE;
	return fail(reply, EACCES, context->error(credentials));
}

static bool is_read(const struct call *call)
{
	return call->io && call->io->op == IO_READ;
}

/* Where the data belongs that a READ is to bring. */
static struct iovec place_of(const struct call *call)
{
	return (struct iovec){call->io->buffer + call->io->done, call_rest(call)};
}

static bool unwrap(struct rpc_credentials *credentials, const struct client_reply *reply,
		   struct xdr_in *in)
{
	const struct rpc_flavor *flavor = credentials->flavor;
	const struct rpc_stamp *stamp = &reply->call->stamp;
	struct iovec data;

	if (!reply->cut)
		return flavor->unwrap(credentials, stamp, in);
	data = place_of(reply->call);
	return flavor->unwrap_around(credentials, stamp, in, &data, reply->cut);
}

/* Bytes of data behind results that were read. */
static size_t data_behind(const struct client_reply *reply, const struct xdr_in *in)
{
	if (!reply->cut)
		return in->end - in->at;
	return in->at == in->end ? place_of(reply->call).iov_len : 0;
}

/* Results that are the server's: a flavor may have to unwrap them first, all of them at once. */
static enum disposition judge_results(const struct rpc_client *rpc, struct xdr_in *in,
				      struct client_reply *reply)
{
	struct rpc_credentials *credentials = rpc->credentials;
	const struct rpc_flavor *flavor = credentials->flavor;
	enum disposition disposition;

	reply->call->denials = 0;
	if (flavor->unwrap && !reply->result.whole) {
		in->bad = true;
		return CALL_FAIL;
	}
	if (flavor->unwrap && !unwrap(credentials, reply, in)) {
		in->bad = false; /* a length may have been changed */
		reply->unread = true;
		return fail(reply, EIO, "the reply's checksum is wrong: it was changed on its way");
	}
	disposition = rpc->protocol->decode(in, reply->call, &reply->result);
	/* Behind the results of a READ stands its data: no checksum is taken for that. */
	if (flavor->unwrap && is_read(reply->call) && reply->result.count > data_behind(reply, in))
		in->bad = true;
	return disposition;
}

static enum disposition judge_verdict(const struct rpc_client *rpc, struct xdr_in *in,
				      struct client_reply *reply)
{
	switch (reply->header.verdict) {
	case RPC_SUCCESS:
		return call_is_context(reply->call) ? judge_context(rpc, in, reply)
						    : judge_results(rpc, in, reply);
	case RPC_AUTH_ERROR: return judge_denial(rpc, reply, reply->header.auth_stat);
	default: return fail_by_verdict(reply);
	}
}

/* An accepted reply shows that it is the server's, also where it is an error (RFC 2203, 5.3.3.2),
 * unless it makes the context that it would be shown by. */
static enum rpc_belief believe(const struct rpc_client *rpc, const struct client_reply *reply)
{
	struct rpc_credentials *credentials = rpc->credentials;

	if (!rpc_is_accepted(&reply->header) || call_is_context(reply->call))
		return RPC_BELIEVED;
	return credentials->flavor->check(credentials, &reply->call->stamp,
					  &reply->header.verifier);
}

/*
 * nfs-ganesha looks at program, version and procedure before it looks at credentials, and answers
 * such an error without a verifier. A denial has none either, and is told by anybody as easily: the
 * error counts as one, and the server has its say when it is asked for another context.
 */
static bool is_before_credentials(const struct rpc_reply_header *header)
{
	return header->verdict >= RPC_PROG_UNAVAIL && header->verdict <= RPC_PROC_UNAVAIL &&
	       header->verifier.flavor == RPC_AUTH_NONE;
}

/*
 * What a reply means; in->bad: more bytes are needed for it, if there are any. False: it is not the
 * server's, and counts as if it had not come.
 */
static bool judge(const struct rpc_client *rpc, struct xdr_in *in, struct client_reply *reply)
{
	switch (believe(rpc, reply)) {
	case RPC_BELIEVED: reply->disposition = judge_verdict(rpc, in, reply); return true;
	case RPC_REFUSED:
		reply->disposition =
			fail(reply, EACCES, "the reply's verifier is not one of the calls' flavor");
		return true;
	default:
		if (!is_before_credentials(&reply->header))
			return false;
		reply->disposition = judge_denial(rpc, reply, RPC_CREDENTIAL_PROBLEM);
		return true;
	}
}

/* It is for a call that is known, and has come in full: only that call fails. */
static void judge_too_short(struct client_reply *reply)
{
	const char *status = reply->result.status;

	reply->disposition = CALL_FAIL;
	reply->result = (struct call_result){
		.error = EPROTO,
		.status = status,
		.fault = "the reply is too short",
	};
}

/*
 * A server cannot answer what it has not got; after a retransmission it may have the first copy,
 * and the channel is to go before the second one, whose buffer is free from now on, leaves.
 */
static int check_order(const struct rpc_client *rpc, struct client_reply *reply)
{
	const struct link *link = &rpc->link;

	if (link->ops->sent(link->channel) >= reply->call->position)
		return 0;
	if (reply->call->tries == 1)
		return -EPROTO;
	reply->premature = true;
	return 0;
}

/*
 * The reply is to be unwrapped, and is not there yet. One that brings all that a READ asks for is
 * known by its length, and where in it the data begins: that is received where it belongs, and
 * judged with the rest. Any other one is taken as it comes. Returns what client_reply_begins()
 * does.
 */
static int begin_in_place(const struct rpc_client *rpc, const struct rpc_reply *message,
			  const uint8_t *results, struct rpc_bulk *bulk)
{
	struct rpc_credentials *credentials = rpc->credentials;
	const struct xdr_in in = {results, message->message + message->have, false};
	uint32_t header = results - message->message, head = rpc->protocol->read_head, lead;
	struct call *call = rpc->reply.call;
	struct iovec data;

	if (!credentials->flavor->lead || !message->length || !is_read(call))
		return 0;
	data = place_of(call);
	lead = credentials->flavor->lead(credentials, &call->stamp, in, message->length - header,
					 head + data.iov_len + xdr_pad(data.iov_len));
	if (!lead || header + lead + head > message->have)
		return 0;
	*bulk = (struct rpc_bulk){data.iov_base, data.iov_len, call, true};
	return (int)(header + lead + head);
}

int client_reply_begins(void *context, const struct rpc_reply *message, struct rpc_bulk *bulk)
{
	struct rpc_client *rpc = context;
	struct client_reply *reply = &rpc->reply;
	struct xdr_in in = {message->message, message->message + message->have, false};
	int error;

	rpc_decode_reply(&in, &reply->header);
	if (in.bad && message->have < sizeof(uint32_t))
		return 0;
	reply->call = call_find(&rpc->calls, rpc, reply->header.xid);
	if (!reply->call) {
		rpc->counters->stale_replies++;
		return (int)message->have;
	}
	if (in.bad)
		return 0;
	reply->result = (struct call_result){.whole = message->whole};
	reply->unread = false;
	reply->cut = message->cut ? message->message + message->cut : NULL;
	if (!judge(rpc, &in, reply)) {
		reply->call = NULL;
		rpc->counters->stale_replies++;
		return (int)message->have;
	}
	if (in.bad && !message->whole)
		return begin_in_place(rpc, message, in.at, bulk);
	if (in.bad)
		judge_too_short(reply);
	if (reply->header.verdict == RPC_NOT_A_REPLY)
		return -EPROTO;
	error = check_order(rpc, reply);
	if (error)
		return error;
	bulk->token = reply->call;
	if (is_read(reply->call)) {
		bulk->to = place_of(reply->call).iov_base;
		bulk->length = reply->result.count;
	}
	return (int)(in.at - message->message);
}

/* --- it is complete --- */

/* A request's owner tells, and has the words for that; of a renewal nobody asks. */
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

/* Tells why an I/O is to fail. */
static void explain_io(struct rpc_client *rpc, const struct call *call)
{
	if (rpc->reply.header.verdict == RPC_SUCCESS)
		rpc->log->failed(rpc, call);
	else
		rpc->log->rpc_error(rpc, call);
	call->io->status = rpc->reply.result.status;
}

/* Enters what a call has moved, or made durable. */
static void enter(struct rpc_client *rpc, struct conn_io *io, const struct call_result *result)
{
	struct counters *counters = rpc->counters;

	switch (io->op) {
	case IO_READ:
		counters->read_ops++;
		counters->read_bytes += result->count;
		break;
	case IO_WRITE:
		counters->write_ops++;
		counters->write_bytes += result->count;
		rpc->events->wrote(rpc, io, result->count, result->durable, result->verifier);
		break;
	case IO_COMMIT:
		counters->commits++;
		rpc->events->committed(rpc, io, result->verifier);
		break;
	case IO_META:
		if (result->lookup)
			counters->lookups++;
		else if (rpc->reply.disposition == CALL_DONE) /* a listing takes several */
			counters->meta_ops++;
		break;
	}
	io->done += result->count;
}

static void delay(struct rpc_client *rpc, struct call *call)
{
	uint64_t wait = timer_delay(call->delays);

	if (++call->delays == DELAYS_QUIET)
		rpc->log->delayed(rpc, call);
	call->resume_at = rpc->clock->now + wait;
	TAILQ_INSERT_TAIL(&rpc->delayed, call, link);
}

/*
 * A delayed call goes out again by another xid, as its own has been answered; what the protocol
 * numbers it by stays, as the server is at the first copy. Its time runs from when it may go out.
 */
static void repeat(struct rpc_client *rpc, struct call *call)
{
	call_note_sent(call);
	call_release_stamp(call);
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

/* Its only copy was not carried out: it is as one that was never sent. */
static void unsend(struct rpc_client *rpc, struct call *call)
{
	if (rpc->protocol->denied)
		rpc->protocol->denied(call);
	call_renew(call, true);
}

/*
 * The server knows the call's context no more, and has not carried this copy out: it goes out again
 * once another context is made, with its xid where an earlier copy may have been carried out. It
 * goes first: the others may wait for the slot that it keeps.
 */
static void authenticate(struct rpc_client *rpc, struct call *call)
{
	if (call->tries == 1)
		unsend(rpc, call);
	call_release_stamp(call);
	call->denials++;
	call->last_sent = 0;
	TAILQ_INSERT_HEAD(&rpc->waiting, call, link);
	rpc->prepared = false;
}

static void explain_setup(struct rpc_client *rpc, const struct call *call)
{
	if (rpc->reply.header.verdict != RPC_SUCCESS) {
		rpc->log->rpc_error(rpc, call);
		return;
	}
	explain_request(rpc, call);
	rpc->log->unprepared(rpc, call, rpc->reply.result.error);
}

/* The answer to what prepare() has asked. What the protocol can bear counts as done. */
static void setup_answered(struct rpc_client *rpc, struct call *call)
{
	struct client_reply *reply = &rpc->reply;
	struct rpc_request *request = call->request;

	switch (reply->disposition) {
	case CALL_DONE: request->done = true; break;
	case CALL_PARTIAL:
	case CALL_AUTHENTICATE:
	case CALL_RETRY_NOW: break;
	case CALL_RETRY_SAME_SLOT:
	case CALL_BACKOFF: rpc->setup_at = rpc->clock->now + DELAY_FIRST; break;
	case CALL_RECOVER:
		recover(rpc, call);
		rpc->setup_at = rpc->clock->now + DELAY_FIRST;
		break;
	case CALL_FAIL: explain_setup(rpc, call); rpc->setup_error = -reply->result.error;
	}
	client_drop_setup(rpc, !reply->unread);
}

static void answered(struct rpc_client *rpc, struct call *call)
{
	struct client_reply *reply = &rpc->reply;

	if (reply->disposition == CALL_FAIL && call->io)
		explain_io(rpc, call);
	else if (reply->disposition == CALL_FAIL)
		explain_request(rpc, call);
	if (call->io && (reply->disposition <= CALL_PARTIAL || reply->result.count))
		enter(rpc, call->io, &reply->result);
	switch (reply->disposition) {
	case CALL_DONE: call_finish(call, true, 0); break;
	case CALL_PARTIAL:
	case CALL_RETRY_NOW:
		call_renew(call, true);
		TAILQ_INSERT_TAIL(&rpc->waiting, call, link);
		break;
	case CALL_RECOVER:
		recover(rpc, call); /* and then */
	/* fall through */
	case CALL_BACKOFF:
		call_renew(call, true);
		delay(rpc, call);
		break;
	case CALL_RETRY_SAME_SLOT:
		delay(rpc, call);
		repeat(rpc, call);
		break;
	case CALL_AUTHENTICATE: authenticate(rpc, call); break;
	case CALL_FAIL: call_finish(call, !reply->unread, reply->result.error); break;
	}
}

/* The server is there. */
static void mark_alive(struct rpc_client *rpc)
{
	bool news = rpc->probed || !rpc->answered;

	rpc->heard = rpc->clock->now;
	rpc->probed = false;
	rpc->answered = true;
	if (news)
		rpc->events->health_changed(rpc);
	if (rpc->prepared) /* a server that refuses what comes before I/O is given its time */
		link_answered(&rpc->link);
}

void client_reply_finished(void *context, void *token)
{
	struct rpc_client *rpc = context;
	struct call *call = token;

	if (!rpc->clock->now)
		clock_read(rpc->clock);
	rpc->reply.call = NULL;
	if (call == rpc->probe && rpc->reply.disposition != CALL_DONE)
		return; /* somebody is there, but does not serve NFS: it counts as not answered */
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
	histogram_add(&rpc->latency->rtt, rpc->heard - call->last_sent);
	TAILQ_REMOVE(&rpc->sent, call, link);
	answered(rpc, call);
}

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
	call_finish(call, false, error); /* it may have been carried out: its number is in doubt */
}
