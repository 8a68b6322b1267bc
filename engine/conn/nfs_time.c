/* SPDX-License-Identifier: GPL-2.0-only */
/* nfs_time.c - what is due: retransmissions, soft's end, calls that were put off. */
#include "conn/nfs_conn.h"

#include <errno.h>

static uint64_t give_up_after(const struct path_config *config)
{
	return config->timeo * (config->retrans + 1);
}

static bool expired(const struct conn_io *io, const struct path_config *config, uint64_t now)
{
	return config->soft && now - io->since > give_up_after(config);
}

static void fail_expired(struct nfs_conn *nfs, struct io_list *list, uint64_t now)
{
	const struct path_config *config = &nfs->base.path->config;
	struct conn_io *next;

	for (struct conn_io *io = list->first; io; io = next) {
		next = io->next;
		if (!io->since)
			io->since = now; /* not sent yet: its time runs from the first look at it */
		if (!expired(io, config, now))
			continue;
		io_list_remove(list, io);
		nfs_finish(nfs, io, ETIMEDOUT);
	}
}

static bool any_expired(const struct io_list *list, const struct path_config *config, uint64_t now)
{
	for (const struct conn_io *io = list->first; io; io = io->next)
		if (expired(io, config, now))
			return true;
	return false;
}

/* soft: what took longer than its retransmissions fails, and so may not be in a channel any more.
 */
static void enforce_soft(struct nfs_conn *nfs, uint64_t now)
{
	const struct path_config *config = &nfs->base.path->config;

	if (any_expired(&nfs->sent, config, now)) {
		nfs_log(nfs, "no answer within %.1f s (timeo %.1f s, retrans %u, soft)",
			(double)give_up_after(config) / SEC, (double)config->timeo / SEC,
			config->retrans);
		nfs_lost(nfs, -ETIMEDOUT);
	}
	fail_expired(nfs, &nfs->waiting, now);
}

/* nfs(5), timeo: the n-th transmission is given n times timeo, at most 600 s. */
static bool overdue(const struct conn_io *io, const struct path_config *config, uint64_t now)
{
	return now - io->last_sent > min_of(config->timeo * io->tries, 600 * SEC);
}

/* The transport delivers, or breaks: silence on it is answered by another connection. */
static void reconnect_overdue(struct nfs_conn *nfs, uint64_t now)
{
	for (const struct conn_io *io = nfs->sent.first; io; io = io->next) {
		if (!overdue(io, &nfs->base.path->config, now))
			continue;
		nfs_say_silent(nfs);
		nfs_lost(nfs, -ETIMEDOUT);
		return;
	}
}

/*
 * nfs(5), retrans: after a major time-out the connection is not trusted any more. One that brings
 * bytes is: the server is at work on something else.
 */
static bool major_timeout(const struct nfs_conn *nfs, const struct conn_io *io)
{
	return io->tries > nfs->base.path->config.retrans && nfs->heard < io->last_sent;
}

/*
 * True where the other host has sent nothing, not even an acknowledgement, for so long that it
 * cannot be reached: TCP's own pauses between retransmissions grow to minutes, and a new connection
 * begins with short ones. A server that is alive and does not read is not meant: its host answers.
 */
static bool cut_off(const struct nfs_conn *nfs, uint64_t now)
{
	static const uint64_t UNHEARD_MAX = 15 * SEC;

	return nfs->sent.first && now - nfs->heard > UNHEARD_MAX &&
	       nfs->transport->unheard(nfs->channel) > UNHEARD_MAX;
}

/* Sends overdue calls again, save those whose way out, or whose reply's way in, is not finished
 * yet. */
static void retransmit(struct nfs_conn *nfs, uint64_t now)
{
	struct conn_io *next;

	for (struct conn_io *io = nfs->sent.first; io; io = next) {
		next = io->next;
		if (!overdue(io, &nfs->base.path->config, now))
			continue;
		nfs_say_silent(nfs);
		if (io == nfs->answered || nfs->transport->sent(nfs->channel) < io->sent_position)
			continue;
		if (major_timeout(nfs, io)) {
			nfs_lost(nfs, -ETIMEDOUT);
			return;
		}
		io->last_sent = 0; /* a reply that comes before it has gone out again is dropped */
		io_list_remove(&nfs->sent, io);
		io_list_add(&nfs->waiting, io);
	}
}

static void resume_delayed(struct nfs_conn *nfs, uint64_t now)
{
	struct conn_io *next;

	for (struct conn_io *io = nfs->delayed.first; io; io = next) {
		next = io->next;
		if (io->resume_at > now)
			continue;
		io_list_remove(&nfs->delayed, io);
		io_list_add(&nfs->waiting, io);
	}
}

void nfs_tick(struct conn *conn)
{
	struct nfs_conn *nfs = nfs_of(conn);
	uint64_t now = conn->job->now = clock_now();
	int error;

	if (conn->job->failover)
		nfs_fail_over(nfs, now);
	else if (conn->job->ask)
		nfs_ask_if_silent(nfs, now);
	if (nfs_down(nfs, now) && conn->outstanding && !conn->dead)
		nfs_say_silent(nfs);
	if (!nfs_may_die(nfs)) /* else others take over what is overdue */
		enforce_soft(nfs, now);
	resume_delayed(nfs, now);
	if (nfs->up && cut_off(nfs, now)) {
		nfs_say_silent(nfs);
		nfs_lost(nfs, -ETIMEDOUT);
	}
	if (nfs->up && nfs->transport->traits & RPC_SENDS_ONCE)
		reconnect_overdue(nfs, now);
	else if (nfs->up)
		retransmit(nfs, now);
	error = nfs_pursue(nfs);
	if (error && error != -EINPROGRESS)
		nfs_lost(nfs, error);
	if (nfs->waiting.first)
		nfs_send_waiting(nfs);
}
