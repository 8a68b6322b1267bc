/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfsmulti-relay - one connection of NFS over RDMA for a process that must not have it itself: the
 * other side of relay.h, where its messages are described.
 *
 * Standard input is the socket. Whatever happens to it ends the program, and with it the queue pair
 * and all memory that the server could reach.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rpc/address.h"
#include "rpc/rdma_memory.h"
#include "rpc/relay.h"
#include "util.h"

static const char usage[] =
	"Usage: nfsmulti-relay ADDRESS PORT [LOCAL ADDRESS]\n"
	"\n"
	"Passes RPC calls from standard input, a socket, to a server of NFS over RDMA. The engine\n"
	"starts it by itself, for namespace=rdma.\n";

enum {
	SOCKET = STDIN_FILENO,
	WAIT_MS = 100,
	FRAME_MAX = sizeof(struct relay_call) + RPC_HEAD_MAX + RELAY_DATA_MAX,
};

/* A call under way, with the data that the server may fetch. */
struct slot {
	uint32_t xid;
	bool busy;
	uint8_t *frame;
};

struct relay {
	struct rpc_channel *channel;
	struct slot slots[RELAY_CALLS];
	bool starved; /* no slot or no credit is free: calls wait in the socket */
};

static void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("nfsmulti: relay: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

/* --- to the engine --- */

/* That nobody listens any more is found when there is nothing to be read either. */
static void answer(int error, uint32_t xid, const void *rest, size_t length)
{
	struct relay_answer begin = {error, xid};
	struct iovec parts[] = {{&begin, sizeof(begin)}, {(void *)rest, length}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts)};

	while (sendmsg(SOCKET, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static struct slot *slot_of(struct relay *relay, uint32_t xid)
{
	for (uint32_t i = 0; i < RELAY_CALLS; i++)
		if (relay->slots[i].busy && relay->slots[i].xid == xid)
			return &relay->slots[i];
	return NULL;
}

/* rpc.h's reply(), finished() and refused() */
static int on_reply(void *context, const struct rpc_reply *reply, struct rpc_bulk *bulk)
{
	struct xdr_in in = {reply->message, reply->message + reply->have, false};
	uint32_t xid = xdr_get_u32(&in);
	struct slot *slot = slot_of(context, xid);

	if (in.bad)
		return -EBADMSG;
	if (slot)
		answer(0, xid, reply->message, reply->have);
	bulk->token = slot;
	return (int)reply->have;
}

static void on_finished(void *context, void *token)
{
	((struct slot *)token)->busy = false;
}

static void on_refused(void *context, uint32_t xid, int error, const char *why)
{
	struct slot *slot = slot_of(context, xid);

	if (!slot)
		return;
	slot->busy = false;
	answer(error, xid, why, strlen(why));
}

/* --- from the engine --- */

static struct slot *idle_slot(struct relay *relay)
{
	for (uint32_t i = 0; i < RELAY_CALLS; i++)
		if (!relay->slots[i].busy)
			return &relay->slots[i];
	return NULL;
}

/* Sends the call that stands in a slot; `head` is where its beginning goes. */
static int forward(struct relay *relay, struct slot *slot, uint32_t length, struct xdr_out *head)
{
	uint8_t *message = slot->frame + sizeof(struct relay_call);
	struct xdr_in in = {message, slot->frame + length, false};
	struct relay_call call;
	struct rpc_data data = {0};

	if (length < sizeof(call))
		return -EPROTO;
	memcpy(&call, slot->frame, sizeof(call));
	slot->xid = xdr_get_u32(&in);
	if (in.bad || call.head > length - sizeof(call) ||
	    call.head > (size_t)(head->end - head->at))
		return -EPROTO;
	memcpy(head->at, message, call.head);
	head->at += call.head;
	data.at = message + call.head;
	data.length = length - (uint32_t)sizeof(call) - call.head;
	slot->busy = true;
	if (!rpc_rdma.queue(relay->channel, slot->xid, head, &data))
		on_refused(relay, slot->xid, EIO, "its data cannot be registered");
	return 0;
}

/* Takes what calls there are, as long as they can be sent. */
static int take_calls(struct relay *relay)
{
	struct slot *slot;
	struct xdr_out head;

	while ((slot = idle_slot(relay)) && rpc_rdma.begin(relay->channel, &head)) {
		ssize_t length = recv(SOCKET, slot->frame, FRAME_MAX, MSG_DONTWAIT);
		int error;

		relay->starved = false;
		if (length < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		if (!length)
			return -ECONNRESET;
		error = forward(relay, slot, (uint32_t)length, &head);
		if (error)
			return error;
	}
	relay->starved = true;
	return 0;
}

/* --- the connection --- */

/* Waits for either side. True where the engine has gone. */
static bool await(const struct relay *relay, int milliseconds)
{
	struct pollfd fds[] = {
		{.fd = SOCKET, .events = relay->starved ? 0 : POLLIN},
		{.fd = rpc_rdma.poll_fd(relay->channel), .events = POLLIN},
	};

	return poll(fds, ARRAY_SIZE(fds), milliseconds) > 0 && fds[0].revents & (POLLHUP | POLLERR);
}

static int connect_channel(struct relay *relay)
{
	int error;

	relay->starved = true; /* nothing can be sent yet */
	while ((error = rpc_rdma.connected(relay->channel)) == -EINPROGRESS)
		if (await(relay, WAIT_MS))
			return -ECONNRESET;
	return error;
}

static int serve(struct relay *relay)
{
	int error = connect_channel(relay);

	if (!error)
		answer(0, 0, NULL, 0);
	while (!error) {
		error = rpc_rdma.receive(relay->channel, false) ?: take_calls(relay);
		if (!error)
			error = rpc_rdma.flush(relay->channel);
		if (!error && await(relay, -1))
			error = -ECONNRESET;
	}
	return error;
}

static int run(struct relay *relay, struct rpc_terms *terms)
{
	struct iovec buffers = {NULL, (size_t)RELAY_CALLS * FRAME_MAX};
	int error = -ENOMEM;

	buffers.iov_base = calloc(1, buffers.iov_len);
	terms->memory = rdma_memory_new(&buffers, say);
	for (uint32_t i = 0; buffers.iov_base && i < RELAY_CALLS; i++)
		relay->slots[i].frame = (uint8_t *)buffers.iov_base + (size_t)i * FRAME_MAX;
	if (buffers.iov_base && terms->memory)
		error = rpc_rdma.open(&relay->channel, terms);
	if (!error) {
		error = serve(relay);
		rpc_rdma.close(relay->channel);
	}
	answer(error, 0, NULL, 0);
	rdma_memory_free(terms->memory);
	free(buffers.iov_base);
	return error;
}

int main(int argc, char **argv)
{
	struct relay relay = {0};
	struct rpc_counters counters = {0};
	const struct rpc_handler handler = {on_reply, on_finished, on_refused, &relay};
	struct rpc_terms terms = {
		.handler = &handler,
		.counters = &counters,
		.calls_max = RELAY_CALLS,
		.inline_max = RELAY_REPLY_MAX,
	};

	if (argc == 2 && !strcmp(argv[1], "--help")) {
		fputs(usage, stdout);
		return 0;
	}
	if (argc < 3 || argc > 4 ||
	    rpc_address_read(argv[1], argv[2], &terms.address.remote,
			     &terms.address.remote_length) ||
	    (argc == 4 &&
	     rpc_address_read(argv[3], "0", &terms.address.local, &terms.address.local_length))) {
		fputs(usage, stderr);
		return 2;
	}
	return run(&relay, &terms) ? 1 : 0;
}
