/* SPDX-License-Identifier: GPL-2.0-only */
/* tcp.c - an RPC channel over one TCP connection: a stream (stream.h) on a socket. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "transport/address.h"
#include "transport/stream.h"
#include "transport/tcp_connect.h"
#include "wait.h"

/* One span, which is what any number of READs make, costs less by the plainer call. */
static ssize_t tcp_write(struct stream *stream, struct iovec *spans, int count)
{
	const struct msghdr message = {.msg_iov = spans, .msg_iovlen = (size_t)count};
	const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	ssize_t length = count == 1 ? send(stream->fd, spans->iov_base, spans->iov_len, flags)
				    : sendmsg(stream->fd, &message, flags);

	return length < 0 ? -errno : length;
}

static ssize_t tcp_read(struct stream *stream, struct iovec *space, int count, bool wait)
{
	struct msghdr message = {.msg_iov = space, .msg_iovlen = (size_t)count};
	const int flags = wait ? 0 : MSG_DONTWAIT;
	ssize_t length = count == 1 ? recv(stream->fd, space->iov_base, space->iov_len, flags)
				    : recvmsg(stream->fd, &message, flags);

	return length < 0 ? -errno : length;
}

static int tcp_open(struct rpc_channel **channel, const struct rpc_terms *terms)
{
	static const struct stream_io io = {tcp_write, tcp_read};
	struct stream *tcp = calloc(1, sizeof(*tcp));
	int error = -ENOMEM;

	if (!tcp || stream_init(tcp, terms))
		goto err_stream;
	tcp->io = &io;
	tcp->fd = error = tcp_connect(&terms->address, terms->source_port);
	if (error < 0)
		goto err_socket;
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
	int fd = stream_of(channel)->fd, error = 0;
	struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
	const struct timeval wait = {.tv_usec = WAIT_SLICE_MS * 1000};
	socklen_t length = sizeof(error);

	if (poll(&poll_fd, 1, 0) <= 0) /* negative: a signal came first */
		return -EINPROGRESS;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length))
		return -errno;
	if (error)
		return -error;
	/* From here on blocking, with MSG_DONTWAIT where it must not: one system call less a reply.
	 */
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	return 0;
}

static uint64_t tcp_unheard(const struct rpc_channel *channel)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);

	if (getsockopt(stream_of(channel)->fd, IPPROTO_TCP, TCP_INFO, &info, &length))
		return 0;
	return info.tcpi_last_ack_recv * MSEC;
}

/* What the socket holds, sent or not, has not been acknowledged. */
static int unacknowledged(const struct stream *tcp)
{
	int bytes = 0;

	return ioctl(tcp->fd, SIOCOUTQ, &bytes) ? 0 : bytes;
}

static uint64_t tcp_acknowledged(const struct rpc_channel *channel)
{
	const struct stream *tcp = stream_of(channel);

	return tcp->sent - (uint64_t)unacknowledged(tcp);
}

static void end_name(int fd, int (*which)(int, struct sockaddr *, socklen_t *), char *text,
		     size_t size)
{
	struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
	socklen_t length = sizeof(address);

	which(fd, (struct sockaddr *)&address, &length);
	rpc_address_text((const struct sockaddr *)&address, text, size);
}

static void tcp_names(const struct rpc_channel *channel, char *local, char *remote, size_t size)
{
	end_name(stream_of(channel)->fd, getsockname, local, size);
	end_name(stream_of(channel)->fd, getpeername, remote, size);
}

static uint32_t tcp_head_max(const struct rpc_channel *channel)
{
	return RPC_REPLY_HEAD_MAX;
}

static void tcp_close(struct rpc_channel *channel, bool abort)
{
	const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
	struct stream *tcp = stream_of(channel);

	if (abort || unacknowledged(tcp))
		setsockopt(tcp->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(tcp->fd);
	stream_free(tcp);
	free(tcp);
}

const struct rpc_channel_ops rpc_tcp = {
	.name = "tcp",
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
