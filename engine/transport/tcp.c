/* SPDX-License-Identifier: GPL-2.0-only */
/* tcp.c - an RPC channel over one TCP connection: a stream (stream.h) on a socket. */
#include <errno.h>
#include <stdlib.h>

#include "transport/stream.h"
#include "transport/tcp_connect.h"
#include "transport/tcp_socket.h"

static int tcp_open(struct rpc_channel **channel, const struct rpc_terms *terms)
{
	static const struct stream_io io = {stream_send, stream_recv};
	const int on = 1;
	struct stream *tcp = calloc(1, sizeof(*tcp));
	int error = -ENOMEM;

	if (!tcp || stream_init(tcp, terms))
		goto err_stream;
	tcp->io = &io;
	tcp->fd = error = tcp_connect(&terms->address, terms->source_port);
	if (error < 0)
		goto err_socket;
	tcp->stamps =
		terms->stamps && !setsockopt(tcp->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
	*channel = &tcp->base;
	return 0;

err_socket:
	stream_free(tcp);
err_stream:
	free(tcp);
	return error;
}

static int tcp_connected(struct rpc_channel *channel)
{
	return tcp_socket_connected(stream_of(channel)->fd);
}

static uint64_t tcp_unheard(const struct rpc_channel *channel)
{
	return tcp_socket_unheard(stream_of(channel)->fd);
}

static uint64_t tcp_acknowledged(const struct rpc_channel *channel)
{
	const struct stream *tcp = stream_of(channel);

	return tcp->sent - tcp_socket_unacknowledged(tcp->fd);
}

static void tcp_names(const struct rpc_channel *channel, char *local, char *remote, size_t size)
{
	tcp_socket_names(stream_of(channel)->fd, local, remote, size);
}

static uint32_t tcp_head_max(const struct rpc_channel *channel)
{
	return RPC_REPLY_HEAD_MAX;
}

static void tcp_close(struct rpc_channel *channel, bool abort)
{
	struct stream *tcp = stream_of(channel);

	tcp_socket_close(tcp->fd, abort || tcp_socket_unacknowledged(tcp->fd));
	stream_free(tcp);
	free(tcp);
}

const struct rpc_channel_ops rpc_tcp = {
	.name = "tcp",
	.traits = RPC_DROPS_DATA,
	.open = tcp_open,
	.connected = tcp_connected,
	.poll_fd = stream_poll_fd,
	.poll_events = stream_poll_events,
	.head_max = tcp_head_max,
	.begin = stream_begin,
	.queue = stream_queue,
	.sent = stream_sent,
	.flush = stream_flush,
	.receive = stream_receive,
	.receiving = stream_receiving,
	.names = tcp_names,
	.unheard = tcp_unheard,
	.acknowledged = tcp_acknowledged,
	.close = tcp_close,
};
