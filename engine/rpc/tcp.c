/* SPDX-License-Identifier: GPL-2.0-only */
/* tcp.c - an RPC channel over one TCP connection, with record marking (RFC 5531, 11). */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "rpc/address.h"
#include "rpc/record.h"
#include "rpc/rpc.h"
#include "rpc/tcp_connect.h"
#include "util.h"

enum {
	MARK = 4,
	CALLS_QUEUED_MAX = 128, /* calls that one sendmsg() carries at most */
	HEADS_MAX = CALLS_QUEUED_MAX * (MARK + RPC_HEAD_MAX),
	SPANS_MAX = 2 * CALLS_QUEUED_MAX + 1,
	WAIT_MS = 100,
};

struct tcp {
	struct rpc_channel base;
	int fd;

	/* Sending: spans[first … last) are yet to go, in order; heads lie in one buffer. */
	struct iovec spans[SPANS_MAX];
	uint32_t first, last;
	uint8_t *heads;
	uint32_t heads_used;
	uint64_t queued, sent; /* positions in the outgoing stream */

	struct record_reader reader;
};

static struct tcp *tcp_of(struct rpc_channel *channel)
{
	return container_of(channel, struct tcp, base);
}

static const struct tcp *tcp_of_const(const struct rpc_channel *channel)
{
	return container_of(channel, struct tcp, base);
}

/* --- connecting --- */

static int tcp_open(struct rpc_channel **channel, const struct rpc_terms *terms)
{
	struct tcp *tcp = calloc(1, sizeof(*tcp));
	int error = -ENOMEM;

	if (!tcp)
		return -ENOMEM;
	tcp->base = (struct rpc_channel){&rpc_tcp, terms->counters};
	tcp->heads = malloc(HEADS_MAX);
	if (!tcp->heads)
		goto err_heads;
	error = record_reader_init(&tcp->reader, terms->handler, terms->reply_max);
	if (error)
		goto err_reader;
	tcp->fd = tcp_connect(&terms->address, terms->source_port);
	if (tcp->fd < 0) {
		error = tcp->fd;
		goto err_socket;
	}
	*channel = &tcp->base;
	return 0;

err_socket:
	record_reader_free(&tcp->reader);
err_reader:
	free(tcp->heads);
err_heads:
	free(tcp);
	return error;
}

static int tcp_connected(struct rpc_channel *channel)
{
	struct tcp *tcp = tcp_of(channel);
	struct pollfd poll_fd = {.fd = tcp->fd, .events = POLLOUT};
	struct timeval wait = {.tv_usec = WAIT_MS * 1000};
	int error = 0;
	socklen_t length = sizeof(error);

	if (poll(&poll_fd, 1, 0) <= 0) /* negative: a signal came first */
		return -EINPROGRESS;
	if (getsockopt(tcp->fd, SOL_SOCKET, SO_ERROR, &error, &length))
		return -errno;
	if (error)
		return -error;
	/* From here on blocking, with MSG_DONTWAIT where it must not: one system call less a reply.
	 */
	fcntl(tcp->fd, F_SETFL, fcntl(tcp->fd, F_GETFL) & ~O_NONBLOCK);
	setsockopt(tcp->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	return 0;
}

static uint64_t tcp_unheard(const struct rpc_channel *channel)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);

	if (getsockopt(tcp_of_const(channel)->fd, IPPROTO_TCP, TCP_INFO, &info, &length))
		return 0;
	return info.tcpi_last_ack_recv * MSEC;
}

static void tcp_close(struct rpc_channel *channel, bool abort)
{
	const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
	struct tcp *tcp = tcp_of(channel);
	int unacknowledged = 0;

	if (abort || ioctl(tcp->fd, SIOCOUTQ, &unacknowledged) || unacknowledged)
		setsockopt(tcp->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(tcp->fd);
	record_reader_free(&tcp->reader);
	free(tcp->heads);
	free(tcp);
}

/* --- sending --- */

static bool unsent(const struct tcp *tcp)
{
	return tcp->first != tcp->last;
}

/* A call takes at most three spans (head, bulk, pad), of which the pad joins the next head. */
static bool tcp_begin(struct rpc_channel *channel, struct xdr_out *head)
{
	struct tcp *tcp = tcp_of(channel);

	if (!unsent(tcp))
		tcp->first = tcp->last = tcp->heads_used = 0;
	if (tcp->last + 3 > SPANS_MAX || tcp->heads_used + MARK + RPC_HEAD_MAX + MARK > HEADS_MAX)
		return false;
	head->at = tcp->heads + tcp->heads_used + MARK;
	head->end = head->at + RPC_HEAD_MAX;
	head->bad = false;
	return true;
}

/* Appends bytes to be sent; those that follow the last span in memory lengthen it. */
static void add_span(struct tcp *tcp, const void *bytes, uint32_t length)
{
	struct iovec *last = unsent(tcp) ? &tcp->spans[tcp->last - 1] : NULL;

	if (last && (uint8_t *)last->iov_base + last->iov_len == bytes) {
		last->iov_len += length;
		return;
	}
	tcp->spans[tcp->last].iov_base = (void *)bytes;
	tcp->spans[tcp->last++].iov_len = length;
}

static uint64_t tcp_queue(struct rpc_channel *channel, uint32_t xid, const struct xdr_out *head,
			  const struct rpc_data *data)
{
	struct tcp *tcp = tcp_of(channel);
	uint32_t length = data->incoming ? 0 : data->length;
	uint8_t *start = tcp->heads + tcp->heads_used;
	uint32_t head_length = head->at - start; /* with the mark */
	uint32_t pad = xdr_pad(length);
	uint32_t message = head_length - MARK + length + pad;
	uint32_t mark = htobe32(message | 0x80000000u);

	memcpy(start, &mark, MARK);
	add_span(tcp, start, head_length);
	tcp->heads_used += head_length;
	if (length)
		add_span(tcp, data->at, length);
	if (pad) {
		/* Zeros, right before the next call's head: both go as one span. */
		memset(tcp->heads + tcp->heads_used, 0, pad);
		add_span(tcp, tcp->heads + tcp->heads_used, pad);
		tcp->heads_used += pad;
	}
	tcp->queued += MARK + message;
	return tcp->queued;
}

static uint64_t tcp_sent(const struct rpc_channel *channel)
{
	return tcp_of_const(channel)->sent;
}

static void drop_spans(struct tcp *tcp, size_t length)
{
	tcp->sent += length;
	while (length) {
		struct iovec *span = &tcp->spans[tcp->first];
		size_t part = min_of(length, span->iov_len);

		span->iov_base = (uint8_t *)span->iov_base + part;
		span->iov_len -= part;
		length -= part;
		if (!span->iov_len)
			tcp->first++;
	}
}

/* One span, which is what any number of READs make, costs less by the plainer call. */
static ssize_t send_spans(struct tcp *tcp)
{
	struct iovec *spans = &tcp->spans[tcp->first];
	struct msghdr message = {.msg_iov = spans, .msg_iovlen = tcp->last - tcp->first};

	if (message.msg_iovlen == 1)
		return send(tcp->fd, spans->iov_base, spans->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sendmsg(tcp->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int tcp_flush(struct rpc_channel *channel)
{
	struct tcp *tcp = tcp_of(channel);

	while (unsent(tcp)) {
		ssize_t length = send_spans(tcp);

		channel->counters->syscalls++;
		if (length < 0) {
			if (errno == EAGAIN || errno == EINTR)
				return 0;
			return -errno;
		}
		channel->counters->bytes_sent += length;
		drop_spans(tcp, length);
	}
	return 0;
}

/* --- receiving --- */

static int tcp_poll_fd(const struct rpc_channel *channel)
{
	return tcp_of_const(channel)->fd;
}

static short tcp_poll_events(const struct rpc_channel *channel)
{
	return unsent(tcp_of_const(channel)) ? POLLIN | POLLOUT : POLLIN;
}

/* Waits until the server takes more or sends something: both may be what the other end waits for.
 */
static void wait_both_ways(struct tcp *tcp)
{
	struct pollfd poll_fd = {.fd = tcp->fd, .events = POLLIN | POLLOUT};

	tcp->base.counters->syscalls++;
	poll(&poll_fd, 1, WAIT_MS);
}

static ssize_t receive_into(struct tcp *tcp, int flags)
{
	struct iovec space[2];
	struct msghdr message = {.msg_iov = space};

	message.msg_iovlen = record_space(&tcp->reader, space);
	if (message.msg_iovlen == 1)
		return recv(tcp->fd, space->iov_base, space->iov_len, flags);
	return recvmsg(tcp->fd, &message, flags);
}

static int tcp_receive(struct rpc_channel *channel, bool wait)
{
	struct tcp *tcp = tcp_of(channel);
	ssize_t length;

	if (wait && unsent(tcp)) {
		wait_both_ways(tcp);
		wait = false;
	}
	length = receive_into(tcp, wait ? 0 : MSG_DONTWAIT);
	channel->counters->syscalls++;
	if (length < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (!length)
		return -ECONNRESET;
	channel->counters->bytes_received += length;
	return record_took(&tcp->reader, length);
}

static bool tcp_receiving(const struct rpc_channel *channel)
{
	return record_is_midway(&tcp_of_const(channel)->reader);
}

/* --- names --- */

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
	const struct tcp *tcp = tcp_of_const(channel);

	end_name(tcp->fd, getsockname, local, size);
	end_name(tcp->fd, getpeername, remote, size);
}

const struct rpc_channel_ops rpc_tcp = {
	.name = "tcp",
	.open = tcp_open,
	.connected = tcp_connected,
	.poll_fd = tcp_poll_fd,
	.poll_events = tcp_poll_events,
	.begin = tcp_begin,
	.queue = tcp_queue,
	.sent = tcp_sent,
	.flush = tcp_flush,
	.receive = tcp_receive,
	.receiving = tcp_receiving,
	.names = tcp_names,
	.unheard = tcp_unheard,
	.close = tcp_close,
};
