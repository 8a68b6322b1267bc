/* SPDX-License-Identifier: GPL-2.0-only */
#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "replies.h"
#include "util.h"

enum {
	MARK = 4,
	HEAD_MAX = 4096,       /* no call has a longer one */
	STAGE = 256 * 1024,    /* many small calls by one receive */
	BULKY = 16 * 1024,     /* data from here on is thrown away unread, so … */
	AHEAD_OF_BULKY = 1024, /* … no more than the next head is read ahead */
};

#define LAST_FRAGMENT 0x80000000u

struct session {
	int fd;
	const struct service *service;

	uint32_t from, to;     /* bytes received and not yet used: stage[from … to) */
	uint32_t ahead;	       /* how far to fill the stage */
	uint32_t skip;	       /* bytes of a record, not received yet, that nobody wants */
	struct answer written; /* the WRITE whose data these are */

	struct replies replies;
	uint8_t stage[STAGE];
};

struct session *session_open(int fd, const struct service *service)
{
	struct session *session = malloc(sizeof(*session));

	if (!session)
		return NULL;
	session->fd = fd;
	session->service = service;
	session->from = session->to = session->skip = 0;
	session->ahead = STAGE;
	session->written.write = false;
	session->replies.first = session->replies.last = 0;
	return session;
}

void session_close(struct session *session)
{
	close(session->fd);
	free(session);
}

int session_fd(const struct session *session)
{
	return session->fd;
}

static uint32_t staged(const struct session *session)
{
	return session->to - session->from;
}

/* --- receiving --- */

/* The WRITE's data has come. There is room for its reply: see answer_record(). */
static void end_record(struct session *session)
{
	struct xdr_out head;

	if (!session->written.write)
		return;
	session->written.write = false;
	replies_begin(&session->replies, &head);
	service_wrote(&session->written, &head);
	replies_add(&session->replies, &head, 0);
}

/* Bytes received, 0 for none now, or a negative errno; *full: there may be more. */
static ssize_t receive(struct session *session, bool *full)
{
	/* TCP takes MSG_TRUNC for "throw it away" (tcp(7)): nothing is copied. */
	bool discard = session->skip;
	uint32_t want;
	ssize_t length;

	if (session->from) {
		memmove(session->stage, session->stage + session->from, staged(session));
		session->to = staged(session);
		session->from = 0;
	}
	/* No more than there is memory for, although none is touched: sanitizers cannot know. */
	want = discard ? min_of(session->skip, (uint32_t)STAGE) : session->ahead - session->to;
	length = recv(session->fd, session->stage + session->to, want,
		      MSG_DONTWAIT | (discard ? MSG_TRUNC : 0));
	session->service->counts->system_calls++;
	if (length <= 0)
		return length ? (errno == EAGAIN ? 0 : -errno) : -ECONNRESET;
	*full = length == want;
	if (!discard) {
		session->to += length;
		return length;
	}
	session->skip -= length;
	if (!session->skip)
		end_record(session);
	return length;
}

/* --- answering --- */

/* What is left of a record of `length` bytes whose head ends at `used` is not wanted. */
static void begin_skip(struct session *session, uint32_t length, uint32_t used)
{
	uint32_t rest = length - used, part;

	session->from += MARK + used;
	part = min_of(rest, staged(session));
	session->from += part;
	session->skip = rest - part;
	session->ahead = rest >= BULKY ? AHEAD_OF_BULKY : STAGE;
	if (!session->skip)
		end_record(session);
}

/* 1: one record was answered, 0: more bytes are needed, -EAGAIN: no room for its reply, -EPROTO. */
static int answer_record(struct session *session)
{
	const uint8_t *start = session->stage + session->from;
	struct xdr_in call = {start, session->stage + session->to, false};
	uint32_t mark = xdr_get_u32(&call);
	uint32_t length = mark & ~LAST_FRAGMENT;
	uint32_t have = call.end - call.at;
	struct answer answer;
	struct xdr_out head;

	if (call.bad)
		return 0;
	/* Nobody's client splits its calls into fragments. */
	if (!(mark & LAST_FRAGMENT) || length > session->service->write_max + HEAD_MAX)
		return -EPROTO;
	if (!replies_begin(&session->replies, &head))
		return -EAGAIN;
	if (have > length)
		call.end = call.at + length;
	if (!service_answer(session->service, &call, &head, &answer))
		return -EPROTO;
	if (call.bad) {
		session->ahead = STAGE;
		return have < length && have < HEAD_MAX ? 0 : -EPROTO;
	}
	session->written = answer;
	if (!answer.write)
		replies_add(&session->replies, &head, answer.data);
	begin_skip(session, length, call.at - start - MARK);
	return 1;
}

/* Answers all whole calls at hand. */
static int answer_staged(struct session *session)
{
	int error = 1;

	while (error > 0 && !session->skip)
		error = answer_record(session);
	return error < 0 ? error : 0;
}

int session_serve(struct session *session)
{
	bool full = true;

	for (;;) {
		int answered = answer_staged(session);
		int error = replies_send(&session->replies, session->fd, session->service->counts);
		ssize_t length;

		if (error)
			return error;
		if (answered == -EAGAIN) /* there is room again */
			continue;
		if (answered || !full)
			return answered;
		length = receive(session, &full);
		if (length <= 0)
			return (int)length;
	}
}
