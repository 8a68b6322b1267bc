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

int path_client_ready(struct rpc_client *rpc)
{
	const struct path *path = rpc->server;
	bool rdma = rpc->link.ops->traits & RPC_MOVES_DATA;
	int error = client_ready(rpc);

	if (error == -EINPROGRESS && client_unprepared_for(rpc) > path_names_timeout(path)) {
		log_unanswered(rpc);
		return rpc->setup_error = -ETIMEDOUT;
	}
	if (error && error != -EINPROGRESS && !rpc->setup_error)
		path->job.log("%s: cannot connect to %s %u: %s: is the NFS server running there?",
			      path->config.label, rdma ? "RDMA port" : "port",
			      path_port(path, rdma), link_failure(&rpc->link, error));
	return error;
}
