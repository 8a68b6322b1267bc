/* SPDX-License-Identifier: GPL-2.0-only */
/* reply.c - receives replies, finds their calls, verifies them, and judges their results. */
#include "client/client.h"

/* How many contexts in a row may be denied to one call before it fails. The calls of session set-up
 * need no such limit: the credentials' own ends one that is denied without answers in between. */
enum { DENIALS_MAX = 8 };

void client_receive(struct rpc_client *rpc, bool wait)
{
	const struct transport_counters *transport = rpc->link.terms.counters;
	uint64_t received = transport->bytes_received;
	int error;

	rpc->clock->now = 0; /* read again by the first reply */
	error = rpc->link.ops->receive(rpc->link.channel, wait);
	if (!rpc->clock->now)
		clock_read(rpc->clock);
	if (transport->bytes_received != received)
		rpc->heard = rpc->clock->now; /* also in the middle of a long reply */
	if (!error && rpc->reply.premature)
		error = -ECANCELED;
	error = error ?: rpc->setup_error;
	if (error)
		client_lose(rpc, error);
	else if (!rpc->prepared)
		client_send(rpc);
	else if (!TAILQ_EMPTY(&rpc->waiting) ||
		 rpc->link.ops->poll_events(rpc->link.channel) & POLLOUT)
		client_flush(rpc);
}

/*
 * The server denied the call's context, and did not carry out the call. Sends the call again with
 * another context, or fails it where that would not help.
 */
static enum disposition judge_denial(const struct rpc_client *rpc, struct client_reply *reply,
				     uint32_t auth_stat)
{
	struct rpc_credentials *credentials = rpc->credentials;
	const struct rpc_context_ops *context = credentials->flavor->context;
	const struct call *call = reply->call;

	if (!context || call_is_context(call) || call->denials == DENIALS_MAX ||
	    !context->denied(credentials, &call->stamp, auth_stat))
		return call_fail(&reply->result, rpc_verdict_errno(&reply->header), NULL);
	return CALL_AUTHENTICATE;
}

static bool is_read(const struct call *call)
{
	return call->io && call->io->op == IO_READ;
}

/* Where a READ's data belongs. */
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

/* Bytes of data behind the results. */
static size_t data_behind(const struct client_reply *reply, const struct xdr_in *in)
{
	if (!reply->cut)
		return in->end - in->at;
	return in->at == in->end ? place_of(reply->call).iov_len : 0;
}

/* Judges the results of an authentic reply; some flavors first unwrap the complete reply. */
static enum disposition judge_results(const struct rpc_client *rpc, struct xdr_in *in,
				      struct client_reply *reply)
{
	struct rpc_credentials *credentials = rpc->credentials;
	const struct rpc_flavor *flavor = credentials->flavor;
	enum disposition disposition;

	reply->call->denials = 0;
	if (flavor->unwrap && !reply->result.whole) {
		in->bad = XDR_SHORT;
		return CALL_FAIL;
	}
	if (flavor->unwrap && !unwrap(credentials, reply, in)) {
		in->bad = XDR_SOUND; /* the reply is complete: a length in it may be wrong */
		reply->unread = true;
		return call_fail(&reply->result, EIO,
				 "the reply's checksum is wrong: it was changed on its way");
	}
	disposition = rpc->protocol->decode(in, reply->call, &reply->result);
	if (in->bad == XDR_WRONG) {
		in->bad = XDR_SOUND;
		return call_fail(&reply->result, EPROTO,
				 "the reply contradicts the call or itself");
	}
	/* All data must be there, since the checksum behind it must not be taken for data. */
	if (flavor->unwrap && is_read(reply->call) && reply->result.count > data_behind(reply, in))
		in->bad = XDR_SHORT;
	return disposition;
}

static enum disposition judge_verdict(const struct rpc_client *rpc, struct xdr_in *in,
				      struct client_reply *reply)
{
	struct rpc_credentials *credentials = rpc->credentials;
	const struct rpc_context_ops *context = credentials->flavor->context;

	switch (reply->header.verdict) {
	case RPC_SUCCESS:
		if (!call_is_context(reply->call))
			return judge_results(rpc, in, reply);
		if (context->answered(credentials, &reply->header, in))
			return CALL_DONE;
		return call_fail(&reply->result, EACCES, context->error(credentials));
	case RPC_AUTH_ERROR: return judge_denial(rpc, reply, reply->header.auth_stat);
	default: return call_fail(&reply->result, rpc_verdict_errno(&reply->header), NULL);
	}
}

/* Checks the verifier of an accepted reply, even of an error (RFC 2203, 5.3.3.2); not of the reply
 * that makes the context. */
static enum rpc_belief believe(const struct rpc_client *rpc, const struct client_reply *reply)
{
	struct rpc_credentials *credentials = rpc->credentials;

	if (!rpc_is_accepted(&reply->header) || call_is_context(reply->call))
		return RPC_BELIEVED;
	return credentials->flavor->check(credentials, &reply->call->stamp,
					  &reply->header.verifier);
}

static bool is_unverified_error(const struct rpc_reply_header *header)
{
	return header->verdict != RPC_SUCCESS && header->verifier.flavor == RPC_AUTH_NONE;
}

/*
 * Judges a reply; in->bad: more bytes are needed. False: the reply is not the server's: ignore it.
 *
 * nfs-ganesha checks program, version and procedure before credentials, and sends these errors
 * without a verifier. An error without a verifier may be forged, but so may a denial, which never
 * has one: so judge() treats these errors as denials, and asks for another context.
 */
static bool judge(const struct rpc_client *rpc, struct xdr_in *in, struct client_reply *reply)
{
	const struct rpc_reply_header *header = &reply->header;

	switch (believe(rpc, reply)) {
	case RPC_BELIEVED: reply->disposition = judge_verdict(rpc, in, reply); return true;
	case RPC_REFUSED:
		reply->disposition = call_fail(&reply->result, EACCES,
					       "the reply's verifier is of another flavor");
		return true;
	default:
		if (!is_unverified_error(header) || header->verdict < RPC_PROG_UNAVAIL ||
		    header->verdict > RPC_PROC_UNAVAIL)
			return false;
		reply->disposition = judge_denial(rpc, reply, RPC_CREDENTIAL_PROBLEM);
		return true;
	}
}

/* A whole reply to a known call is too short: only that call fails. */
static void judge_too_short(struct client_reply *reply)
{
	reply->result = (struct call_result){.status = reply->result.status};
	reply->disposition = call_fail(&reply->result, EPROTO, "the reply is too short");
}

/*
 * Refuses a reply to a call not sent yet. If an earlier copy was sent, the reply is to that copy,
 * and ends the call: the channel closes before it sends the second copy from a freed buffer.
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
 * Called when more bytes are needed. If the reply must be unwrapped, lead() recognizes a complete
 * READ by the reply's length: the data is received into place, and then judged with the rest. Any
 * other such reply is received whole. Returns what client_reply_begins() does.
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

/* Counts and drops a reply that answers no outstanding call, or is not the server's. */
static int ignore(struct rpc_client *rpc, const struct rpc_reply *message)
{
	rpc->reply.call = NULL;
	rpc->counters->stale_replies++;
	return (int)message->have;
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
	if (!reply->call)
		return ignore(rpc, message);
	if (in.bad)
		return 0;
	reply->result = (struct call_result){.whole = message->whole};
	reply->unread = false;
	reply->cut = message->cut ? message->message + message->cut : NULL;
	if (!judge(rpc, &in, reply)) {
		if (is_unverified_error(&reply->header))
			rpc->log->unverified(rpc, reply->call);
		return ignore(rpc, message);
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
		bool dropped = reply->call->io->unwanted && rpc->link.ops->traits & RPC_DROPS_DATA;

		bulk->to = dropped ? NULL : place_of(reply->call).iov_base;
		bulk->length = reply->result.count;
	}
	return (int)(in.at - message->message);
}
