/* SPDX-License-Identifier: GPL-2.0-only */
/* loss.c - what becomes of the calls of a channel that goes: they wait for the next one, fail, or
 * go to other connections. */
#include <errno.h>

#include "client/internal.h"

/* Channels in a row that may be lost by what the server sends, before I/O fails for it. */
enum { BROKEN_MAX = 3 };

void channel_drop_setup(struct session_channel *channel, bool answered)
{
	if (channel->setup)
		call_drop(channel->setup, answered);
	channel->setup = NULL;
}

void channel_drop_probe(struct session_channel *channel)
{
	if (channel->probe)
		call_drop(channel->probe, !channel->asked);
	channel->probe = NULL;
	channel->asked = false;
}

void session_close_channel(struct session_channel *channel)
{
	link_close(&channel->link, channel->conn.outstanding || channel->asked || channel->setup ||
					   !TAILQ_EMPTY(&channel->sent));
	channel_drop_probe(channel);
	channel_drop_setup(channel, false);
	channel->prepared = false;
	channel->reply = (struct session_reply){0};
	channel->answered = false;
	channel->conn.poll_epoch = channel->link.epoch;
}

static void fail_list(struct session_channel *channel, struct call_list *list, int error)
{
	struct call *call;

	while ((call = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, call, link);
		call_finish(call, false, error);
	}
}

void session_abort(struct conn *conn, int error)
{
	struct session_channel *channel = channel_of(conn);

	session_close_channel(channel);
	fail_list(channel, &channel->sent, error);
	fail_list(channel, &channel->waiting, error);
	fail_list(channel, &channel->delayed, error);
}

/* The server breaks the protocol again and again: others take over, or the I/O fails. */
static void give_up(struct session_channel *channel)
{
	notice(&channel->notices, "the server broke the protocol %u times running: giving up",
	       channel->broken);
	if (conn_may_retire(&channel->conn))
		channel->hopeless = channel->conn.job->health_changed = true;
	else
		session_abort(&channel->conn, EPROTO);
}

/* What was sent goes out first on the next channel, in its order. */
static void wait_again(struct session_channel *channel)
{
	struct call *call;

	TAILQ_FOREACH (call, &channel->sent, link)
		call->last_sent = 0;
	TAILQ_CONCAT(&channel->sent, &channel->waiting, link);
	TAILQ_CONCAT(&channel->waiting, &channel->sent, link);
}

void channel_lose(struct session_channel *channel, int error)
{
	bool was_up = channel->link.up;

	channel->lost = error;
	session_close_channel(channel);
	wait_again(channel);
	link_retry_later(&channel->link);
	if (was_up && !channel->conn.dead && channel->conn.outstanding)
		notice_lost(&channel->notices, channel->conn.outstanding, error);
	if (link_broke_protocol(error) && ++channel->broken >= BROKEN_MAX)
		give_up(channel);
}

bool session_hand_over(struct conn *conn)
{
	struct session_channel *channel = channel_of(conn);
	struct call *call;

	notice_handed_over(&channel->notices);
	session_close_channel(channel);
	link_retry_later(&channel->link);
	channel->broken = 0;
	channel->hopeless = false;
	TAILQ_CONCAT(&channel->sent, &channel->delayed, link);
	TAILQ_CONCAT(&channel->sent, &channel->waiting, link);
	while ((call = TAILQ_FIRST(&channel->sent))) {
		struct conn_io *io = call->io;

		TAILQ_REMOVE(&channel->sent, call, link);
		if (!io) {
			call_finish(call, false, ECANCELED);
			continue;
		}
		if (call->tries)
			call_renew(call, false);
		call_give_back(&channel->session->calls, call);
		conn_requeue(conn, io);
	}
	return true;
}
