/* SPDX-License-Identifier: GPL-2.0-only */
/* nfs_failover.c - a server that does not answer is asked for a sign of life, and given up. */
#include "conn/nfs_conn.h"

#include <errno.h>

/* How long a server may be silent, or not to be connected to, before it is dead. */
static const uint64_t SILENCE_MAX = 5 * SEC, DOWN_MAX = SEC;

bool nfs_may_die(const struct nfs_conn *nfs)
{
	return nfs->base.job->failover && !nfs->base.dead && nfs->base.job->alive > 1;
}

void nfs_send_probe(struct nfs_conn *nfs)
{
	const struct rpc_data none = {0};
	struct xdr_out head;
	uint32_t xid;

	nfs->probing = true;
	nfs->heard = nfs->base.job->now; /* its patience begins */
	if (!nfs->transport->begin(nfs->channel, &head))
		return;
	xid = nfs->generation++ << nfs->slot_bits | nfs->base.job->io_count;
	nfs3_encode_null(&head, xid, &nfs->base.path->cred);
	nfs->transport->queue(nfs->channel, xid, &head, &none);
	nfs_send_waiting(nfs);
}

/* The server is there, and takes calls. */
void nfs_probe_answered(struct nfs_conn *nfs)
{
	bool asked = nfs->probing;

	nfs->probing = false;
	nfs->heard = nfs->base.job->now;
	nfs->base.job->signs++;
	if (!nfs->base.dead || !asked)
		return;
	nfs->base.dead = false;
	nfs->base.job->alive++;
	nfs->retry_delay = 0;
	if (!--nfs->base.path->dead)
		nfs_log(nfs, "answers again: it takes I/O again");
}

static uint64_t patience(const struct nfs_conn *nfs)
{
	uint64_t most = min_of(nfs->base.path->config.timeo, SILENCE_MAX) / 2;

	return nfs->base.job->ask ? min_of(most, SEC) : most;
}

/* Long calls are no silence: a server that owes replies is asked before it is given up. */
void nfs_ask_if_silent(struct nfs_conn *nfs, uint64_t now)
{
	const struct conn_io *oldest = nfs->sent.first;

	if (nfs->up && oldest && !nfs->probing &&
	    now - max_of(nfs->heard, oldest->last_sent) > patience(nfs))
		nfs_send_probe(nfs);
}

static bool unanswered(const struct nfs_conn *nfs, uint64_t now)
{
	return nfs->probing && now - nfs->heard > patience(nfs);
}

bool nfs_down(const struct nfs_conn *nfs, uint64_t now)
{
	return !nfs->up && now - nfs->down_since > DOWN_MAX;
}

/* As if it had not been sent: another connection gives it a number of its own. */
static void hand_on(struct nfs_conn *nfs, struct io_list *list)
{
	struct conn_io *io;

	while ((io = io_list_take(list))) {
		if (io->op == IO_COMMIT && io->tries)
			ledger_undo_commit(io->ledger, &io->commit);
		nfs->base.outstanding--;
		io_list_add(&nfs->base.job->homeless, io);
	}
}

/*
 * The channel goes first, so that no device and no late reply touches a buffer that another
 * connection uses, and nothing leaves any more. WRITEs that the server has already got it may still
 * carry out, after those that are sent in their stead.
 */
static void die(struct nfs_conn *nfs)
{
	if (!nfs->base.path->dead++)
		nfs_log(nfs, "does not answer: %u calls go to other paths", nfs->base.outstanding);
	nfs_end_trouble(nfs);
	nfs_close_channel(nfs);
	nfs_retry_later(nfs);
	nfs->bad_channels = 0;
	nfs->base.dead = true;
	nfs->base.job->alive--;
	hand_on(nfs, &nfs->sent);
	hand_on(nfs, &nfs->delayed);
	hand_on(nfs, &nfs->waiting);
}

bool nfs_retire(struct conn *conn)
{
	die(nfs_of(conn));
	return true;
}

/* The server speaks no protocol that is known here. */
void nfs_give_up(struct nfs_conn *nfs)
{
	if (nfs_may_die(nfs))
		die(nfs);
	else
		nfs_abort(&nfs->base, EPROTO);
}

void nfs_fail_over(struct nfs_conn *nfs, uint64_t now)
{
	if (nfs->base.dead) {
		if (unanswered(nfs, now))
			nfs_lost(nfs, -ETIMEDOUT);
		return;
	}
	if (!nfs_may_die(nfs)) {
		if (nfs->base.job->ask)
			nfs_ask_if_silent(nfs, now);
		return;
	}
	nfs_ask_if_silent(nfs, now);
	if (unanswered(nfs, now) || nfs_down(nfs, now))
		die(nfs);
}
