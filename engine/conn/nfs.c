/* SPDX-License-Identifier: GPL-2.0-only */
/* nfs.c - a connection that is an NFSv3 session over an RPC channel: connection.h's operations. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "conn/nfs_conn.h"

enum { WAIT_MS = 100 };

static unsigned int bits_for(uint32_t count)
{
	unsigned int bits = 0;

	while (count > 1u << bits)
		bits++;
	return bits;
}

static const struct rpc_channel_ops *transport_for(const struct path *path,
						   const struct conn_job *job)
{
#ifdef HAVE_RDMA
	if (path->config.rdma && job->memory)
		return &rpc_rdma;
#endif
	return &rpc_tcp;
}

static int nfs_open(struct conn **conn, struct path *path, struct conn_job *job)
{
	struct nfs_conn *nfs = calloc(1, sizeof(*nfs));
	int error;

	if (!nfs)
		return -ENOMEM;
	nfs->transport = transport_for(path, job);
	nfs->base = (struct conn){
		.ops = &conn_nfs,
		.transport_name = nfs->transport->name,
		.path = path,
		.job = job,
	};
	nfs->address = path_next_address(path, nfs_is_rdma(nfs));
	nfs_handle_replies(nfs);
	nfs->slot_bits = bits_for(job->io_count + 1); /* the last: nfs_send_probe() */
	/* A random start: the server's duplicate request cache may remember an earlier run's xids.
	 */
	if (getrandom(&nfs->generation, sizeof(nfs->generation), 0) != sizeof(nfs->generation))
		nfs->generation = (uint32_t)clock_now();
	error = nfs_connect(nfs);
	if (error && !job->failover) {
		nfs_log(nfs, "cannot open a connection%s: %s%s",
			nfs_is_rdma(nfs) ? " over RDMA" : "", strerror(-error),
			nfs_is_rdma(nfs)
				? ": does this machine have an RDMA device (rdma link), and "
				  "is rdma_ucm loaded?"
				: "");
		free(nfs);
		return error;
	}
	*conn = &nfs->base;
	return 0;
}

static int nfs_ready(struct conn *conn)
{
	struct nfs_conn *nfs = nfs_of(conn);
	int error = nfs_pursue(nfs);

	if (error && error != -EINPROGRESS) {
		nfs_log(nfs, "cannot connect to %s %u: %s: is the NFS server running there?",
			nfs_is_rdma(nfs) ? "RDMA port" : "port",
			path_port(conn->path, nfs_is_rdma(nfs)), strerror(-error));
		nfs_close_channel(nfs);
	}
	return error;
}

static void nfs_reap(struct conn *conn, bool wait)
{
	struct nfs_conn *nfs = nfs_of(conn);
	uint64_t received = conn->transport.bytes_received;
	int error;

	if (!nfs->up) {
		struct pollfd poll_fd = {.fd = conn->ops->poll_fd(conn),
					 .events = POLLIN | POLLOUT};

		if (wait)
			poll(&poll_fd, 1, WAIT_MS);
		if (nfs->channel)
			nfs_tick(conn);
		return;
	}
	conn->job->now = 0; /* read again by the first reply */
	error = nfs->transport->receive(nfs->channel, wait);
	if (!conn->job->now)
		conn->job->now = clock_now();
	if (conn->transport.bytes_received != received)
		nfs->heard = conn->job->now; /* also within a long reply */
	if (!error && nfs->drop)
		error = -ECANCELED;
	if (error)
		nfs_lost(nfs, error);
	else if (nfs->waiting.first || nfs->transport->poll_events(nfs->channel) & POLLOUT)
		nfs_flush(conn);
}

/* The handle and the templates are the path's. */
static int nfs_open_file(struct conn *conn, uint32_t file)
{
	(void)conn, (void)file;
	return 0;
}

static void nfs_close_file(struct conn *conn, uint32_t file)
{
	(void)conn, (void)file;
}

static uint32_t nfs_io_max(const struct conn *conn, enum io_op op)
{
	const struct nfs3_limits *limits = &conn->path->limits;
	uint32_t data_max = nfs_of_const(conn)->transport->data_max ?: UINT32_MAX;

	return min_of(op == IO_READ ? limits->read_max : limits->write_max, data_max);
}

static int nfs_poll_fd(const struct conn *conn)
{
	const struct nfs_conn *nfs = nfs_of_const(conn);

	return nfs->channel ? nfs->transport->poll_fd(nfs->channel) : -1;
}

static short nfs_poll_events(const struct conn *conn)
{
	const struct nfs_conn *nfs = nfs_of_const(conn);

	return nfs->up ? nfs->transport->poll_events(nfs->channel) : POLLIN | POLLOUT;
}

static void nfs_names(const struct conn *conn, char *local, char *remote)
{
	const struct nfs_conn *nfs = nfs_of_const(conn);

	if (nfs->up)
		nfs->transport->names(nfs->channel, local, remote, CONN_NAME);
	else
		snprintf(local, CONN_NAME, "-"), snprintf(remote, CONN_NAME, "-");
}

static void nfs_close(struct conn *conn)
{
	struct nfs_conn *nfs = nfs_of(conn);

	nfs_close_channel(nfs);
	free(nfs);
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
	.retire = nfs_retire,
	.abort = nfs_abort,
	.names = nfs_names,
	.close = nfs_close,
};
