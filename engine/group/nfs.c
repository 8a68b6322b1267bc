/* SPDX-License-Identifier: GPL-2.0-only */
/* nfs.c - a connection that is one channel of a session: connection.h's operations. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "group/connection.h"
#include "group/path.h"
#include "client/client.h"

/* Each has a session of its own. */
struct nfs_conn {
	struct session_channel channel;
	struct session session;
};

static struct nfs_conn *nfs_of(struct conn *conn)
{
	return container_of(channel_of(conn), struct nfs_conn, channel);
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
	struct conn *conn = &nfs->channel.conn;
	struct path *path = conn->path;
	const struct conn_job *job = conn->job;
	struct rpc_terms terms = {
		.address = path_next_address(path, over_rdma(transport)),
		.counters = &conn->transport,
		.reply_max = PATH_IO_MAX + RPC_REPLY_HEAD_MAX,
		.calls_max = job->io_count,
		.memory = job->memory,
		.inline_max = job->inline_max,
	};

	return session_open_channel(&nfs->channel, &nfs->session, transport, &terms);
}

static int nfs_open(struct conn **conn, struct path *path, struct conn_job *job)
{
	const struct rpc_channel_ops *transport = transport_for(path, job);
	struct nfs_conn *nfs = calloc(1, sizeof(*nfs));
	int error;

	if (!nfs)
		return -ENOMEM;
	nfs->channel.conn = (struct conn){
		.ops = &conn_nfs,
		.transport_name = transport->name,
		.path = path,
		.job = job,
	};
	error = session_init(&nfs->session, path, job->io_count);
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
		nfs_close(&nfs->channel.conn);
		return error;
	}
	*conn = &nfs->channel.conn;
	return 0;
}

static int nfs_ready(struct conn *conn)
{
	struct session_channel *channel = channel_of(conn);
	bool rdma = over_rdma(channel->link.ops);
	int error = session_ready(channel);

	if (!error || error == -EINPROGRESS)
		return error;
	if (!channel->setup_error)
		conn->job->log("%s: cannot connect to %s %u: %s: is the NFS server running there?",
			       conn->path->config.label, rdma ? "RDMA port" : "port",
			       path_port(conn->path, rdma), link_failure(error));
	session_close_channel(channel);
	return error;
}

/* --- I/O --- */

static int nfs_poll_fd(const struct conn *conn)
{
	const struct link *link = &channel_of_const(conn)->link;

	return link->channel ? link->ops->poll_fd(link->channel) : -1;
}

static short nfs_poll_events(const struct conn *conn)
{
	const struct link *link = &channel_of_const(conn)->link;

	return link->up ? link->ops->poll_events(link->channel) : POLLIN | POLLOUT;
}

/* --- the rest --- */

static void nfs_names(const struct conn *conn, char *local, char *remote)
{
	const struct link *link = &channel_of_const(conn)->link;

	if (link->up)
		link->ops->names(link->channel, local, remote, CONN_NAME);
	else
		snprintf(local, CONN_NAME, "-"), snprintf(remote, CONN_NAME, "-");
}

const struct conn_ops conn_nfs = {
	.open = nfs_open,
	.ready = nfs_ready,
	.submit = session_submit,
	.flush = session_flush,
	.reap = session_reap,
	.poll_fd = nfs_poll_fd,
	.poll_events = nfs_poll_events,
	.tick = session_tick,
	.health = session_health,
	.reachable = session_reachable,
	.hand_over = session_hand_over,
	.abort = session_abort,
	.names = nfs_names,
	.close = nfs_close,
};
