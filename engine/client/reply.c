/* SPDX-License-Identifier: GPL-2.0-only */
/* reply.c - reads the head of a reply: whose it is, whether to believe it, what it says. */
#include <errno.h>

#include "client/internal.h"

static bool verifier_ok(const struct rpc_client *rpc, const struct rpc_reply_header *header,
			struct xdr_in *in)
{
	const struct rpc_credentials *credentials = rpc->credentials;
	const struct rpc_flavor *flavor = credentials->flavor;

	return flavor->check(credentials, header->xid, &header->verifier) &&
	       (!flavor->unwrap || flavor->unwrap(credentials, header->xid, in));
}

/* What a reply to `call` means; in->bad: more bytes are needed for it, if there are any. */
static void judge(const struct rpc_client *rpc, struct xdr_in *in, struct client_reply *reply,
		  bool whole)
{
	reply->result = (struct call_result){.whole = whole};
	reply->disposition = CALL_FAIL;
	if (reply->header.verdict != RPC_SUCCESS) {
		reply->result.error = rpc_verdict_errno(&reply->header);
	} else if (!verifier_ok(rpc, &reply->header, in)) {
		reply->result.error = EACCES;
		reply->result.fault = "the reply's verifier is not one of the calls' flavor";
	} else {
		reply->disposition = rpc->protocol->decode(in, reply->call, &reply->result);
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

int client_reply_begins(void *context, const struct rpc_reply *message, struct rpc_bulk *bulk)
{
	struct rpc_client *rpc = context;
	struct client_reply *reply = &rpc->reply;
	struct xdr_in in = {message->message, message->message + message->have, false};
	struct conn_io *io;
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
	judge(rpc, &in, reply, message->whole);
	if (in.bad && !message->whole)
		return 0;
	if (in.bad)
		judge_too_short(reply);
	if (reply->header.verdict == RPC_NOT_A_REPLY)
		return -EPROTO;
	error = check_order(rpc, reply);
	if (error)
		return error;
	bulk->token = reply->call;
	io = reply->call->io;
	if (io && io->op == IO_READ) {
		bulk->to = io->buffer + io->done;
		bulk->length = reply->result.count;
	}
	return (int)(in.at - message->message);
}
