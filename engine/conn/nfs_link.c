/* SPDX-License-Identifier: GPL-2.0-only */
/* nfs_link.c - connecting to the server, and losing the connection. */
#include "conn/nfs_conn.h"

#include <errno.h>
#include <string.h>

enum { BAD_CHANNELS_MAX = 3 /* losses in a row by broken protocol before I/O fails for it */ };

/*
 * A SYN is repeated after 1 and 3 s, and a new connection follows a second after the last: a path
 * that is back is noticed within 3 s, and one more where the server still has the old connection.
 */
static const uint64_t CONNECT_TIME = 5 * SEC;
static const uint64_t RETRY_FIRST = 100 * MSEC, RETRY_LAST = SEC;

int nfs_connect(struct nfs_conn *nfs)
{
	const struct conn_job *job = nfs->base.job;
	const struct rpc_terms terms = {
		.address = nfs->address,
		.source_port = &nfs->source_port,
		.handler = &nfs->handler,
		.counters = &nfs->base.transport,
		.reply_max = PATH_IO_MAX + NFS3_REPLY_HEAD_MAX,
		.calls_max = job->io_count,
		.memory = job->memory,
		.inline_max = job->inline_max,
	};
	int error = nfs->transport->open(&nfs->channel, &terms);

	if (error)
		return error;
	nfs->connect_deadline = clock_now() + CONNECT_TIME;
	nfs->base.poll_epoch++;
	return 0;
}

void nfs_close_channel(struct nfs_conn *nfs)
{
	if (nfs->channel)
		nfs->transport->close(nfs->channel, nfs->base.outstanding || nfs->probing);
	nfs->channel = NULL;
	nfs->answered = NULL;
	if (nfs->up)
		nfs->down_since = clock_now();
	nfs->up = false;
	nfs->drop = false;
	nfs->probing = false;
	nfs->base.poll_epoch++;
}

/* What was sent goes out first on the next channel, in its order. */
static void wait_again(struct nfs_conn *nfs)
{
	struct io_list later = nfs->waiting;
	struct conn_io *io;

	nfs->waiting = (struct io_list){0};
	while ((io = io_list_take(&nfs->sent))) {
		io->last_sent = 0;
		io_list_add(&nfs->waiting, io);
	}
	while ((io = io_list_take(&later)))
		io_list_add(&nfs->waiting, io);
}

static void fail_list(struct nfs_conn *nfs, struct io_list *list, int error)
{
	struct conn_io *io;

	while ((io = io_list_take(list)))
		nfs_finish(nfs, io, error);
}

void nfs_abort(struct conn *conn, int error)
{
	struct nfs_conn *nfs = nfs_of(conn);

	nfs_close_channel(nfs);
	fail_list(nfs, &nfs->sent, error);
	fail_list(nfs, &nfs->waiting, error);
	fail_list(nfs, &nfs->delayed, error);
}

static bool broken_protocol(int error)
{
	return error == -EPROTO || error == -EBADMSG || error == -EMSGSIZE;
}

void nfs_retry_later(struct nfs_conn *nfs)
{
	nfs->retry_at = clock_now() + nfs->retry_delay;
	nfs->retry_delay =
		nfs->retry_delay ? min_of(2 * nfs->retry_delay, RETRY_LAST) : RETRY_FIRST;
}

/* The channel failed with `error`. */
void nfs_lost(struct nfs_conn *nfs, int error)
{
	bool was_up = nfs->up;

	nfs_close_channel(nfs);
	wait_again(nfs);
	nfs_retry_later(nfs);
	if (was_up && !nfs->base.dead && nfs->base.outstanding && nfs_begin_trouble(nfs))
		nfs_log(nfs, "connection lost with %u calls outstanding (%s): reconnecting",
			nfs->base.outstanding,
			broken_protocol(error) ? "the server's messages are broken"
					       : strerror(-error));
	if (broken_protocol(error) && ++nfs->bad_channels >= BAD_CHANNELS_MAX) {
		nfs_log(nfs, "the server broke the protocol %u times running: giving up",
			nfs->bad_channels);
		nfs_give_up(nfs);
	}
}

static void came_up(struct nfs_conn *nfs)
{
	bool again = nfs->was_up;

	nfs->up = nfs->was_up = true;
	nfs->base.job->now = clock_now();
	if (again)
		nfs->base.counters.reconnects++;
	if (nfs->base.dead) { /* to be connected to is not to be answered */
		nfs_send_probe(nfs);
		return;
	}
	nfs_send_waiting(nfs);
}

/* Takes one step towards a connected channel: 0, -EINPROGRESS, or what failed. */
int nfs_pursue(struct nfs_conn *nfs)
{
	int error;

	if (nfs->up)
		return 0;
	if (nfs->base.path->unusable)
		return -EINPROGRESS;
	if (!nfs->channel) {
		if (clock_now() < nfs->retry_at)
			return -EINPROGRESS;
		error = nfs_connect(nfs);
		if (error)
			return error;
	}
	error = nfs->transport->connected(nfs->channel);
	if (error == -EINPROGRESS && clock_now() > nfs->connect_deadline)
		error = -ETIMEDOUT;
	if (!error)
		came_up(nfs);
	return error;
}
