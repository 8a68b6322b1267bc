/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/path.h"

#include <sys/random.h>

struct rpc_address path_address(const struct path *path, bool rdma, unsigned int turn)
{
	const struct path_config *config = &path->config;
	struct rpc_address address = {
		.remote = config->remote,
		.remote_length = config->remote_length,
		.reserved_port = !rdma, /* RDMA needs privileges anyway: servers take any port */
	};

	rpc_set_port(&address.remote, (uint16_t)path_port(path, rdma));
	if (path->job.clients)
		turn += path->job.first_client;
	if (config->local_count)
		address.local = address_in_turn(config->locals, config->local_count, turn);
	return address;
}

uint32_t path_random(void)
{
	uint32_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (uint32_t)clock_now();
	return random;
}
