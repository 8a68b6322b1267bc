/* SPDX-License-Identifier: GPL-2.0-only */
#include "transport/probe.h"

#include <errno.h>
#include <poll.h>

#include "wait.h"

/* Nothing is sent, so nothing is a reply. */
static int no_reply(void *context, const struct rpc_reply *reply, struct rpc_bulk *bulk)
{
	return -EPROTO;
}

static int await(struct rpc_channel *channel, uint64_t timeout, bool (*stop)(void))
{
	struct pollfd poll_fd = {.fd = rpc_tcp.poll_fd(channel), .events = POLLOUT};
	struct patience patience = patience_begin(clock_now(), timeout);
	int error, waited = 0;

	while (!waited && (error = rpc_tcp.connected(channel)) == -EINPROGRESS)
		waited = wait_slice(&poll_fd, 1, &patience, stop);
	return waited ?: error;
}

int probe(const struct rpc_address *address, uint64_t timeout, bool (*stop)(void))
{
	const struct rpc_handler handler = {.reply = no_reply};
	const struct rpc_terms terms = {.address = *address, .handler = &handler};
	struct rpc_channel *channel;
	int error = rpc_tcp.open(&channel, &terms);

	if (error)
		return error;
	error = await(channel, timeout, stop);
	rpc_tcp.close(channel, false);
	return error;
}
