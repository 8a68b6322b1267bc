/* SPDX-License-Identifier: GPL-2.0-only */
/* nfs.c - a connection that is one channel of a session: connection.h's operations. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn/connection.h"
#include "conn/path.h"
#include "session/session.h"
#include "wait.h"

struct nfs_conn {
	struct conn base;
	struct session session;
	struct session_channel channel;
};

static struct nfs_conn *nfs_of(struct conn *conn)
{
	return container_of(conn, struct nfs_conn, base);
}

static const struct nfs_conn *nfs_of_const(const struct conn *conn)
{
	return container_of(conn, const struct nfs_conn, base);
}

/* --- opening and closing --- */

static const struct rpc_channel_ops *transport_for(const struct path *path,
						   const struct conn_job *job)
{
#ifdef HAVE_RDMA
	if (path->config.rdma && job->memory)
		return &rpc_rdma;
#endif
	return &rpc_tcp;
}

/* Files are laid out over TCP, also where the path's data goes over RDMA. */
static bool over_rdma(const struct rpc_channel_ops *transport)
{
	return transport->traits & RPC_MOVES_DATA;
}

static void nfs_close(struct conn *conn)
{
	struct nfs_conn *nfs = nfs_of(conn);

	session_close_channel(&nfs->channel);
	session_free(&nfs->session);
	free(nfs);
}

static int open_channel(struct nfs_conn *nfs, const struct rpc_channel_ops *transport)
{
	struct path *path = nfs->base.path;
	const struct conn_job *job = nfs->base.job;
	struct rpc_terms terms = {
		.address = path_next_address(path, over_rdma(transport)),
		.counters = &nfs->base.transport,
		.reply_max = PATH_IO_MAX + path->protocol->reply_head_max,
		.calls_max = job->io_count,
		.memory = job->memory,
		.inline_max = job->inline_max,
	};

	return session_open_channel(&nfs->channel, &nfs->session, &nfs->base, transport, &terms);
}

static int nfs_open(struct conn **conn, struct path *path, struct conn_job *job)
{
	const struct rpc_channel_ops *transport = transport_for(path, job);
	struct nfs_conn *nfs = calloc(1, sizeof(*nfs));
	int error;

	if (!nfs)
		return -ENOMEM;
	nfs->base = (struct conn){
		.ops = &conn_nfs,
		.transport_name = transport->name,
		.path = path,
		.job = job,
	};
	error = session_init(&nfs->session, path, path->protocol, &path->credentials.base,
			     job->io_count);
	if (error) {
		free(nfs);
		return error;
	}
	error = open_channel(nfs, transport);
	if (error && !job->failover) {
		job->log("%s: cannot open a connection%s: %s%s", path->config.label,
			 over_rdma(transport) ? " over RDMA" : "", strerror(-error),
			 over_rdma(transport)
				 ? ": does this machine have an RDMA device (rdma link), "
				   "and is rdma_ucm loaded?"
				 : "");
		nfs_close(&nfs->base);
		return error;
	}
	*conn = &nfs->base;
	return 0;
}

static int nfs_ready(struct conn *conn)
{
	struct nfs_conn *nfs = nfs_of(conn);
	bool rdma = over_rdma(nfs->channel.link.ops);
	int error = session_connect(&nfs->channel);

	if (error && error != -EINPROGRESS) {
		conn->job->log("%s: cannot connect to %s %u: %s: is the NFS server running there?",
			       conn->path->config.label, rdma ? "RDMA port" : "port",
			       path_port(conn->path, rdma), strerror(-error));
		session_close_channel(&nfs->channel);
	}
	return error;
}

/* --- I/O --- */

static void nfs_submit(struct conn *conn, struct conn_io *io)
{
	session_submit(&nfs_of(conn)->channel, io);
}

static void nfs_flush(struct conn *conn)
{
	session_flush(&nfs_of(conn)->channel);
}

static void nfs_tick(struct conn *conn)
{
	session_tick(&nfs_of(conn)->channel, conn->job->now = clock_now());
}

static int nfs_poll_fd(const struct conn *conn)
{
	const struct link *link = &nfs_of_const(conn)->channel.link;

	return link->channel ? link->ops->poll_fd(link->channel) : -1;
}

static short nfs_poll_events(const struct conn *conn)
{
	const struct link *link = &nfs_of_const(conn)->channel.link;

	return link->up ? link->ops->poll_events(link->channel) : POLLIN | POLLOUT;
}

static void nfs_reap(struct conn *conn, bool wait)
{
	struct session_channel *channel = &nfs_of(conn)->channel;
	struct pollfd poll_fd = {.fd = nfs_poll_fd(conn), .events = POLLIN | POLLOUT};

	if (channel->link.up) {
		session_receive(channel, wait);
		return;
	}
	if (wait)
		poll(&poll_fd, 1, WAIT_SLICE_MS);
	if (channel->link.channel)
		nfs_tick(conn);
}

static uint32_t nfs_io_max(const struct conn *conn, enum io_op op)
{
	const struct path *path = conn->path;
	uint32_t data_max = nfs_of_const(conn)->channel.link.ops->data_max ?: UINT32_MAX;

	return min_of(op == IO_READ ? path->read_max : path->write_max, data_max);
}

static enum conn_health nfs_health(const struct conn *conn)
{
	return session_health(&nfs_of_const(conn)->channel, conn->job->now);
}

static bool nfs_hand_over(struct conn *conn)
{
	return session_hand_over(&nfs_of(conn)->channel);
}

static void nfs_abort(struct conn *conn, int error)
{
	session_abort(&nfs_of(conn)->channel, error);
}

/* --- the rest --- */

/* What a file needs is the path's. */
static int nfs_open_file(struct conn *conn, uint32_t file)
{
	(void)conn, (void)file;
	return 0;
}

static void nfs_close_file(struct conn *conn, uint32_t file)
{
	(void)conn, (void)file;
}

static void nfs_names(const struct conn *conn, char *local, char *remote)
{
	const struct link *link = &nfs_of_const(conn)->channel.link;

	if (link->up)
		link->ops->names(link->channel, local, remote, CONN_NAME);
	else
		snprintf(local, CONN_NAME, "-"), snprintf(remote, CONN_NAME, "-");
}

const struct conn_ops conn_nfs = {
	.open = nfs_open,
	.ready = nfs_ready,
	.open_file = nfs_open_file,
	.close_file = nfs_close_file,
	.io_max = nfs_io_max,
	.submit = nfs_submit,
	.flush = nfs_flush,
	.reap = nfs_reap,
	.poll_fd = nfs_poll_fd,
	.poll_events = nfs_poll_events,
	.tick = nfs_tick,
	.health = nfs_health,
	.hand_over = nfs_hand_over,
	.abort = nfs_abort,
	.names = nfs_names,
	.close = nfs_close,
};
