/* SPDX-License-Identifier: GPL-2.0-only */
/* nfs.c - a connection that is an NFS client (client/client.h): connection.h's operations. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "group/connection.h"
#include "group/path.h"
#include "nfs/path_client.h"
#include "nfs/version.h"

struct nfs_conn {
	struct conn conn;
	struct rpc_client rpc;
	void **files;	       /* nclients: the client's state of its files; NULL: the path's */
	struct io_list excess; /* I/Os that wait until the client has fewer at the server */
};

static struct nfs_conn *nfs_of(const struct conn *conn)
{
	return container_of(conn, struct nfs_conn, conn);
}

static struct rpc_client *rpc_of(const struct conn *conn)
{
	return &nfs_of(conn)->rpc;
}

static struct conn *conn_of(const struct rpc_client *rpc)
{
	return &container_of(rpc, struct nfs_conn, rpc)->conn;
}

static enum client_role role(const struct rpc_client *rpc)
{
	const struct conn *conn = conn_of(rpc);

	if (conn->path->unusable)
		return CLIENT_ABANDONED;
	if (conn->dead)
		return CLIENT_REPLACED;
	return conn_may_retire(conn) ? CLIENT_REPLACEABLE : CLIENT_ALONE;
}

/* failover: lets group.c check at once whether this connection is dead, or alive again. */
static void health_changed(struct rpc_client *rpc)
{
	struct conn_job *job = conn_of(rpc)->job;

	job->news = job->news || job->failover;
}

/* --- durability: replies to WRITE and COMMIT go into the file's ledger, and into the hold --- */

static void wrote(struct conn_io *io, uint32_t count, bool durable,
		  const uint8_t verifier[LEDGER_VERIFIER])
{
	struct ledger *ledger = &io->conn->path->files[io->file].ledger;
	bool changed = ledger_wrote(ledger, count, durable, verifier);

	if (!io->held)
		return;
	if (changed)
		io->conn->job->hold->lost = true;
	if (!durable)
		hold_wrote(io->conn->job->hold, io->held, ledger, verifier);
}

static void commit_begins(struct conn_io *io)
{
	const struct hold *hold = io->conn->job->hold;

	io->commit->covered = ledger_begin_commit(io->commit->ledger);
	if (hold)
		io->commit->covered.clock = hold->clock;
}

static void committed(struct conn_io *io, const uint8_t verifier[LEDGER_VERIFIER])
{
	struct hold *hold = io->conn->job->hold;
	bool lost = ledger_end_commit(io->commit->ledger, &io->commit->covered, verifier);

	if (!hold)
		return;
	/* The ledger may show more loss: hold_committed() skips what finished after `covered`. */
	hold->lost |= lost;
	hold_committed(hold, io->commit->ledger, io->commit->covered.clock, verifier);
}

static void commit_undone(struct conn_io *io)
{
	bool lost = ledger_undo_commit(io->commit->ledger, &io->commit->covered);

	if (io->conn->job->hold)
		io->conn->job->hold->lost |= lost;
	io->commit->covered = (struct ledger_commit){0};
}

static void commit_failed(struct conn_io *io)
{
	struct hold *hold = io->conn->job->hold;

	ledger_fail_commit(io->commit->ledger, &io->commit->covered);
	if (hold)
		hold_commit_failed(hold, io->commit->ledger, io->commit->covered.clock);
}

static const struct client_events events = {
	.role = role,
	.health_changed = health_changed,
	.finished = conn_finish,
	.given_back = conn_requeue,
	.wrote = wrote,
	.commit_begins = commit_begins,
	.committed = committed,
	.commit_undone = commit_undone,
	.commit_failed = commit_failed,
};

/* Without job->memory, as during layout, an RDMA path uses TCP. */
static const struct rpc_channel_ops *transport_for(const struct path *path,
						   const struct conn_job *job)
{
#ifdef HAVE_RDMA
	if (path->config.rdma && job->memory)
		return &rpc_rdma;
#endif
	return path_transport(path);
}

static void nfs_close(struct conn *conn)
{
	path_client_free(rpc_of(conn));
	free(nfs_of(conn)->files);
	free(nfs_of(conn));
}

static int open_client(struct nfs_conn *nfs, const struct rpc_channel_ops *transport)
{
	struct conn *conn = &nfs->conn;
	struct path *path = conn->path;
	const struct conn_job *job = conn->job;
	struct rpc_terms terms = {
		.address = path_address(path, transport->traits & RPC_MOVES_DATA,
					job->clients ? conn->number : path->connections++),
		.counters = &conn->transport,
		.reply_max = PATH_IO_MAX + RPC_REPLY_HEAD_MAX,
		.head_max = path_head_max(path),
		.calls_max = nfs->rpc.calls_max,
		.stamps = job->stamps,
		.loans = &path->loans,
		.memory = job->memory,
		.inline_max = path->config.terms.inline_max,
		.tls = &path->tls_terms,
	};

	return client_open(&nfs->rpc, transport, &terms);
}

/* nclients: the connection is to be a client of its own. False: out of memory. */
static bool make_own(struct nfs_conn *nfs)
{
	const struct conn_job *job = nfs->conn.job;

	nfs->rpc.own = nfs->conn.path->job.first_client + nfs->conn.number + 1;
	nfs->rpc.calls_max = job->client_depth;
	if (nfs->conn.path->version->own_file)
		nfs->files = calloc(conn_job_place(job, job->file_count).number + 1,
				    sizeof(*nfs->files));
	return nfs->files || !nfs->conn.path->version->own_file;
}

static int nfs_open(struct conn **conn, struct path *path, struct conn_job *job, uint32_t number)
{
	const struct rpc_channel_ops *transport = transport_for(path, job);
	struct nfs_conn *nfs = calloc(1, sizeof(*nfs));
	bool rdma = transport->traits & RPC_MOVES_DATA;
	int error;

	if (!nfs)
		return -ENOMEM;
	nfs->conn = (struct conn){
		.ops = &conn_nfs,
		.transport_name = transport->name,
		.poll_epoch = &nfs->rpc.link.epoch,
		.path = path,
		.job = job,
		.number = number,
		.latency.stamps = job->stamps,
	};
	outages_begin(&nfs->conn.counters.outages, job->clock.read(&job->clock));
	nfs->rpc = path_client(path);
	nfs->rpc.events = &events;
	nfs->rpc.clock = &job->clock;
	nfs->rpc.counters = &nfs->conn.counters;
	nfs->rpc.latency = &nfs->conn.latency;
	nfs->rpc.calls_max = job->io_count;
	TAILQ_INIT(&nfs->excess);
	error = job->clients && !make_own(nfs) ? -ENOMEM : path_client_init(&nfs->rpc);
	if (error) {
		free(nfs->files);
		free(nfs);
		return error;
	}
	error = open_client(nfs, transport);
	if (error && !job->failover) {
		path_say(path, "cannot open a connection%s: %s%s", rdma ? " over RDMA" : "",
			 link_failure(&nfs->rpc.link, error),
			 rdma ? ": does this machine have an RDMA device (rdma link), "
				"and is rdma_ucm loaded?"
			      : errno_remedy(-error));
		nfs_close(&nfs->conn);
		return error;
	}
	*conn = &nfs->conn;
	return 0;
}

static int nfs_ready(struct conn *conn)
{
	int error = path_client_ready(rpc_of(conn));

	if (error && error != -EINPROGRESS)
		client_close(rpc_of(conn));
	return error;
}

static int nfs_open_file(struct conn *conn, uint32_t file)
{
	struct nfs_conn *nfs = nfs_of(conn);
	const void *state = conn->path->files[file].state;

	if (!nfs->files || !state) /* metadata=1 opens no file */
		return 0;
	return conn->path->version->own_file(&nfs->rpc, file, state,
					     &nfs->files[conn_job_place(conn->job, file).number]);
}

static void nfs_close_file(struct conn *conn, uint32_t file)
{
	struct nfs_conn *nfs = nfs_of(conn);
	void **own = nfs->files ? &nfs->files[conn_job_place(conn->job, file).number] : NULL;

	if (!own || !*own)
		return;
	conn->path->version->close_own_file(&nfs->rpc, *own);
	*own = NULL;
}

static int nfs_leave(struct conn *conn)
{
	struct rpc_client *rpc = rpc_of(conn);

	if (!conn->path->version->leave || !rpc->link.up)
		return 0;
	conn->path->version->leave(rpc);
	return client_ready(rpc) == -EINPROGRESS ? -EINPROGRESS : 0;
}

static void nfs_submit(struct conn *conn, struct conn_io *io)
{
	const struct path_file *file = &conn->path->files[io->file];
	struct nfs_conn *nfs = nfs_of(conn);

	io->state = io->op == IO_META ? file->entries : file->state;
	if (nfs->files && io->op != IO_META)
		io->state = nfs->files[conn_job_place(conn->job, io->file).number];
	conn_began(conn, io);
	if (nfs->rpc.outstanding < nfs->rpc.calls_max)
		client_submit(&nfs->rpc, io);
	else
		TAILQ_INSERT_TAIL(&nfs->excess, io, link);
}

static void submit_excess(struct nfs_conn *nfs)
{
	struct conn_io *io;

	while (nfs->rpc.outstanding < nfs->rpc.calls_max && (io = io_list_take(&nfs->excess)))
		client_submit(&nfs->rpc, io);
	client_flush(&nfs->rpc);
}

static void nfs_flush(struct conn *conn)
{
	client_flush(rpc_of(conn));
}

static bool nfs_unsent(const struct conn *conn)
{
	const struct rpc_client *rpc = rpc_of(conn);

	return !TAILQ_EMPTY(&rpc->waiting) || !TAILQ_EMPTY(&nfs_of(conn)->excess) ||
	       (rpc->link.up && link_poll_events(&rpc->link) & POLLOUT);
}

static void nfs_reap(struct conn *conn, bool wait)
{
	struct nfs_conn *nfs = nfs_of(conn);

	client_reap(&nfs->rpc, wait);
	if (!TAILQ_EMPTY(&nfs->excess))
		submit_excess(nfs);
}

static int nfs_poll_fd(const struct conn *conn)
{
	return link_poll_fd(&rpc_of(conn)->link);
}

static short nfs_poll_events(const struct conn *conn)
{
	return link_poll_events(&rpc_of(conn)->link);
}

static void nfs_tick(struct conn *conn)
{
	struct nfs_conn *nfs = nfs_of(conn);

	client_tick(&nfs->rpc); /* which may end calls by time-outs */
	if (!TAILQ_EMPTY(&nfs->excess))
		submit_excess(nfs);
}

static int nfs_opened(struct conn *conn)
{
	struct nfs_conn *nfs = nfs_of(conn);
	struct rpc_client *rpc = &nfs->rpc;
	bool was_up = rpc->link.up;

	if (!nfs->files)
		return 0;
	nfs_reap(conn, false);
	if (was_up && rpc->setup_error) { /* else the error is of an earlier channel */
		int error = rpc->setup_error;

		client_close(rpc);
		return error;
	}
	nfs_tick(conn); /* may connect again, which clears setup_error */
	if (link_down_for(&rpc->link, rpc->clock->now) >
	    DOWN_MAX) /* logged elsewhere only with I/O */
		rpc->log->silent(rpc);
	return rpc->prepared ? 0 : -EINPROGRESS;
}

static uint64_t nfs_due(const struct conn *conn)
{
	const struct rpc_client *rpc = rpc_of(conn);

	return TAILQ_EMPTY(&nfs_of(conn)->excess) || rpc->outstanding ? client_due(rpc) : 0;
}

static enum client_health nfs_health(const struct conn *conn)
{
	return client_health(rpc_of(conn));
}

static bool nfs_reachable(const struct conn *conn)
{
	const struct link *link = &rpc_of(conn)->link;

	return link->up && link->ops->unheard(link->channel) <= HEARD_MAX;
}

static void nfs_hand_over(struct conn *conn)
{
	client_hand_over(rpc_of(conn));
}

static void nfs_abort(struct conn *conn, int error)
{
	struct nfs_conn *nfs = nfs_of(conn);
	struct conn_io *io;

	client_abort(&nfs->rpc, error);
	while ((io = io_list_take(&nfs->excess))) {
		io->error = error;
		conn_finish(io);
	}
}

static void nfs_names(const struct conn *conn, char *local, char *remote)
{
	const struct link *link = &rpc_of(conn)->link;

	if (link->up)
		link->ops->names(link->channel, local, remote, CONN_NAME);
	else
		snprintf(local, CONN_NAME, "-"), snprintf(remote, CONN_NAME, "-");
}

static void nfs_trouble(const struct conn *conn, char *text)
{
	const struct rpc_client *rpc = rpc_of(conn);
	const struct outages *outages = &conn->counters.outages;
	const char *refusal = client_refusal(rpc);

	if (refusal)
		snprintf(text, CONN_TROUBLE,
			 "refused (%s): use fewer clients, or wait until the server's grace "
			 "period is over",
			 refusal);
	else if (!outages->up || !outages_over(outages)) /* up again, and nothing answered */
		snprintf(text, CONN_TROUBLE,
			 "connection lost (%s): see whether the server runs, and takes more "
			 "connections",
			 link_failure(&rpc->link, rpc->lost));
	else
		snprintf(text, CONN_TROUBLE,
			 "I/O that failed or was not answered: see the lines above");
}

const struct conn_ops conn_nfs = {
	.open = nfs_open,
	.ready = nfs_ready,
	.open_file = nfs_open_file,
	.opened = nfs_opened,
	.close_file = nfs_close_file,
	.submit = nfs_submit,
	.flush = nfs_flush,
	.unsent = nfs_unsent,
	.reap = nfs_reap,
	.poll_fd = nfs_poll_fd,
	.poll_events = nfs_poll_events,
	.tick = nfs_tick,
	.due = nfs_due,
	.health = nfs_health,
	.reachable = nfs_reachable,
	.hand_over = nfs_hand_over,
	.abort = nfs_abort,
	.names = nfs_names,
	.trouble = nfs_trouble,
	.leave = nfs_leave,
	.close = nfs_close,
};
