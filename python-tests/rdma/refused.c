/* SPDX-License-Identifier: GPL-2.0-only */
/* refused.c - a client whose transport refuses what the protocol asks, as RDMA_ERROR does. */
#include <errno.h>
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

static int is_well(struct rpc_channel *one)
{
	return 0;
}

static short poll_events(const struct rpc_channel *one)
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

static int receive(struct rpc_channel *one, bool wait)
{
	terms.handler->refused(terms.handler->context, last, EREMOTEIO, "ERR_CHUNK");
	return 0;
}

static void end(struct rpc_channel *one, bool abort)
{
}

static const struct rpc_channel_ops transport = {
	.open = begin_opening,
	.connected = is_well,
	.poll_events = poll_events,
	.begin = begin,
	.queue = queue,
	.sent = sent,
	.flush = is_well,
	.receive = receive,
	.close = end,
};

/* --- a protocol that asks, and needs nothing before that --- */

static uint8_t *encode(struct xdr_out *out, struct call *call, struct rpc_credentials *credentials)
{
	return out->at;
}

static const char *operation(const struct call *call)
{
	return "SEQUENCE";
}

static void release(struct rpc_client *rpc, struct call *call, bool answered)
{
	printf(answered ? " answered" : " given up");
}

static const struct protocol protocol = {
	.encode = encode,
	.operation = operation,
	.release = release,
};
static const struct rpc_flavor flavor;

/* --- an owner who is told --- */

static enum client_role role(const struct rpc_client *rpc)
{
	return CLIENT_ALONE;
}

static void ignore(struct rpc_client *rpc)
{
}

static void refused(struct rpc_client *rpc, const struct call *call, const char *why)
{
	printf("%s: %s", rpc->protocol->operation(call), why);
}

static const struct client_events events = {.role = role, .health_changed = ignore};
static const struct client_log told = {.refused = refused, .answered = ignore};

int main(void)
{
	static struct clock clock = {.read = clock_monotonic};
	static struct rpc_credentials credentials = {.flavor = &flavor};
	static const struct rpc_timing timing = {.timeo = 60 * SEC};
	static struct counters counters;
	static struct transport_counters transported;
	static struct latency latency;
	static struct rpc_client ours = {
		.protocol = &protocol,
		.credentials = &credentials,
		.timing = &timing,
		.events = &events,
		.log = &told,
		.clock = &clock,
		.counters = &counters,
		.latency = &latency,
		.calls_max = 1,
	};
	struct rpc_request request;

	if (client_init(&ours) ||
	    client_open(&ours, &transport, &(struct rpc_terms){.counters = &transported}) ||
	    client_ready(&ours))
		return 1;
	client_request(&ours, &request);
	client_flush(&ours);
	client_reap(&ours, false);
	printf(" %d", request.done ? request.error : 0);
	client_close(&ours);
	client_free(&ours);
	return 0;
}
