/* SPDX-License-Identifier: GPL-2.0-only */
/* client.c - a client's life: it is made, its channel connects, ticks. */
#include "client/client.h"

#include <errno.h>

#include "client/internal.h"
#include "wait.h"

int client_init(struct rpc_client *rpc)
{
	enum {
		OTHERS = 3
	}; /* that ask for a liveness probe, prepare a channel, or renew a lease */
	int error = call_table_init(&rpc->calls, rpc->calls_max + OTHERS, rpc->first_xid);

	TAILQ_INIT(&rpc->waiting);
	TAILQ_INIT(&rpc->sent);
	TAILQ_INIT(&rpc->delayed);
	if (!error && rpc->protocol->attach)
		error = rpc->protocol->attach(rpc);
	if (error)
		client_free(rpc);
	return error;
}

void client_free(struct rpc_client *rpc)
{
	if (rpc->state)
		rpc->protocol->detach(rpc);
	call_table_free(&rpc->calls);
}

int client_open(struct rpc_client *rpc, const struct rpc_channel_ops *ops, struct rpc_terms *terms)
{
	rpc->handler = (struct rpc_handler){
		.reply = client_reply_begins,
		.finished = client_reply_finished,
		.refused = client_call_refused,
		.context = rpc,
	};
	terms->handler = &rpc->handler;
	link_init(&rpc->link, ops, terms, rpc->clock);
	return link_open(&rpc->link);
}

/* One step towards a connected channel; client_ready()'s results. */
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
		client_probe(rpc); /* a connection is not an answer */
	else
		client_send(rpc);
	return 0;
}

bool client_is_asked_to_wait(const struct rpc_client *rpc)
{
	return rpc->wait_asked_until > rpc->clock->now;
}

const char *client_refusal(const struct rpc_client *rpc)
{
	return rpc->clock->now < rpc->put_off_until + SEC ? rpc->refusal_words : NULL;
}

/* What is awaited is given the time that we did not run. */
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

	if (!client_watch(rpc, now))
		return;
	error = connect_channel(rpc);
	if (error && error != -EINPROGRESS)
		client_lose(rpc, error);
	if (!rpc->prepared || !TAILQ_EMPTY(&rpc->waiting))
		client_send(rpc);
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
