/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session.h - a session with one server, and the channels that its calls go over.
 *
 * An I/O or a request becomes a call, which waits until its channel takes it, then counts as sent
 * until its reply comes; a server that asks to wait has it delayed. When a channel is lost, what
 * was sent over it waits again, with its number, so that the server's reply cache knows the call.
 * internal.h says which file does what.
 *
 * A channel is a connection (group/connection.h), and tells its job of what is finished by
 * conn_finish(). Nothing here blocks but session_reap() with `wait`. A negative
 * errno is meant for a channel, a positive one for an I/O.
 */
#pragma once

#include "group/connection.h"
#include "wire/message.h"
#include "client/call.h"
#include "client/link.h"
#include "client/notices.h"
#include "client/protocol.h"
#include "util.h"

/* What the channels to one server share. */
struct session {
	struct path *path;
	const struct protocol *protocol;
	const struct rpc_credentials *credentials;
	uint32_t calls_max; /* I/Os and requests at once, as it was made for */
	struct call_table calls;
	void *state;   /* the protocol's */
	void *renewal; /* … the request by which its tick() keeps that alive */
};

/* The reply that is being received, and the call that it answers. */
struct session_reply {
	struct call *call; /* NULL: none */
	struct rpc_reply_header header;
	enum verdict verdict;
	struct call_result result;
	bool untimely; /* it answers a call that was to be sent again: the channel is to go */
};

struct session_channel {
	struct conn conn; /* a channel is a connection of its job */
	struct session *session;
	struct link link;
	struct rpc_handler handler;
	struct notices notices;

	struct call_list waiting, sent, delayed;
	uint32_t unflushed; /* submitted since the last flush that sent */

	bool prepared;	    /* the protocol has done what comes before I/O … */
	struct call *setup; /* … or waits for this call, which stands in no list */
	int setup_error; /* it has failed, which was told: the channel is to go; a negative errno */
	int lost;	 /* what the latest one was lost by; a negative errno */
	uint64_t setup_at; /* when the next may go out: the server asks to wait */

	struct session_reply reply;

	uint64_t heard;	       /* clock_now() when bytes came from the server, or it was asked */
	bool asked;	       /* for a sign of life, which has not come yet: … */
	struct call *probe;    /* … by this call, the latest; NULL: there was no room for it */
	uint64_t acknowledged; /* the link's, when it was last looked at */
	bool answered;	       /* it has answered a call since the channel came up */
	uint32_t broken;       /* channels in a row that were lost by what the server sent */
	bool hopeless;	       /* there were too many of these: others are to take over */
};

/* Calls of up to `calls` I/Os and requests at once. 0 or -ENOMEM. `path` outlives the session. */
int session_init(struct session *session, struct path *path, uint32_t calls);
void session_free(struct session *session);

static inline struct session_channel *channel_of(struct conn *conn)
{
	return container_of(conn, struct session_channel, conn);
}

static inline const struct session_channel *channel_of_const(const struct conn *conn)
{
	return container_of(conn, const struct session_channel, conn);
}

/*
 * `channel` is of zeros but for its conn; terms->handler is set here. 0, or a negative errno;
 * session_close_channel() may be called also where that failed.
 */
int session_open_channel(struct session_channel *channel, struct session *session,
			 const struct rpc_channel_ops *ops, struct rpc_terms *terms);
/* Closes it; outstanding calls end without a result. */
void session_close_channel(struct session_channel *channel);

/* One step towards a channel that is connected, and prepared for I/O: 0, -EINPROGRESS, or what
 * failed; that was told where channel->setup_error is set. */
int session_ready(struct session_channel *channel);

/* Takes over a request, as session_submit() does an I/O. It goes out at the next flush. */
void session_request(struct session_channel *channel, struct request *request);

/* --- struct conn_ops, for a connection that is a channel --- */

void session_submit(struct conn *conn, struct conn_io *io);
void session_flush(struct conn *conn);
void session_reap(struct conn *conn, bool wait);
void session_tick(struct conn *conn);
enum conn_health session_health(const struct conn *conn);
bool session_reachable(const struct conn *conn);

/* The link is closed first, so that nobody touches the buffers. */
void session_abort(struct conn *conn, int error);

/*
 * WRITEs that the server has already got it may still carry out, after those that are sent in their
 * stead.
 */
bool session_hand_over(struct conn *conn);
