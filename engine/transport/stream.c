/* SPDX-License-Identifier: GPL-2.0-only */
#include "transport/stream.h"

#include <stdlib.h>
#include <string.h>

#include "pool/pool.h"
#include "wait.h"

enum {
	BEHIND_DATA = 4 + RPC_TAIL_MAX, /* pad and tail */
	HEADS_MAX = STREAM_CALLS_MAX * (RECORD_MARK_SIZE + RPC_STREAM_HEAD_MAX) + BEHIND_DATA,
};

/* --- buffers --- */

static bool unsent(const struct stream *stream)
{
	return stream->first != stream->last;
}

static struct stream_buffers *new_buffers(uint32_t reply_head_max)
{
	struct stream_buffers *buffers = malloc(sizeof(*buffers) + HEADS_MAX);

	if (buffers && (buffers->stage = malloc(record_stage_size(reply_head_max))))
		return buffers;
	free(buffers);
	return NULL;
}

/* False: out of memory. */
static bool borrow(struct stream *stream)
{
	struct stream_buffers *buffers = stream->buffers;

	if (buffers)
		return true;
	if ((buffers = SLIST_FIRST(stream->loans)))
		SLIST_REMOVE_HEAD(stream->loans, link);
	else
		buffers = new_buffers(stream->reader.head_max);
	stream->buffers = buffers;
	stream->reader.stage = buffers ? buffers->stage : NULL;
	return buffers;
}

/* Keeps them while a call is partly sent, or the head of a reply partly received. */
static void give_back(struct stream *stream)
{
	if (!stream->buffers || unsent(stream) || !record_stage_is_empty(&stream->reader))
		return;
	SLIST_INSERT_HEAD(stream->loans, stream->buffers, link);
	stream->buffers = NULL;
}

void rpc_loans_free(struct rpc_loans *loans)
{
	struct stream_buffers *buffers;

	while ((buffers = SLIST_FIRST(loans))) {
		SLIST_REMOVE_HEAD(loans, link);
		free(buffers->stage);
		free(buffers);
	}
}

/* --- opening and closing --- */

static void say_no_port(const struct rpc_address *address, char *why)
{
	bool given = address->local.ss_family != AF_UNSPEC;
	char local[ADDRESS_TEXT], remote[80];

	rpc_address_text((const struct sockaddr *)&address->remote, remote, sizeof(remote));
	snprintf(why, RPC_WHY_MAX, "no port is free from %s to %s",
		 given ? address_text(&address->local, local) : "this machine's address", remote);
}

int stream_open(struct stream *stream, const struct stream_io *io, const struct rpc_terms *terms)
{
	uint32_t head_max = terms->head_max ?: RPC_REPLY_HEAD_MAX;

	stream->base.counters = terms->counters;
	stream->base.head_max = RPC_REPLY_HEAD_MAX;
	stream->io = io;
	portion_init(&stream->portion);
	stream->loans = terms->loans;
	record_reader_init(&stream->reader, terms->handler, terms->reply_max, head_max, NULL);
	stream->base.fd = tcp_connect(&terms->address, terms->source_port);
	if (stream->base.fd >= 0)
		return 0;
	if (stream->base.fd == -EADDRINUSE)
		say_no_port(&terms->address, terms->why);
	return stream->base.fd;
}

void stream_close(struct stream *stream, bool at_once)
{
	tcp_socket_close(stream->base.fd, at_once);
	if (stream->buffers)
		SLIST_INSERT_HEAD(stream->loans, stream->buffers, link);
}

/* --- the socket --- */

/* send(2) costs less for one span; the heads of READs in a row form one span. */
ssize_t stream_send(struct stream *stream, struct iovec *spans, int count)
{
	const struct msghdr message = {.msg_iov = spans, .msg_iovlen = (size_t)count};
	const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	ssize_t length;

	stream->base.counters->syscalls++;
	length = count == 1 ? send(stream->base.fd, spans->iov_base, spans->iov_len, flags)
			    : sendmsg(stream->base.fd, &message, flags);
	return length < 0 ? -errno : length;
}

ssize_t stream_recv(struct stream *stream, struct iovec *space, int count, bool wait)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
	struct msghdr message = {.msg_iov = space, .msg_iovlen = (size_t)count};
	struct timespec stamp = {0};
	const struct cmsghdr *first;
	const int drop = space->iov_base ? 0 : MSG_TRUNC; /* tcp(7): the kernel copies nothing */
	const int flags = drop | (wait ? 0 : MSG_DONTWAIT);
	ssize_t length;

	stream->base.counters->syscalls++;
	if (stream->stamps) {
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
	}
	length = count == 1 && !stream->stamps
			 ? recv(stream->base.fd, space->iov_base, space->iov_len, flags)
			 : recvmsg(stream->base.fd, &message, flags);
	if (length < 0)
		return -errno;
	first = CMSG_FIRSTHDR(&message);
	if (first) /* the stamp, the only control message requested */
		memcpy(&stamp, CMSG_DATA(first), sizeof(stamp));
	stream->base.stamp = nanoseconds_of(&stamp);
	return length;
}

/* --- sending --- */

/* A call takes at most three spans: head, bulk data, and pad and tail, which join the next head. */
bool stream_begin(struct rpc_channel *channel, struct xdr_out *head)
{
	struct stream *stream = stream_of(channel);

	stream->no_memory = !borrow(stream);
	if (!unsent(stream))
		stream->first = stream->last = stream->heads_used = 0;
	if (stream->no_memory || stream->last + 3 > STREAM_SPANS_MAX ||
	    stream->heads_used + RECORD_MARK_SIZE + RPC_STREAM_HEAD_MAX + BEHIND_DATA > HEADS_MAX)
		return false;
	head->at = stream->buffers->heads + stream->heads_used + RECORD_MARK_SIZE;
	head->end = head->at + RPC_STREAM_HEAD_MAX;
	head->bad = false;
	return true;
}

/* Appends bytes to be sent; where they follow the last span in memory they lengthen that span. */
static inline void add_span(struct stream *stream, void *bytes, uint32_t length)
{
	struct iovec *spans = stream->buffers->spans;
	struct iovec *last = unsent(stream) ? &spans[stream->last - 1] : NULL;

	if (last && (uint8_t *)last->iov_base + last->iov_len == bytes)
		last->iov_len += length;
	else
		spans[stream->last++] = (struct iovec){bytes, length};
}

uint64_t stream_queue(struct rpc_channel *channel, uint32_t xid, const struct xdr_out *head,
		      const struct rpc_payload *data)
{
	struct stream *stream = stream_of(channel);
	uint32_t length = data->incoming ? 0 : data->length, pad = xdr_pad(length);
	uint8_t *start = stream->buffers->heads + stream->heads_used;
	uint32_t head_length = head->at - start; /* with the mark */
	uint32_t behind = pad + data->tail_length;
	uint32_t message = head_length - RECORD_MARK_SIZE + length + behind;
	uint32_t mark = htobe32(message | RECORD_LAST_FRAGMENT);

	memcpy(start, &mark, RECORD_MARK_SIZE);
	add_span(stream, start, head_length);
	stream->heads_used += head_length;
	if (length)
		add_span(stream, data->at, length);
	if (behind) {
		/* Right before the next call's head, so that both go as one span. */
		memset(start + head_length, 0, pad);
		if (data->tail_length)
			memcpy(start + head_length + pad, data->tail, data->tail_length);
		add_span(stream, start + head_length, behind);
		stream->heads_used += behind;
	}
	record_expect(&stream->reader);
	stream->queued += RECORD_MARK_SIZE + message;
	return stream->queued;
}

uint64_t stream_sent(const struct rpc_channel *channel)
{
	return stream_of(channel)->sent;
}

/* Turns errors that only mean "try again later" into 0. */
static int no_failure(ssize_t error)
{
	return error == -EAGAIN || error == -EINTR ? 0 : (int)error;
}

int stream_flush(struct rpc_channel *channel)
{
	struct stream *stream = stream_of(channel);

	if (stream->no_memory)
		return -ENOMEM;
	while (unsent(stream)) {
		struct iovec *spans = stream->buffers->spans;
		ssize_t length = stream->io->write(stream, &spans[stream->first],
						   (int)(stream->last - stream->first));

		if (length < 0)
			return no_failure(length);
		channel->counters->sends++;
		channel->counters->bytes_sent += length;
		stream->sent += length;
		stream->first = iovec_skip(spans, stream->first, length);
	}
	give_back(stream);
	return 0;
}

/* --- receiving --- */

/* *behind: all bytes to be dropped were received, and more may follow. */
static int receive_once(struct stream *stream, bool wait, bool *behind)
{
	struct transport_counters *counters = stream->base.counters;
	struct iovec space[2];
	int count = record_space(&stream->reader, space);
	ssize_t length = stream->io->read(stream, space, count, wait);

	*behind = false;
	if (length < 0)
		return no_failure(length);
	if (!length)
		return -ECONNRESET;
	counters->receives++;
	counters->bytes_received += length;
	if (!space[0].iov_base) {
		counters->bytes_discarded += length;
		*behind = (size_t)length == space[0].iov_len;
	}
	return record_took(&stream->reader, length);
}

int stream_receive(struct rpc_channel *channel, bool wait)
{
	struct stream *stream = stream_of(channel);
	bool behind, much;
	int error;

	if (!borrow(stream))
		return -ENOMEM;
	if (wait && unsent(stream)) { /* the server may wait for us to send or to receive */
		struct pollfd poll_fd = {.fd = stream->base.fd, .events = POLLIN | POLLOUT};

		stream->base.counters->syscalls++;
		poll(&poll_fd, 1, WAIT_SLICE_MS);
		wait = false;
	}
	much = record_takes_portion(&stream->reader);
	if (much && portion_due(&stream->portion)) {
		const struct portion_sample now = portion_sample(channel->counters->bytes_received);

		portion_weigh(&stream->portion, &now);
		stream->reader.portion = stream->portion.part;
	}
	stream->base.starved = much && stream->portion.part > PORTION_HALF;
	error = receive_once(stream, wait, &behind);
	if (!error && behind)
		error = receive_once(stream, false, &behind);
	give_back(stream);
	return error;
}

bool stream_receiving(const struct rpc_channel *channel)
{
	return record_is_midway(&stream_of(channel)->reader);
}

short stream_poll_events(const struct rpc_channel *channel)
{
	return unsent(stream_of(channel)) ? POLLIN | POLLOUT : POLLIN;
}

/* --- over TCP, in clear --- */

static int tcp_open(struct rpc_channel **channel, const struct rpc_terms *terms)
{
	static const struct stream_io io = {stream_send, stream_recv};
	const int on = 1;
	struct stream *tcp = calloc(1, sizeof(*tcp));
	int error = tcp ? stream_open(tcp, &io, terms) : -ENOMEM;

	if (error) {
		free(tcp);
		return error;
	}
	tcp->stamps = terms->stamps &&
		      !setsockopt(tcp->base.fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
	*channel = &tcp->base;
	return 0;
}

static int tcp_connected(struct rpc_channel *channel)
{
	return tcp_socket_connected(channel->fd);
}

static uint64_t tcp_acknowledged(const struct rpc_channel *channel)
{
	const struct stream *tcp = stream_of(channel);

	return tcp->sent - tcp_socket_unacknowledged(tcp->base.fd);
}

static void tcp_close(struct rpc_channel *channel, bool abort)
{
	struct stream *tcp = stream_of(channel);

	stream_close(tcp, abort || tcp_socket_unacknowledged(channel->fd));
	free(tcp);
}

const struct rpc_channel_ops rpc_tcp = {
	.name = "tcp",
	.traits = RPC_DROPS_DATA,
	.open = tcp_open,
	.connected = tcp_connected,
	.poll_events = stream_poll_events,
	.begin = stream_begin,
	.queue = stream_queue,
	.sent = stream_sent,
	.flush = stream_flush,
	.receive = stream_receive,
	.receiving = stream_receiving,
	.names = tcp_socket_names,
	.unheard = tcp_socket_unheard,
	.acknowledged = tcp_acknowledged,
	.close = tcp_close,
};

int tcp_probe(const struct rpc_address *address, uint64_t timeout, bool (*stop)(void))
{
	struct pollfd poll_fd = {.fd = tcp_connect(address, NULL), .events = POLLOUT};
	struct patience patience = patience_begin(clock_now(), timeout);
	int error = poll_fd.fd, waited = 0;

	if (error < 0)
		return error;
	while (!waited && (error = tcp_socket_connected(poll_fd.fd)) == -EINPROGRESS)
		waited = wait_part(&poll_fd, 1, WAIT_SLICE_MS, &patience, stop);
	tcp_socket_close(poll_fd.fd, false);
	return waited ?: error;
}
