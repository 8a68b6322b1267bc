/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/path_client.h"

#include "nfs/log_once.h"
#include "nfs/version.h"

struct rpc_client path_client(struct path *path)
{
	return (struct rpc_client){
		.protocol = &path->version->protocol,
		.credentials = &path->credentials.base,
		.server = path,
		.timing = &path->config.timing,
		.log = &log_once,
		.first_xid = path_random(),
	};
}

/* In the channel's words, where it has some: they say what to do. */
static void log_failure(const struct rpc_client *rpc, int error)
{
	const struct path *path = rpc->server;
	bool rdma = rpc->link.ops->traits & RPC_MOVES_DATA;

	path->job.log("%s: cannot connect to %s %u: %s%s", path->config.label,
		      rdma ? "RDMA port" : "port", path_port(path, rdma),
		      link_failure(&rpc->link, error),
		      *rpc->link.why ? "" : ": is the NFS server running there?");
}

int path_client_ready(struct rpc_client *rpc)
{
	int error = client_ready(rpc);

	if (error == -EINPROGRESS && client_unprepared_for(rpc) > path_names_timeout(rpc->server)) {
		log_unanswered(rpc);
		return rpc->setup_error = -ETIMEDOUT;
	}
	if (error && error != -EINPROGRESS && !rpc->setup_error)
		log_failure(rpc, error);
	return error;
}
