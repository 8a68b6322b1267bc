/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/rdma_session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "nfs/mount3.h"
#include "nfs/status.h"
#include "rpc/relay.h"
#include "util.h"

enum { SLICE_MS = 100 };

int rdma_session_fail(struct rdma_session *session, int error, const char *words)
{
	snprintf(session->base.error, sizeof(session->base.error), "%s", words);
	return error;
}

static int give_up(struct rdma_session *session, int error, const char *words)
{
	rpc_relay.close(session->channel);
	session->channel = NULL;
	return rdma_session_fail(session, error, words);
}

/* --- one call --- */

/* rpc.h's reply(), finished() and refused() */
static int on_reply(void *context, const struct rpc_reply *reply, struct rpc_bulk *bulk)
{
	struct rdma_session *session = context;
	struct xdr_in in = {reply->message, reply->message + reply->have, false};

	if (xdr_get_u32(&in) != session->xid || reply->have > sizeof(session->reply))
		return in.bad ? -EBADMSG : (int)reply->have;
	memcpy(session->reply, reply->message, reply->have);
	session->reply_length = reply->have;
	bulk->token = session;
	return (int)reply->have;
}

static void on_finished(void *context, void *token)
{
	(void)token;
	((struct rdma_session *)context)->answered = true;
}

static void on_refused(void *context, uint32_t xid, int error, const char *why)
{
	struct rdma_session *session = context;

	if (xid != session->xid)
		return;
	session->refused = error;
	rdma_session_fail(session, -error, why);
}

static int wait_for_reply(struct rdma_session *session)
{
	while (!session->answered && !session->refused) {
		int error;

		if (session->stop())
			return give_up(session, -EINTR, "interrupted");
		if (clock_now() > session->deadline)
			return give_up(session, -ETIMEDOUT, "the server does not answer");
		error = rpc_relay.receive(session->channel, true);
		if (error && !session->answered)
			return give_up(session, error, "the connection was lost");
	}
	return -session->refused;
}

static int send_call(struct rdma_session *session, const struct nfs3_name_call *call)
{
	const struct rpc_data none = {0};
	struct xdr_out head;

	if (!rpc_relay.begin(session->channel, &head))
		return -ENOTCONN; /* with one call at a time there is room, or it is lost */
	nfs3_encode_name_call(&head, ++session->xid, session->cred, call);
	if (head.bad)
		return -EMSGSIZE;
	session->answered = false;
	session->refused = 0;
	rpc_relay.queue(session->channel, session->xid, &head, &none);
	return rpc_relay.flush(session->channel);
}

static int read_reply(struct rdma_session *session, const struct nfs3_name_call *call,
		      struct nfs3_name_result *result)
{
	const char *procedure = nfs3_name_procedure_name(call->procedure);
	struct xdr_in in = {session->reply, session->reply + session->reply_length, false};
	struct rpc_reply_header header;
	char words[200];

	rpc_decode_reply(&in, &header);
	if (in.bad)
		return rdma_session_fail(session, -EPROTO, "the reply is cut off");
	if (header.verdict != RPC_SUCCESS) {
		rpc_verdict_text(&header, words, sizeof(words));
		return rdma_session_fail(session, -rpc_verdict_errno(&header), words);
	}
	if (!nfs3_decode_name(&in, call->procedure, result)) {
		snprintf(words, sizeof(words), "the reply to a %s contradicts itself", procedure);
		return rdma_session_fail(session, -EPROTO, words);
	}
	if (!result->status)
		return 0;
	snprintf(words, sizeof(words), "%s: %s", procedure, nfs3_status_name(result->status));
	return rdma_session_fail(session, -nfs3_errno(result->status), words);
}

int rdma_session_call(struct rdma_session *session, const struct nfs3_name_call *call,
		      struct nfs3_name_result *result)
{
	int error;

	if (!session->channel)
		return -ENOTCONN;
	error = send_call(session, call);
	if (error)
		return give_up(session, error, "the connection was lost");
	return wait_for_reply(session) ?: read_reply(session, call, result);
}

/* --- the session --- */

static int connect_channel(struct rdma_session *session)
{
	int error;

	while ((error = rpc_relay.connected(session->channel)) == -EINPROGRESS) {
		struct pollfd poll_fd = {
			.fd = rpc_relay.poll_fd(session->channel),
			.events = POLLIN,
		};

		if (session->stop())
			return -EINTR;
		if (clock_now() > session->deadline)
			return -ETIMEDOUT;
		poll(&poll_fd, 1, SLICE_MS);
	}
	return error;
}

static int open_channel(struct rdma_session *session, const struct names_config *config, char *why,
			size_t why_size)
{
	const struct rpc_terms terms = {
		.address = {.remote = config->rdma_remote,
			    .remote_length = config->rdma_remote_length},
		.handler = &session->handler,
		.counters = &session->counters,
		.calls_max = 1,
	};
	int error = rpc_relay.open(&session->channel, &terms);

	if (!error)
		error = connect_channel(session);
	if (error)
		snprintf(why, why_size, "RDMA port %u: %s", config->rdma_port,
			 error == -EINTR ? "interrupted" : strerror(-error));
	return error;
}

void rdma_session_close(struct rdma_session *session)
{
	if (session->channel)
		rpc_relay.close(session->channel);
	free(session);
}

void rdma_session_begin(struct rdma_session *session)
{
	session->deadline = clock_now() + session->timeout;
}

static void prepare(struct rdma_session *session, const struct names_config *config)
{
	session->handler = (struct rpc_handler){on_reply, on_finished, on_refused, session};
	session->timeout = config->timeout;
	session->stop = config->stop;
	session->cred = config->cred;
	/* A random start: the server's duplicate request cache may remember an earlier run's xids.
	 */
	if (getrandom(&session->xid, sizeof(session->xid), 0) != sizeof(session->xid))
		session->xid = (uint32_t)clock_now();
}

int rdma_session_open(struct rdma_session **out, const struct names_config *config, char *why,
		      size_t why_size)
{
	struct rdma_session *session = calloc(1, sizeof(*session));
	int error;

	if (!session) {
		snprintf(why, why_size, "out of memory");
		return -ENOMEM;
	}
	prepare(session, config);
	rdma_session_begin(session);
	error = mount3_root(config, &session->root, why, why_size)
			?: open_channel(session, config, why, why_size);
	if (error) {
		rdma_session_close(session);
		return error;
	}
	*out = session;
	return 0;
}
