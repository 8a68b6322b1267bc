/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stream.h - the common part of RPC channels over a TCP socket: gathers calls, with record marks
 * (RFC 5531, 11), into as few sends as possible, and receives replies by a record reader.
 *
 * A channel embeds a struct stream and gives it the two functions that move bytes. The functions
 * below that take a struct rpc_channel are entries of its struct rpc_channel_ops.
 */
#pragma once

#include <sys/types.h>

#include "transport/portion.h"
#include "transport/transport.h"
#include "wire/record.h"
#include "util.h"

enum {
	STREAM_CALLS_MAX = 128, /* WRITEs in one write() at most; READs may be more */
	STREAM_SPANS_MAX = 2 * STREAM_CALLS_MAX + 1,
};

/* What a stream sends from, and receives into. */
struct stream_buffers {
	SLIST_ENTRY(stream_buffers) link; /* in the loans, while no stream has it */
	struct iovec spans[STREAM_SPANS_MAX];
	uint8_t *stage;
	uint8_t heads[];
};

struct stream;

/*
 * The functions that move bytes. They count their system calls, and return the bytes moved, or a
 * negative errno: -EAGAIN or -EINTR if none can be moved now, any other if the channel has failed.
 * write() never waits. read() waits, if `wait` is set, for WAIT_SLICE_MS at most; it returns 0 if
 * the other end has closed, and drops bytes for a space at NULL, which only channels with
 * RPC_DROPS_DATA get.
 */
struct stream_io {
	ssize_t (*write)(struct stream *stream, struct iovec *spans, int count);
	ssize_t (*read)(struct stream *stream, struct iovec *space, int count, bool wait);
};

/* The stream_io of a socket in clear. */
ssize_t stream_send(struct stream *stream, struct iovec *spans, int count);
ssize_t stream_recv(struct stream *stream, struct iovec *space, int count, bool wait);

struct stream {
	struct rpc_channel base;
	const struct stream_io *io;
	bool stamps; /* the socket has SO_TIMESTAMPNS */

	struct stream_buffers *buffers; /* NULL: the stream has none now */
	struct rpc_loans *loans;	/* it borrows buffers, and gives them back */
	bool no_memory;			/* begin() found no buffers: flush() fails */

	/* Sending: spans[first … last) are unsent, in order; heads lie in one buffer. */
	uint32_t first, last;
	uint32_t heads_used;
	uint64_t queued, sent; /* positions in the outgoing stream */

	struct record_reader reader;
	struct portion portion;
};

static inline struct stream *stream_of(const struct rpc_channel *channel)
{
	return container_of(channel, struct stream, base);
}

/* Begins to connect. 0, or a negative errno with nothing to close. */
int stream_open(struct stream *stream, const struct stream_io *io, const struct rpc_terms *terms);
/* `at_once`: tcp_socket_close()'s. */
void stream_close(struct stream *stream, bool at_once);

bool stream_begin(struct rpc_channel *channel, struct xdr_out *head);
uint64_t stream_queue(struct rpc_channel *channel, uint32_t xid, const struct xdr_out *head,
		      const struct rpc_payload *data);
uint64_t stream_sent(const struct rpc_channel *channel);
int stream_flush(struct rpc_channel *channel);
int stream_receive(struct rpc_channel *channel, bool wait);
bool stream_receiving(const struct rpc_channel *channel);
short stream_poll_events(const struct rpc_channel *channel);

/* --- tcp_socket.c: a TCP socket --- */

/*
 * Returns a non-blocking socket that is connecting, or a negative errno. It is bound to
 * *source_port where that is not 0 and is free; *source_port becomes its port. source_port may be
 * NULL.
 */
int tcp_connect(const struct rpc_address *address, uint16_t *source_port);

/*
 * 0: connected; -EINPROGRESS: not yet; another negative errno: failed. A connected socket blocks,
 * for WAIT_SLICE_MS when it receives, unless MSG_DONTWAIT is given.
 */
int tcp_socket_connected(int fd);

/* Bytes written and not acknowledged yet, whether sent or not. */
uint64_t tcp_socket_unacknowledged(int fd);

/* `at_once`: discards unacknowledged bytes, and frees the port. */
void tcp_socket_close(int fd, bool at_once);

/* Entries of struct rpc_channel_ops. */
uint64_t tcp_socket_unheard(const struct rpc_channel *channel);
void tcp_socket_names(const struct rpc_channel *channel, char *local, char *remote, size_t size);
