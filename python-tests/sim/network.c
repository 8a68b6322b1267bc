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

#include "server.h"
#include "transport/stream.h"
#include "world.h"

/* Bytes on their way; none: the end of the stream. */
struct delivery {
	TAILQ_ENTRY(delivery) link; /* of those that are held up */
	struct link_end *end;
	bool to_server;
	size_t length;
	uint8_t bytes[];
};

TAILQ_HEAD(deliveries, delivery);

enum { ENDS_MAX = 1024 };

static struct {
	struct network_terms terms;
	bool listens, refuses[ADDRESSES_MAX];
	bool cut[ADDRESSES_MAX];
	uint64_t cut_since[ADDRESSES_MAX];
	struct deliveries held[ADDRESSES_MAX]; /* in their order, until the address is back */
	struct link_end *ends[ENDS_MAX], *by_fd[ENDS_MAX];
	uint32_t count;
	bool reads; /* a client has, of late */
	uint32_t asked_unheard;
	bool interrupted;
} net;

void network_begin(void)
{
	memset(&net, 0, sizeof(net));
	net.terms.latency = MSEC;
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

/* The client's descriptor is readable while there is something to be told. */
static void wake(const struct link_end *end)
{
	const uint64_t one = 1;

	if (end->fd >= 0 && write(end->fd, &one, sizeof(one)) < 0)
		abort();
}

static void leave_server(struct link_end *end)
{
	if (!end->up)
		return;
	end->up = false;
	server_gone(end);
}

void network_reset(struct link_end *end, const char *why)
{
	if (end->lost || end->failed)
		return;
	world_tell("address %u: connection reset: %s", end->address, why);
	world.failures[FAILED_RESET]++;
	end->lost = true;
	leave_server(end);
	wake(end);
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

void network_abandon(void)
{
	for (uint32_t i = 0; i < net.count; i++)
		if (net.ends[i]->fd >= 0)
			close(net.ends[i]->fd);
	net.count = 0;
}

static void reach_client(struct link_end *end, const struct delivery *delivery)
{
	end->ended = !delivery->length;
	if (!end->ended) {
		end->inbox = realloc(end->inbox, end->inbox_length + delivery->length);
		memcpy(end->inbox + end->inbox_length, delivery->bytes, delivery->length);
		end->inbox_length += delivery->length;
	}
	world_tell("address %u: %zu bytes reach the client", end->address, delivery->length);
	wake(end);
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
		network_reset(end, "by chance");
	} else if (end->lost) {
		; /* it is gone with its connection */
	} else if (delivery->to_server) {
		end->delivered += delivery->length;
		if (end->up)
			server_received(end, delivery->bytes, delivery->length);
	} else {
		reach_client(end, delivery);
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

void network_finish(struct link_end *end)
{
	world_tell("address %u: the server closes", end->address);
	plan_delivery(new_delivery(end, false, 0));
	leave_server(end);
}

/* --- the client's end: a socket --- */

static struct link_end *end_of(int fd)
{
	if (!net.by_fd[fd])
		abort();
	return net.by_fd[fd];
}

/* As a system call has it. */
static ssize_t result_of(ssize_t result)
{
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

/* The errno of a call that can move nothing: each second one a signal has ended. */
static int nothing(void)
{
	net.interrupted = !net.interrupted;
	return net.interrupted ? -EINTR : -EAGAIN;
}

static ssize_t take(struct link_end *end, const struct iovec *spans, size_t count)
{
	enum { PIECE = 64 << 10 };
	uint64_t window = net.terms.window ?: 256 << 10;
	size_t room = window - min_of(end->sent - end->delivered, window), length = 0;
	struct delivery *delivery;

	if (end->told)
		world_violated("a client goes on over a connection that has ended");
	if (end->lost)
		return -ECONNRESET;
	room = min_of(room, 1 + world_random(PIECE));
	if (!room)
		return nothing();
	delivery = new_delivery(end, true, room);
	for (size_t i = 0; i < count && length < room; i++) {
		size_t part = min_of(spans[i].iov_len, room - length);

		memcpy(delivery->bytes + length, spans[i].iov_base, part);
		length += part;
	}
	delivery->length = length;
	end->sent += length;
	plan_delivery(delivery);
	return (ssize_t)length;
}

static ssize_t give(struct link_end *end, const struct iovec *space, size_t count)
{
	size_t most = end->inbox_length ? 1 + world_random(end->inbox_length) : 0;
	size_t length = 0;
	uint64_t ignored;

	if (!most) {
		end->told = end->ended;
		return end->lost ? -ECONNRESET : end->ended ? 0 : nothing();
	}
	for (size_t i = 0; i < count && length < most; i++) {
		size_t part = min_of(space[i].iov_len, most - length);

		if (space[i].iov_base)
			memcpy(space[i].iov_base, end->inbox + length, part);
		length += part;
	}
	net.reads = true;
	end->inbox_length -= length;
	memmove(end->inbox, end->inbox + length, end->inbox_length);
	if (!end->inbox_length && !end->lost && !end->ended &&
	    read(end->fd, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
		abort();
	return (ssize_t)length;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return result_of(take(end_of(fd), message->msg_iov, message->msg_iovlen));
}

ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags)
{
	const struct iovec span = {(void *)bytes, length};

	return result_of(take(end_of(fd), &span, 1));
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	return result_of(give(end_of(fd), message->msg_iov, message->msg_iovlen));
}

ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags)
{
	const struct iovec space = {bytes, length};

	if (!bytes != !!(flags & MSG_TRUNC)) /* tcp(7): what is taken goes nowhere */
		world_violated("a client receives into its memory by MSG_TRUNC, or nowhere");
	return result_of(give(end_of(fd), &space, 1));
}

/* A client that always sleeps, so that all portions are tried. */
struct portion_sample __wrap_portion_sample(uint64_t bytes)
{
	return (struct portion_sample){world.clock.now, bytes, bytes};
}

static void finish_connecting(void *context)
{
	struct link_end *end = context;

	if (net.cut[end->address]) {
		end->users++;
		world_plan(200 * MSEC, finish_connecting, (void (*)(void *))release, end);
	} else if (end->fd < 0) {
		; /* it does not wait any more */
	} else if (!net.listens || net.refuses[end->address]) {
		end->failed = -ECONNREFUSED;
	} else {
		end->up = true;
		world_tell("address %u: connected", end->address);
	}
	wake(end);
	release(end);
}

int tcp_connect(const struct rpc_address *address, uint16_t *source_port)
{
	const struct sockaddr_in *remote = (const void *)&address->remote;
	struct link_end *end = calloc(1, sizeof(*end));

	if (!end || net.count == ARRAY_SIZE(net.ends))
		abort();
	end->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (end->fd < 0 || end->fd >= ENDS_MAX)
		abort();
	net.by_fd[end->fd] = end;
	end->address = ntohs(remote->sin_port) - 1u;
	end->users = 2; /* the client, and the event */
	scenario_connects();
	net.ends[net.count++] = end;
	world_plan(1 + world_random(net.terms.latency), finish_connecting,
		   (void (*)(void *))release, end);
	return end->fd;
}

int tcp_socket_connected(int fd)
{
	const struct link_end *end = end_of(fd);

	if (end->lost)
		return -ECONNRESET;
	return end->failed ?: end->up ? 0 : -EINPROGRESS;
}

uint64_t tcp_socket_unheard(const struct rpc_channel *channel)
{
	const struct link_end *end = end_of(channel->fd);

	net.asked_unheard++;
	return net.cut[end->address] ? world.clock.now - net.cut_since[end->address] : 0;
}

uint64_t tcp_socket_unacknowledged(int fd)
{
	const struct link_end *end = end_of(fd);

	return end->sent - end->delivered;
}

void tcp_socket_names(const struct rpc_channel *channel, char *local, char *remote, size_t size)
{
	snprintf(local, size, "-");
	snprintf(remote, size, "address %u", end_of(channel->fd)->address);
}

/* What is on its way does not arrive any more: the server knows of the reset at once. */
void tcp_socket_close(int fd, bool at_once)
{
	struct link_end *end = end_of(fd);

	world_tell("address %u: the client closes", end->address);
	leave_server(end);
	end->lost = true;
	net.by_fd[fd] = NULL;
	end->fd = -1;
	release(end);
	close(fd);
}

uint32_t network_asked_unheard(void)
{
	return net.asked_unheard;
}

bool network_is_read(void)
{
	bool reads = net.reads;

	net.reads = false;
	for (uint32_t i = 0; i < net.count; i++)
		if (reads && net.ends[i]->fd >= 0 && net.ends[i]->inbox_length)
			return true;
	return false;
}

/* --- what fails --- */

void network_listen(bool listens)
{
	net.listens = listens;
	for (uint32_t i = 0; !listens && i < net.count; i++)
		if (net.ends[i]->up)
			network_reset(net.ends[i], "the server is gone");
}

void network_refuse(uint32_t address)
{
	net.refuses[address] = true;
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

static void end_cut(void *context)
{
	uint32_t address = (uint32_t)(uintptr_t)context;

	world_tell("address %u: back", address);
	net.cut[address] = false;
	send_held(address);
}

void network_cut(uint32_t address, uint64_t time)
{
	world_tell("address %u: out of reach", address);
	net.cut[address] = true;
	net.cut_since[address] = world.clock.now;
	if (time != UINT64_MAX)
		world_plan(time, end_cut, NULL, (void *)(uintptr_t)address);
}

void network_fail(const struct network_terms *terms)
{
	net.terms = *terms;
}

void network_heal(void)
{
	net.terms.reset_in = 0;
	net.terms.latency = MSEC;
	memset(net.refuses, 0, sizeof(net.refuses));
	for (uint32_t i = 0; i < ADDRESSES_MAX; i++)
		if (net.cut[i])
			end_cut((void *)(uintptr_t)i);
}
