/* SPDX-License-Identifier: GPL-2.0-only */
/* refused.c - a session whose transport refuses what the protocol asks, as RDMA_ERROR does. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "client/internal.h"

/* --- a transport that answers nothing, and refuses the last call --- */

static struct rpc_terms terms;
static struct rpc_channel channel;
static uint32_t last;

static int begin_opening(struct rpc_channel **opened, const struct rpc_terms *given)
{
	terms = *given;
	*opened = &channel;
	return 0;
}

static int connected(struct rpc_channel *one)
{
	return 0;
}

static short events(const struct rpc_channel *one)
{
	return 0;
}

static bool begin(struct rpc_channel *one, struct xdr_out *head)
{
	static uint8_t room[RPC_HEAD_MAX];

	*head = (struct xdr_out){room, room + sizeof(room), false};
	return true;
}

static uint64_t queue(struct rpc_channel *one, uint32_t xid, const struct xdr_out *head,
		      const struct rpc_payload *data)
{
	last = xid;
	return 1;
}

static uint64_t sent(const struct rpc_channel *one)
{
	return 1;
}

static int flush(struct rpc_channel *one)
{
	return 0;
}

static int receive(struct rpc_channel *one, bool wait)
{
	terms.handler->refused(terms.handler->context, last, EREMOTEIO, "ERR_CHUNK");
	return 0;
}

static bool receiving(const struct rpc_channel *one)
{
	return false;
}

static void end(struct rpc_channel *one, bool abort)
{
}

static const struct rpc_channel_ops transport = {
	.open = begin_opening,
	.connected = connected,
	.poll_events = events,
	.begin = begin,
	.queue = queue,
	.sent = sent,
	.flush = flush,
	.receive = receive,
	.receiving = receiving,
	.close = end,
};

/* --- a protocol that asks, and needs nothing before that --- */

static const uint8_t *encode(struct xdr_out *out, const struct call *call,
			     const struct rpc_credentials *credentials, const void *file)
{
	return out->at;
}

static const char *operation(const struct call *call)
{
	return "SEQUENCE";
}

static bool acquire(struct session *session, struct call *call)
{
	return true;
}

static void release(struct session *session, struct call *call, bool answered)
{
	printf(answered ? " answered" : " given up");
}

static const struct protocol protocol = {
	.encode = encode,
	.operation = operation,
	.acquire = acquire,
	.release = release,
};
static const struct rpc_flavor flavor;

__attribute__((format(printf, 1, 2))) static void print(const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vprintf(format, values);
	va_end(values);
}

int main(void)
{
	static struct path path = {
		.config.label = "path",
		.protocol = &protocol,
		.credentials.base.flavor = &flavor,
		.job.log = print,
	};
	static struct conn_job job;
	static struct session session;
	static struct session_channel ours = {.conn = {.path = &path, .job = &job}};
	struct request request;

	TAILQ_INIT(&job.finished);
	TAILQ_INIT(&job.requeued);
	if (session_init(&session, &path, 1) ||
	    session_open_channel(&ours, &session, &transport, &(struct rpc_terms){0}) ||
	    session_ready(&ours))
		return 1;
	session_request(&ours, &request);
	session_flush(&ours.conn);
	session_reap(&ours.conn, false);
	printf(" %d", request.done ? request.error : 0);
	session_close_channel(&ours);
	session_free(&session);
	return 0;
}
