/* SPDX-License-Identifier: GPL-2.0-only */
#include "worker.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "replies.h"
#include "util.h"
#include "wire/record.h"

enum {
	HEAD_MAX = 4096,       /* no call has a longer one */
	STAGE = 256 * 1024,    /* many small calls by one receive */
	BULKY = 16 * 1024,     /* data from here on is thrown away unread, so … */
	AHEAD_OF_BULKY = 1024, /* … no more than the next head is read ahead */
};

struct connection {
	int fd;
	struct front *front;

	uint32_t from, to;   /* bytes received and not yet used: stage[from … to) */
	uint32_t ahead;	     /* how far to fill the stage */
	uint32_t skip;	     /* bytes of a record, not received yet, that nobody wants */
	struct xdr_out head; /* the reply to that record, added when the record has come */
	uint32_t data;	     /* of that reply */

	struct replies replies;
	uint8_t stage[STAGE];
};

struct connection *connection_open(int fd, struct front *front)
{
	struct connection *connection = malloc(sizeof(*connection));

	if (!connection)
		return NULL;
	connection->fd = fd;
	connection->front = front;
	connection->from = connection->to = connection->skip = 0;
	connection->ahead = STAGE;
	connection->replies.first = connection->replies.last = 0;
	return connection;
}

void connection_close(struct connection *connection)
{
	close(connection->fd);
	free(connection);
}

int connection_fd(const struct connection *connection)
{
	return connection->fd;
}

static uint32_t staged(const struct connection *connection)
{
	return connection->to - connection->from;
}

/* --- receiving --- */

/* All of it has come. There is room for its reply: see answer_record(). */
static void end_record(struct connection *connection)
{
	replies_add(&connection->replies, &connection->head, connection->data);
}

/* Bytes received, 0 for none now, or a negative errno; *full: there may be more. */
static ssize_t receive(struct connection *connection, bool *full)
{
	/* TCP takes MSG_TRUNC for "throw it away" (tcp(7)): nothing is copied. */
	bool discard = connection->skip;
	uint32_t want;
	ssize_t length;

	if (connection->from) {
		memmove(connection->stage, connection->stage + connection->from,
			staged(connection));
		connection->to = staged(connection);
		connection->from = 0;
	}
	/* No more than there is memory for, although none is touched: sanitizers cannot know. */
	want = discard ? min_of(connection->skip, (uint32_t)STAGE)
		       : connection->ahead - connection->to;
	length = recv(connection->fd, connection->stage + connection->to, want,
		      MSG_DONTWAIT | (discard ? MSG_TRUNC : 0));
	if (length <= 0)
		return length ? (errno == EAGAIN ? 0 : -errno) : -ECONNRESET;
	*full = length == want;
	if (!discard) {
		connection->to += length;
		return length;
	}
	connection->skip -= length;
	if (!connection->skip)
		end_record(connection);
	return length;
}

/* --- answering --- */

/* What is left of a record of `length` bytes whose head ends at `used` is not wanted. */
static void begin_skip(struct connection *connection, uint32_t length, uint32_t used)
{
	uint32_t rest = length - used, part;

	connection->from += RECORD_MARK_SIZE + used;
	part = min_of(rest, staged(connection));
	connection->from += part;
	connection->skip = rest - part;
	connection->ahead = rest >= BULKY ? AHEAD_OF_BULKY : STAGE;
	if (!connection->skip)
		end_record(connection);
}

/* 1: one record was answered, 0: more bytes are needed, -EAGAIN: no room for its reply, -EPROTO. */
static int answer_record(struct connection *connection)
{
	const uint8_t *start = connection->stage + connection->from;
	struct xdr_in call = {start, connection->stage + connection->to, false};
	uint32_t mark = xdr_get_u32(&call);
	uint32_t length = mark & ~RECORD_LAST_FRAGMENT;
	uint32_t have = call.end - call.at;

	if (call.bad)
		return 0;
	/* Nobody's client splits its calls into fragments. */
	if (!(mark & RECORD_LAST_FRAGMENT) ||
	    length > connection->front->limits.write_max + HEAD_MAX)
		return -EPROTO;
	if (!replies_begin(&connection->replies, &connection->head))
		return -EAGAIN;
	if (have > length)
		call.end = call.at + length;
	if (!service_answer(connection->front, &call, have >= length, &connection->head,
			    &connection->data))
		return -EPROTO;
	if (call.bad) {
		connection->ahead = STAGE;
		return have < length && have < HEAD_MAX ? 0 : -EPROTO;
	}
	begin_skip(connection, length, call.at - start - RECORD_MARK_SIZE);
	return 1;
}

/* Answers all whole calls at hand. */
static int answer_staged(struct connection *connection)
{
	int error = 1;

	while (error > 0 && !connection->skip)
		error = answer_record(connection);
	return error < 0 ? error : 0;
}

int connection_serve(struct connection *connection)
{
	bool full = true;

	for (;;) {
		int answered = answer_staged(connection);
		int error = replies_send(&connection->replies, connection->fd);
		ssize_t length;

		if (error)
			return error;
		if (answered == -EAGAIN) /* there is room again */
			continue;
		if (answered || !full)
			return answered;
		length = receive(connection, &full);
		if (length <= 0)
			return (int)length;
	}
}
