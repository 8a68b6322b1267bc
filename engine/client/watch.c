/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * watch.c - what time brings: a silent server is asked for a sign of life, overdue calls go out
 * again or fail, delayed ones have waited long enough.
 */
#include <errno.h>

#include "client/internal.h"
#include "client/timers.h"

/* --- silence --- */

static uint64_t silence_max(const struct session_channel *channel)
{
	return timer_silence(config_of(channel));
}

/* Long calls are no silence: a server that owes replies is asked before it is given up. */
static void ask_if_silent(struct session_channel *channel, uint64_t now)
{
	const struct call *oldest = channel->setup ?: TAILQ_FIRST(&channel->sent);

	if (channel->link.up && oldest && !channel->asked &&
	    now - max_of(channel->heard, oldest->last_sent) > silence_max(channel))
		channel_ask(channel);
}

/*
 * A probe stands behind the data of WRITEs, or waits for room: while such data is acknowledged, and
 * the probe itself is not, the server has not been asked yet.
 */
static void note_progress(struct session_channel *channel, uint64_t now)
{
	const struct link *link = &channel->link;
	uint64_t acknowledged = link->ops->acknowledged(link->channel);

	if (acknowledged == channel->acknowledged)
		return;
	channel->acknowledged = acknowledged;
	if (!channel->probe)
		channel_ask(channel);
	else if (acknowledged < channel->probe->position)
		channel->heard = now;
}

static bool unanswered(const struct session_channel *channel, uint64_t now)
{
	return channel->asked && now - channel->heard > silence_max(channel);
}

enum conn_health session_health(const struct conn *conn)
{
	const struct session_channel *channel = channel_of_const(conn);
	uint64_t now = conn->job->now;

	if (channel->hopeless || unanswered(channel, now) ||
	    link_down_for(&channel->link, now) > DOWN_MAX)
		return CONN_SILENT;
	return channel->answered ? CONN_ANSWERS : CONN_UNKNOWN;
}

bool session_reachable(const struct conn *conn)
{
	const struct link *link = &channel_of_const(conn)->link;

	return link->up && link->ops->unheard(link->channel) <= HEARD_MAX;
}

/* Where others take over, failover tells of it. */
static void say_silent(struct session_channel *channel)
{
	if (!conn_may_retire(&channel->conn))
		notice_silent(&channel->notices);
}

/*
 * True where the other host has sent nothing, not even an acknowledgement, for so long that it
 * cannot be reached. A server that is alive and does not read is not meant: its host answers.
 */
static bool cut_off(const struct session_channel *channel, uint64_t now)
{
	const struct link *link = &channel->link;

	return (channel->setup || !TAILQ_EMPTY(&channel->sent)) &&
	       now - channel->heard > UNHEARD_MAX &&
	       link->ops->unheard(link->channel) > UNHEARD_MAX;
}

/* --- calls --- */

/* soft: what took longer than its retransmissions fails, and so may not be in a channel any more.
 */
static void enforce_soft(struct session_channel *channel, uint64_t now)
{
	const struct path_config *config = config_of(channel);
	struct call *call, *next;

	TAILQ_FOREACH (call, &channel->sent, link) {
		if (!timer_expired(call, config, now))
			continue;
		channel_lose(channel, -ETIMEDOUT);
		break;
	}
	for (call = TAILQ_FIRST(&channel->waiting); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (!call->since)
			call->since =
				now; /* not sent yet: its time runs from the first look at it */
		if (!timer_expired(call, config, now))
			continue;
		notice_expired(&channel->notices);
		TAILQ_REMOVE(&channel->waiting, call, link);
		call_finish(call, false, ETIMEDOUT);
	}
}

/*
 * True where an overdue call calls for another connection: on a transport that delivers or breaks,
 * or after a major time-out (nfs(5), retrans). One that brings bytes is trusted: the server is at
 * work on something else. A protocol that sends once on a channel does not wait for so long.
 */
static bool wants_another(const struct session_channel *channel, const struct call *call,
			  uint64_t now)
{
	const struct path_config *config = config_of(channel);
	bool silent = channel->heard < call->last_sent;

	if (channel->link.ops->traits & RPC_SENDS_ONCE)
		return true;
	if (channel->session->protocol->sends_once)
		return silent || now - call->last_sent > timer_major(config);
	return silent && call->tries > config->retrans;
}

/* False where its way out, or its reply's way in, is not finished yet. */
static bool may_go_again(const struct session_channel *channel, const struct call *call)
{
	const struct link *link = &channel->link;

	return link->ops->traits & RPC_SENDS_ONCE ||
	       (call != channel->reply.call && link->ops->sent(link->channel) >= call->position);
}

static void retransmit(struct session_channel *channel, uint64_t now)
{
	struct call *call = channel->setup, *next;

	if (call && timer_overdue(call, config_of(channel), now)) {
		say_silent(channel);
		channel_lose(channel, -ETIMEDOUT);
		return;
	}

	for (call = TAILQ_FIRST(&channel->sent); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (!timer_overdue(call, config_of(channel), now))
			continue;
		say_silent(channel);
		if (!may_go_again(channel, call))
			continue;
		if (wants_another(channel, call, now)) {
			channel_lose(channel, -ETIMEDOUT);
			return;
		}
		if (channel->session->protocol->sends_once)
			continue;
		call->last_sent = 0; /* until it has gone out again a reply is dropped */
		TAILQ_REMOVE(&channel->sent, call, link);
		TAILQ_INSERT_TAIL(&channel->waiting, call, link);
	}
}

/* Those that have a number go first: the others may wait for just that number. */
static void resume_delayed(struct session_channel *channel, uint64_t now)
{
	struct call *call, *next;

	for (call = TAILQ_FIRST(&channel->delayed); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (call->resume_at > now)
			continue;
		TAILQ_REMOVE(&channel->delayed, call, link);
		if (call->tries)
			TAILQ_INSERT_HEAD(&channel->waiting, call, link);
		else
			TAILQ_INSERT_TAIL(&channel->waiting, call, link);
	}
}

/* --- what is due --- */

/* With `spare` others take over what is overdue, and tell of it. */
static void watch_server(struct session_channel *channel, uint64_t now, bool spare)
{
	struct conn *conn = &channel->conn;

	if (channel->asked)
		note_progress(channel, now);
	if (spare)
		ask_if_silent(channel, now);
	if (conn->dead && unanswered(channel, now))
		channel_lose(channel, -ETIMEDOUT);
	if (spare)
		return;
	if (!conn->dead && conn->outstanding && link_down_for(&channel->link, now) > DOWN_MAX)
		notice_silent(&channel->notices);
	enforce_soft(channel, now);
}

bool channel_watch(struct session_channel *channel, uint64_t now)
{
	bool spare = conn_may_retire(&channel->conn);

	watch_server(channel, now, spare);
	if (spare && session_health(&channel->conn) == CONN_SILENT)
		return false;
	resume_delayed(channel, now);
	if (channel->session->protocol->tick)
		channel->session->protocol->tick(channel, now);
	if (channel->link.up && cut_off(channel, now)) {
		say_silent(channel);
		channel_lose(channel, -ETIMEDOUT);
	}
	if (channel->link.up)
		retransmit(channel, now);
	return true;
}
