/* SPDX-License-Identifier: GPL-2.0-only */
#include "network.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "transport/stream.h"
#include "world.h"

/*
 * A connection: its client's end is a stream, its server's end is this. It lives as long as either
 * end or a delivery knows it.
 */
struct link_end {
	struct stream *stream; /* NULL: the client has closed it */
	uint32_t address;
	unsigned int users;
	bool up;    /* the server has accepted it */
	bool lost;  /* it was reset: the client is told when it has read what came before */
	int failed; /* connecting has: a negative errno */
	void *context;

	uint8_t *inbox; /* bytes that have reached the client */
	size_t inbox_length;
	uint64_t arrives_there, arrives_here; /* the latest deliveries: they keep their order */
	uint64_t delivered;		      /* bytes that have reached the server */
};

struct client_stream {
	struct stream stream;
	struct link_end *end;
};

/* Bytes on their way. */
struct delivery {
	TAILQ_ENTRY(delivery) link; /* of those that are held up */
	struct link_end *end;
	bool to_server;
	size_t length;
	uint8_t bytes[];
};

TAILQ_HEAD(deliveries, delivery);

static struct {
	struct network_terms terms;
	const struct network_server *server;
	bool listens;
	bool cut[ADDRESSES_MAX];
	uint64_t cut_since[ADDRESSES_MAX];
	struct deliveries held[ADDRESSES_MAX]; /* in their order, until the address is back */
	struct link_end *ends[256];
	uint32_t count;
} net;

void network_begin(const struct network_terms *terms, const struct network_server *server)
{
	memset(&net, 0, sizeof(net));
	net.terms = *terms;
	net.server = server;
	net.listens = true;
	for (uint32_t i = 0; i < ADDRESSES_MAX; i++)
		TAILQ_INIT(&net.held[i]);
}

static void release(struct link_end *end)
{
	if (--end->users)
		return;
	for (uint32_t i = 0; i < net.count; i++)
		if (net.ends[i] == end)
			net.ends[i] = net.ends[--net.count];
	free(end->inbox);
	free(end);
}

void **network_context(struct link_end *end)
{
	return &end->context;
}

uint32_t network_address(const struct link_end *end)
{
	return end->address;
}

/* The client's descriptor is readable while there is something to be told. */
static void wake(const struct link_end *end)
{
	const uint64_t one = 1;

	if (end->stream && write(end->stream->fd, &one, sizeof(one)) < 0)
		abort();
}

static void leave_server(struct link_end *end)
{
	if (!end->up)
		return;
	end->up = false;
	net.server->gone(end);
}

static void reset(struct link_end *end, const char *why)
{
	if (end->lost || end->failed)
		return;
	world_tell("address %u: connection reset: %s", end->address, why);
	world.failures[FAILED_RESET]++;
	end->lost = true;
	leave_server(end);
	wake(end);
}

void network_reset(struct link_end *end)
{
	reset(end, "by the server");
}

/* --- deliveries --- */

static void forget_delivery(void *context)
{
	struct delivery *delivery = context;

	release(delivery->end);
	free(delivery);
}

bool network_end(void)
{
	for (uint32_t i = 0; i < ADDRESSES_MAX; i++)
		while (!TAILQ_EMPTY(&net.held[i])) {
			struct delivery *delivery = TAILQ_FIRST(&net.held[i]);

			TAILQ_REMOVE(&net.held[i], delivery, link);
			forget_delivery(delivery);
		}
	return !net.count;
}

static void deliver(void *context)
{
	struct delivery *delivery = context;
	struct link_end *end = delivery->end;

	if (net.cut[end->address] && !end->lost) {
		TAILQ_INSERT_TAIL(&net.held[end->address], delivery, link);
		return;
	}
	if (!end->lost && world_chance(net.terms.reset_in)) {
		reset(end, "by chance");
	} else if (end->lost) {
		; /* it is gone with its connection */
	} else if (delivery->to_server) {
		end->delivered += delivery->length;
		if (end->up)
			net.server->received(end, delivery->bytes, delivery->length);
	} else {
		end->inbox = realloc(end->inbox, end->inbox_length + delivery->length);
		memcpy(end->inbox + end->inbox_length, delivery->bytes, delivery->length);
		end->inbox_length += delivery->length;
		world_tell("address %u: %zu bytes reach the client", end->address,
			   delivery->length);
		wake(end);
	}
	forget_delivery(delivery);
}

/* Behind those that are under way. */
static void plan_delivery(struct delivery *delivery)
{
	struct link_end *end = delivery->end;
	uint64_t *latest = delivery->to_server ? &end->arrives_there : &end->arrives_here;
	uint64_t now = world.clock.now, after = 1 + world_random(net.terms.latency);

	*latest = max_of(*latest, now + after);
	world_plan(*latest - now, deliver, forget_delivery, delivery);
}

static struct delivery *new_delivery(struct link_end *end, bool to_server, size_t length)
{
	struct delivery *delivery = malloc(sizeof(*delivery) + length);

	*delivery = (struct delivery){.end = end, .to_server = to_server, .length = length};
	end->users++;
	return delivery;
}

void network_send(struct link_end *end, const void *bytes, size_t length)
{
	struct delivery *delivery = new_delivery(end, false, length);

	memcpy(delivery->bytes, bytes, length);
	plan_delivery(delivery);
}

/* --- the client's end --- */

static struct link_end *end_of(const struct stream *stream)
{
	return container_of(stream, const struct client_stream, stream)->end;
}

static ssize_t sim_write(struct stream *stream, struct iovec *spans, int count)
{
	enum { WINDOW = 256 << 10, PIECE = 64 << 10 };
	struct link_end *end = end_of(stream);
	size_t room = WINDOW - min_of(stream->sent - end->delivered, (uint64_t)WINDOW), length = 0;
	struct delivery *delivery;

	if (end->lost)
		return -ECONNRESET;
	room = min_of(room, 1 + world_random(PIECE));
	if (!room)
		return -EAGAIN;
	delivery = new_delivery(end, true, room);
	for (int i = 0; i < count && length < room; i++) {
		size_t part = min_of(spans[i].iov_len, room - length);

		memcpy(delivery->bytes + length, spans[i].iov_base, part);
		length += part;
	}
	delivery->length = length;
	plan_delivery(delivery);
	return (ssize_t)length;
}

static ssize_t sim_read(struct stream *stream, struct iovec *space, int count, bool wait)
{
	struct link_end *end = end_of(stream);
	size_t most = end->inbox_length ? 1 + world_random(end->inbox_length) : 0;
	size_t length = 0;
	uint64_t ignored;

	if (!most)
		return end->lost ? -ECONNRESET : -EAGAIN;
	for (int i = 0; i < count && length < most; i++) {
		size_t part = min_of(space[i].iov_len, most - length);

		memcpy(space[i].iov_base, end->inbox + length, part);
		length += part;
	}
	end->inbox_length -= length;
	memmove(end->inbox, end->inbox + length, end->inbox_length);
	if (!end->inbox_length && !end->lost && read(stream->fd, &ignored, sizeof(ignored)) < 0 &&
	    errno != EAGAIN)
		abort();
	return (ssize_t)length;
}

static void finish_connecting(void *context)
{
	struct link_end *end = context;

	if (net.cut[end->address]) {
		end->users++;
		world_plan(200 * MSEC, finish_connecting, (void (*)(void *))release, end);
	} else if (!end->stream) {
		; /* it does not wait any more */
	} else if (!net.listens) {
		end->failed = -ECONNREFUSED;
	} else {
		end->up = true;
		world_tell("address %u: connected", end->address);
	}
	wake(end);
	release(end);
}

static int sim_open(struct rpc_channel **channel, const struct rpc_terms *terms)
{
	static const struct stream_io io = {sim_write, sim_read};
	const struct sockaddr_in *remote = (const void *)&terms->address.remote;
	struct client_stream *client = calloc(1, sizeof(*client));
	struct link_end *end = calloc(1, sizeof(*end));

	if (!client || !end || stream_init(&client->stream, terms))
		abort();
	client->stream.io = &io;
	client->stream.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	client->end = end;
	end->stream = &client->stream;
	end->address = ntohs(remote->sin_port) - 1u;
	end->users = 2; /* the stream, and the event */
	if (net.count == ARRAY_SIZE(net.ends))
		abort();
	net.ends[net.count++] = end;
	world_plan(1 + world_random(net.terms.latency), finish_connecting,
		   (void (*)(void *))release, end);
	*channel = &client->stream.base;
	return 0;
}

static int sim_connected(struct rpc_channel *channel)
{
	const struct link_end *end = end_of(stream_of(channel));

	if (end->lost)
		return -ECONNRESET;
	return end->failed ?: end->up ? 0 : -EINPROGRESS;
}

static uint64_t sim_unheard(const struct rpc_channel *channel)
{
	const struct link_end *end = end_of(stream_of(channel));

	return net.cut[end->address] ? world.clock.now - net.cut_since[end->address] : 0;
}

static uint64_t sim_acknowledged(const struct rpc_channel *channel)
{
	return end_of(stream_of(channel))->delivered;
}

static uint32_t sim_head_max(const struct rpc_channel *channel)
{
	return RPC_REPLY_HEAD_MAX;
}

static void sim_names(const struct rpc_channel *channel, char *local, char *remote, size_t size)
{
	snprintf(local, size, "-");
	snprintf(remote, size, "address %u", end_of(stream_of(channel))->address);
}

/* What is on its way does not arrive any more: the server knows of the reset at once. */
static void sim_close(struct rpc_channel *channel, bool abort)
{
	struct stream *stream = stream_of(channel);
	struct link_end *end = end_of(stream);

	world_tell("address %u: the client closes", end->address);
	leave_server(end);
	end->lost = true;
	end->stream = NULL;
	release(end);
	close(stream->fd);
	stream_free(stream);
	free(container_of(stream, struct client_stream, stream));
}

const struct rpc_channel_ops rpc_tcp = {
	.name = "tcp",
	.open = sim_open,
	.connected = sim_connected,
	.poll_fd = stream_poll_fd,
	.poll_events = stream_poll_events,
	.head_max = sim_head_max,
	.begin = stream_begin,
	.queue = stream_queue,
	.sent = stream_sent,
	.flush = stream_flush,
	.receive = stream_receive,
	.receiving = stream_receiving,
	.names = sim_names,
	.unheard = sim_unheard,
	.acknowledged = sim_acknowledged,
	.close = sim_close,
};

bool network_is_readable(void)
{
	for (uint32_t i = 0; i < net.count; i++)
		if (net.ends[i]->stream && net.ends[i]->inbox_length)
			return true;
	return false;
}

/* --- what fails --- */

void network_listen(bool listens)
{
	net.listens = listens;
	for (uint32_t i = 0; !listens && i < net.count; i++)
		if (net.ends[i]->up)
			reset(net.ends[i], "the server is gone");
}

/* TCP sends again what did not arrive, before what follows it. */
static void send_held(uint32_t address)
{
	struct delivery *delivery;

	while ((delivery = TAILQ_FIRST(&net.held[address]))) {
		TAILQ_REMOVE(&net.held[address], delivery, link);
		deliver(delivery);
	}
}

void network_cut(uint32_t address, bool cut)
{
	world_tell("address %u: %s", address, cut ? "out of reach" : "back");
	net.cut[address] = cut;
	net.cut_since[address] = world.clock.now;
	if (!cut)
		send_held(address);
}

void network_fail(const struct network_terms *terms)
{
	net.terms = *terms;
}

void network_heal(void)
{
	net.terms.reset_in = 0;
	net.terms.latency = MSEC;
	for (uint32_t i = 0; i < ADDRESSES_MAX; i++)
		if (net.cut[i])
			network_cut(i, false);
}
