/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/path_client.h"

#include "nfs/version.h"

enum { CHANNELS_MAX = 5 }; /* tried in a row, while each fails with -EKEYEXPIRED */

struct rpc_client path_client(struct path *path)
{
	return (struct rpc_client){
		.protocol = path->version->protocol,
		.server = path,
		.timing = &path->config.timing,
		.log = &log_once,
		.first_xid = path_random(),
	};
}

int path_client_init(struct rpc_client *rpc)
{
	int error = path_credentials_open(rpc);

	if (error)
		return error;
	error = client_init(rpc);
	if (error)
		path_credentials_close(rpc);
	return error;
}

void path_client_free(struct rpc_client *rpc)
{
	struct path *path = rpc->server;

	client_take_leave(rpc);
	client_close(rpc);
	rpc_loans_free(&path->loans);
	client_free(rpc);
	path_credentials_close(rpc);
}

static void log_failure(const struct rpc_client *rpc, int error)
{
	const struct path *path = rpc->server;
	bool rdma = rpc->link.ops->traits & RPC_MOVES_DATA;
	const char *remedy = ": is the NFS server running there?";

	if (*rpc->link.why) /* the channel's own words say what to do */
		remedy = "";
	else if (!rdma && (error == -ECONNRESET || error == -EPIPE))
		remedy = ": the server closes the connection: its log says why";
	path_say(path, "cannot connect to %s %u: %s%s", rdma ? "RDMA port" : "port",
		 path_port(path, rdma), link_failure(&rpc->link, error), remedy);
}

static int lacks_context(struct rpc_client *rpc)
{
	const struct path *path = rpc->server;

	path_say(path, "Kerberos: the KDC does not answer: is it up, and is krb5.conf "
		       "(KRB5_CONFIG) right?");
	return -ETIMEDOUT;
}

/* The server answers, but refuses: -EREMOTEIO before the job begins, later a time-out. */
static int refused(struct rpc_client *rpc)
{
	const struct path *path = rpc->server;

	path_say(path, "%s, %u times in a row: the server offers no session", rpc->refusal_words,
		 rpc->setup_refusals);
	return rpc->setup_error = path->at_work ? -ETIMEDOUT : -EREMOTEIO;
}

int path_client_ready(struct rpc_client *rpc)
{
	const struct path *path = rpc->server;
	uint64_t timeout = path_names_timeout(path);
	int error = client_ready(rpc);

	if (error == -EKEYEXPIRED) {
		if (++rpc->setup_channels < CHANNELS_MAX) {
			client_close(rpc); /* the next step opens the next channel */
			return -EINPROGRESS;
		}
		error = -ECONNRESET;
	}
	if (!error)
		rpc->setup_channels = 0;
	if (error != -EINPROGRESS) {
		if (error && !rpc->setup_error)
			log_failure(rpc, error);
		return error;
	}
	if (client_without_context_for(rpc) > timeout)
		return rpc->setup_error = lacks_context(rpc);
	if (rpc->setup && rpc->clock->now - rpc->setup->last_sent > timeout) {
		path_say(path, "no reply to %s: is the server starting, or overloaded?",
			 rpc->protocol->sends_once ? "session set-up (EXCHANGE_ID, CREATE_SESSION)"
						   : "a NULL call");
		return rpc->setup_error = -ETIMEDOUT;
	}
	if (rpc->setup_refusals && rpc->clock->now - rpc->setup_since > timeout)
		return refused(rpc);
	return error;
}

int path_client_await(struct rpc_client *rpc)
{
	const struct path *path = rpc->server;
	struct patience patience = patience_begin(clock_read(rpc->clock), path_names_timeout(path));
	int error, stopped = 0;

	while (!stopped && (error = path_client_ready(rpc)) == -EINPROGRESS) {
		struct pollfd poll_fd = {
			.fd = link_poll_fd(&rpc->link),
			.events = link_poll_events(&rpc->link),
		};

		stopped = patience_over(&patience, clock_read(rpc->clock))
				  ? -ETIMEDOUT
				  : wait_part(&poll_fd, 1, WAIT_SLICE_MS, NULL, path->job.stop);
	}
	if (stopped == -ETIMEDOUT && client_without_context_for(rpc))
		lacks_context(rpc);
	else if (stopped == -ETIMEDOUT && rpc->setup_refusals)
		stopped = refused(rpc);
	else if (stopped == -ETIMEDOUT && *rpc->link.why)
		log_failure(rpc, stopped);
	else if (stopped)
		path_say(path, "port %u: %s", path->config.nfs_port,
			 stopped == -EINTR ? "the run was stopped" : "the server does not answer");
	return stopped ?: error;
}
