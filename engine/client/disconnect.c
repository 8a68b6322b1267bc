/* SPDX-License-Identifier: GPL-2.0-only */
/* disconnect.c - what a lost channel's calls do: wait for the next channel, fail, or move away. */
#include <errno.h>

#include "client/internal.h"

/* Once bad messages have broken this many channels in a row, others take over or I/O fails. */
enum { BROKEN_MAX = 3 };

void client_close(struct rpc_client *rpc)
{
	link_close(&rpc->link,
		   rpc->outstanding || rpc->probed || rpc->setup || !TAILQ_EMPTY(&rpc->sent));
	client_drop_probe(rpc);
	client_drop_setup(rpc, false);
	if (rpc->credentials->flavor->context)
		rpc->credentials->flavor->context->lost(rpc->credentials);
	rpc->prepared = false;
	rpc->setup_denials = 0;
	rpc->queued = rpc->context_awaited = 0;
	rpc->reply = (struct client_reply){0};
	rpc->answered = false;
}

void client_abort(struct rpc_client *rpc, int error)
{
	struct call *call;

	client_close(rpc);
	TAILQ_CONCAT(&rpc->sent, &rpc->waiting, link);
	TAILQ_CONCAT(&rpc->sent, &rpc->delayed, link);
	while ((call = TAILQ_FIRST(&rpc->sent))) {
		TAILQ_REMOVE(&rpc->sent, call, link);
		call_finish(call, false, error);
	}
}

/* Queues sent calls first, in their order, for the next channel. Resets their denials: a restarted
 * server has forgotten contexts. */
static void wait_again(struct rpc_client *rpc)
{
	struct call *call;

	TAILQ_CONCAT(&rpc->sent, &rpc->waiting, link);
	TAILQ_CONCAT(&rpc->waiting, &rpc->sent, link);
	TAILQ_FOREACH (call, &rpc->waiting, link) {
		call->last_sent = 0;
		call->denials = 0;
	}
}

void client_lose(struct rpc_client *rpc, int error)
{
	bool was_up = rpc->link.up;

	rpc->lost = error;
	client_close(rpc);
	if (was_up)
		outages_lost(&rpc->counters->outages, rpc->link.down_since);
	wait_again(rpc);
	link_retry_later(&rpc->link);
	if (rpc->outstanding && rpc->events->role(rpc) != CLIENT_REPLACED) {
		if (was_up)
			rpc->log->lost(rpc, rpc->outstanding, error);
		else if (*rpc->link.why)
			rpc->log->refused_again(rpc, error);
	}
	if (!link_broke_protocol(error) || ++rpc->broken < BROKEN_MAX)
		return;
	rpc->log->gave_up(rpc);
	if (client_is_replaceable(rpc)) {
		rpc->protocol_broken = true;
		rpc->events->health_changed(rpc);
	} else {
		client_abort(rpc, EPROTO);
	}
}

void client_hand_over(struct rpc_client *rpc)
{
	struct call *call;

	rpc->log->handed_over(rpc);
	client_close(rpc);
	link_retry_later(&rpc->link);
	rpc->broken = 0;
	rpc->protocol_broken = false;
	TAILQ_CONCAT(&rpc->sent, &rpc->delayed, link);
	TAILQ_CONCAT(&rpc->sent, &rpc->waiting, link);
	while ((call = TAILQ_FIRST(&rpc->sent))) {
		struct conn_io *io = call->io;

		TAILQ_REMOVE(&rpc->sent, call, link);
		if (!io) {
			call_finish(call, false, ECANCELED);
			continue;
		}
		if (call->tries)
			call_renew(call, false);
		call_give_back(&rpc->calls, call);
		rpc->outstanding--;
		rpc->events->given_back(io);
	}
}
