/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * client.c - makes a client, connects it and ticks it. A tick probes a silent server, sends overdue
 * calls again or fails them, and resumes delayed calls.
 */
#include "client/client.h"

#include <stdlib.h>

/* --- silence --- */

/* Probes a server that owes replies: a slow call alone does not show that the server is dead. */
static void probe_if_silent(struct rpc_client *rpc, uint64_t now)
{
	const struct call *oldest = rpc->setup ?: TAILQ_FIRST(&rpc->sent);

	if (rpc->link.up && oldest && oldest->last_sent && !rpc->probed &&
	    now - max_of(rpc->heard, oldest->last_sent) > timer_silence(rpc->timing))
		client_probe(rpc);
}

/*
 * Restarts the wait for a probe's answer while data before the probe is still being acknowledged:
 * the probe is queued behind the data of WRITEs, and has not reached the server yet.
 */
static void note_progress(struct rpc_client *rpc, uint64_t now)
{
	const struct link *link = &rpc->link;
	uint64_t acknowledged = link->ops->acknowledged(link->channel);

	if (acknowledged == rpc->acknowledged)
		return;
	rpc->acknowledged = acknowledged;
	if (!rpc->probe)
		client_probe(rpc);
	else if (acknowledged < rpc->probe->position)
		rpc->heard = now;
}

static bool unanswered(const struct rpc_client *rpc, uint64_t now)
{
	return rpc->probed && now - rpc->heard > timer_silence(rpc->timing);
}

/* A long wait for a Kerberos context also counts as silence: the KDC may be down. Until the client
 * has its context, an answer to a probe does not show that the server serves data. */
enum client_health client_health(const struct rpc_client *rpc)
{
	uint64_t now = rpc->clock->now;

	if (rpc->protocol_broken || unanswered(rpc, now) ||
	    client_without_context_for(rpc) > timer_silence(rpc->timing) ||
	    link_down_for(&rpc->link, now) > DOWN_MAX)
		return CLIENT_SILENT;
	if (rpc->answered && (rpc->prepared || !rpc->credentials->flavor->context))
		return CLIENT_ANSWERS;
	return CLIENT_UNKNOWN;
}

/* Logs the silence, unless other connections take over: then failover reports it. */
static void say_silent(struct rpc_client *rpc)
{
	if (!client_is_replaceable(rpc))
		rpc->log->silent(rpc);
}

/* True if the other host has sent nothing, not even an acknowledgement, for UNHEARD_MAX. If only
 * the server hangs, its host still acknowledges. */
static bool cut_off(const struct rpc_client *rpc, uint64_t now)
{
	const struct link *link = &rpc->link;

	return (rpc->setup || !TAILQ_EMPTY(&rpc->sent)) && now - rpc->heard > UNHEARD_MAX &&
	       link->ops->unheard(link->channel) > UNHEARD_MAX;
}

/* soft: fails calls whose time is over. If one was sent, closes the channel first: a late reply
 * must not reach its buffer. */
static void enforce_soft(struct rpc_client *rpc, uint64_t now)
{
	const struct rpc_timing *timing = rpc->timing;
	struct call *call, *next;

	TAILQ_FOREACH (call, &rpc->sent, link)
		if (timer_expired(call, timing, now)) {
			client_lose(rpc, -ETIMEDOUT);
			break;
		}
	for (call = TAILQ_FIRST(&rpc->waiting); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (!call->since) /* not sent yet: its time begins at this first check */
			call->since = now;
		if (!timer_expired(call, timing, now))
			continue;
		rpc->log->expired(rpc);
		TAILQ_REMOVE(&rpc->waiting, call, link);
		call_finish(rpc, call, false, ETIMEDOUT);
	}
}

/* True if the keys that would verify the call's reply are gone: it is sent again. */
static bool is_orphaned(const struct rpc_client *rpc, const struct call *call)
{
	const struct rpc_context_ops *context = rpc->credentials->flavor->context;

	return context && context->orphaned(rpc->credentials, &call->stamp);
}

/*
 * True if an overdue or orphaned call needs another connection. Over a transport that delivers
 * every call, or breaks: always. With a protocol that sends a call once per channel: if the channel
 * is silent, the call is orphaned, or after a major time-out (nfs(5), retrans). Else: after
 * `retrans` retransmissions, if the channel is silent; if it receives bytes, the server is busy
 * with other calls.
 */
static bool should_reconnect(const struct rpc_client *rpc, const struct call *call, uint64_t now)
{
	const struct rpc_timing *timing = rpc->timing;
	bool silent = rpc->heard < call->last_sent;

	if (rpc->link.ops->traits & RPC_SENDS_ONCE)
		return true;
	if (rpc->protocol->sends_once)
		return silent || is_orphaned(rpc, call) ||
		       now - call->last_sent > timer_major(timing);
	return silent && call->tries > timing->retrans;
}

/* False while the channel is still sending the call, or receiving its reply. */
static bool can_retransmit(const struct rpc_client *rpc, const struct call *call)
{
	const struct link *link = &rpc->link;

	return link->ops->traits & RPC_SENDS_ONCE ||
	       (call != rpc->reply.call && link->ops->sent(link->channel) >= call->position);
}

static void retransmit(struct rpc_client *rpc, uint64_t now)
{
	const struct rpc_context_ops *context = rpc->credentials->flavor->context;
	struct call *call = rpc->setup, *next;

	if (call && timer_overdue(call, rpc->timing, now)) {
		say_silent(rpc);
		client_lose(rpc, -ETIMEDOUT);
		return;
	}

	for (call = TAILQ_FIRST(&rpc->sent); call; call = next) {
		bool overdue = timer_overdue(call, rpc->timing, now);

		next = TAILQ_NEXT(call, link);
		if (overdue)
			say_silent(rpc);
		else if (!is_orphaned(rpc, call))
			continue;
		if (!can_retransmit(rpc, call))
			continue;
		if (should_reconnect(rpc, call, now)) {
			if (!overdue)
				snprintf(rpc->link.why, sizeof(rpc->link.why),
					 "the Kerberos keys for a call's reply are gone");
			client_lose(rpc, -ETIMEDOUT);
			return;
		}
		if (rpc->protocol->sends_once)
			continue;
		call->last_sent = 0; /* drop replies until the next copy is sent */
		if (context)	     /* the next copy needs a new number in the server's window */
			context->overdue(rpc->credentials, &call->stamp);
		TAILQ_REMOVE(&rpc->sent, call, link);
		TAILQ_INSERT_TAIL(&rpc->waiting, call, link);
	}
}

/* Resumes delayed calls, beginning with those that hold slots: other calls may wait for these. */
static void resume_delayed(struct rpc_client *rpc, uint64_t now)
{
	struct call *call, *next;

	for (call = TAILQ_FIRST(&rpc->delayed); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (call->resume_at > now)
			continue;
		TAILQ_REMOVE(&rpc->delayed, call, link);
		if (call->tries)
			TAILQ_INSERT_HEAD(&rpc->waiting, call, link);
		else
			TAILQ_INSERT_TAIL(&rpc->waiting, call, link);
	}
}

/* --- what is due --- */

static bool is_replaced(enum client_role role)
{
	return role == CLIENT_REPLACED || role == CLIENT_ABANDONED;
}

/* If other connections can take over, failover reports silence, and `soft` fails no call. */
static void watch_server(struct rpc_client *rpc, uint64_t now, enum client_role role)
{
	if (rpc->probed)
		note_progress(rpc, now);
	if (role == CLIENT_REPLACEABLE)
		probe_if_silent(rpc, now);
	if (is_replaced(role) && unanswered(rpc, now))
		client_lose(rpc, -ETIMEDOUT);
	if (role == CLIENT_REPLACEABLE)
		return;
	if (!is_replaced(role) && rpc->outstanding && link_down_for(&rpc->link, now) > DOWN_MAX)
		rpc->log->silent(rpc);
	enforce_soft(rpc, now);
}

/* Does what is due. False: send nothing, since other connections are about to take over. */
static bool watch(struct rpc_client *rpc, uint64_t now)
{
	const struct rpc_context_ops *context = rpc->credentials->flavor->context;
	enum client_role role = rpc->events->role(rpc);

	watch_server(rpc, now, role);
	if (role == CLIENT_REPLACEABLE && client_health(rpc) == CLIENT_SILENT)
		return false;
	resume_delayed(rpc, now);
	if (context && rpc->link.up && !is_replaced(role) && context->due(rpc->credentials, now))
		rpc->prepared = false;
	if (rpc->protocol->tick)
		rpc->protocol->tick(rpc, now);
	if (rpc->link.up && cut_off(rpc, now)) {
		say_silent(rpc);
		client_lose(rpc, -ETIMEDOUT);
	}
	if (rpc->link.up)
		retransmit(rpc, now);
	return true;
}

/* --- a client's life --- */

int client_init(struct rpc_client *rpc)
{
	enum { OTHERS = 3 }; /* calls: a liveness probe, session set-up, a lease renewal */
	struct call_table *table = &rpc->calls;
	uint32_t count = rpc->calls_max + OTHERS;
	int error = 0;

	table->calls = calloc(count, sizeof(*table->calls));
	while (count > 1u << table->index_bits)
		table->index_bits++;
	table->generation = rpc->first_xid;
	TAILQ_INIT(&rpc->waiting);
	TAILQ_INIT(&rpc->sent);
	TAILQ_INIT(&rpc->delayed);
	if (!table->calls)
		error = -ENOMEM;
	else if (rpc->protocol->attach)
		error = rpc->protocol->attach(rpc);
	if (error)
		client_free(rpc);
	return error;
}

void client_free(struct rpc_client *rpc)
{
	if (rpc->state)
		rpc->protocol->detach(rpc);
	free(rpc->calls.calls);
}

int client_open(struct rpc_client *rpc, const struct rpc_channel_ops *ops,
		const struct rpc_terms *terms)
{
	rpc->handler = (struct rpc_handler){
		.reply = client_reply_begins,
		.finished = client_reply_finished,
		.refused = client_call_refused,
		.context = rpc,
	};
	rpc->link = (struct link){
		.ops = ops,
		.terms = *terms,
		.clock = rpc->clock,
		.reconnect = rpc->timing->reconnect,
		.random = rpc->own ?: rpc->first_xid,
	};
	rpc->link.terms.handler = &rpc->handler;
	return link_open(&rpc->link);
}

/* One step towards a connected channel. 0: connected; -EINPROGRESS: not yet; else failed. */
static int connect_channel(struct rpc_client *rpc)
{
	bool again = rpc->link.was_up, came_up;
	enum client_role role = rpc->events->role(rpc);
	int error;

	if (role == CLIENT_ABANDONED)
		return rpc->link.up ? 0 : -EINPROGRESS;
	error = link_step(&rpc->link, &came_up);
	if (error || !came_up)
		return error;
	clock_read(rpc->clock);
	rpc->setup_error = 0;
	if (again)
		rpc->counters->reconnects++;
	if (role == CLIENT_REPLACED)
		client_probe(rpc); /* connected is not enough: the server must answer a NULL call */
	else
		client_send(rpc);
	return 0;
}

/* Time in which this process did not run does not count as waiting for an answer. */
static void forgive_our_absence(struct rpc_client *rpc)
{
	uint64_t now = clock_read(rpc->clock), away = time_away(&rpc->looked, now);

	if (rpc->setup)
		rpc->setup->last_sent = min_of(rpc->setup->last_sent + away, now);
	if (rpc->context_awaited)
		rpc->context_awaited = min_of(rpc->context_awaited + away, now);
}

int client_ready(struct rpc_client *rpc)
{
	int error;

	forgive_our_absence(rpc);
	error = connect_channel(rpc);
	if (error || rpc->prepared)
		return error;
	if (rpc->link.up)
		client_receive(rpc, false);
	if (!rpc->link.up)
		return rpc->setup_error ?: rpc->lost;
	return rpc->prepared ? 0 : -EINPROGRESS;
}

void client_tick(struct rpc_client *rpc)
{
	uint64_t now = clock_read(rpc->clock);
	int error;

	if (!watch(rpc, now))
		return;
	error = connect_channel(rpc);
	if (error && error != -EINPROGRESS)
		client_lose(rpc, error);
	if (!rpc->prepared || !TAILQ_EMPTY(&rpc->waiting))
		client_send(rpc);
}

uint64_t client_due(const struct rpc_client *rpc)
{
	const struct rpc_context_ops *context = rpc->credentials->flavor->context;
	const struct call *oldest = TAILQ_FIRST(&rpc->sent);
	uint64_t silence = min_of(rpc->timing->timeo, UNHEARD_MAX);
	uint64_t due = rpc->protocol->due ? rpc->protocol->due(rpc) : UINT64_MAX;

	if (!rpc->link.channel && rpc->link.retry_at < rpc->clock->now + WAIT_SLICE_MS * MSEC)
		return rpc->link.retry_at;
	if (!rpc->link.up || !rpc->prepared || rpc->probed || !TAILQ_EMPTY(&rpc->waiting) ||
	    !TAILQ_EMPTY(&rpc->delayed) ||
	    (oldest && (rpc->timing->soft || is_orphaned(rpc, oldest))))
		return 0;
	if (oldest)
		due = min_of(due, oldest->last_sent + silence);
	if (context)
		due = min_of(due, context->renew_at(rpc->credentials));
	return due > rpc->clock->now ? due : 0; /* past: the tick has looked, and waits on */
}

void client_await_link(struct rpc_client *rpc, bool wait)
{
	const struct link *link = &rpc->link;
	struct pollfd poll_fd = {.fd = link_poll_fd(link), .events = link_poll_events(link)};

	if (wait)
		poll(&poll_fd, 1, WAIT_SLICE_MS);
	if (link->channel)
		client_tick(rpc);
}
