/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include <string.h>

#include "client/client.h"
#include "group/connection.h"
#include "server.h"
#include "world.h"

static const struct rpc_client *clients[SERVER_CLIENTS_MAX]; /* those that there are, by number */

void nclients_note(uint32_t own, const struct rpc_client *rpc)
{
	clients[own - 1] = rpc;
}

void nclients_check_causes(void)
{
	const struct group *group = &sim_job.engine.group;

	for (uint32_t i = 0; i < group->job.clients; i++) {
		const struct conn *conn = group->conns[i];
		char why[CONN_TROUBLE] = "";

		conn->ops->trouble(conn, why);
		if (!clients[i]->link.up && strncmp(why, "connection lost (", 17) != 0 &&
		    strncmp(why, "refused (", 9) != 0)
			world_violated("client %u is lost, and told of as: %s", 1 + i, why);
	}
}

/* It can send I/O at once, and waits for nothing. */
static bool is_there(const struct rpc_client *rpc)
{
	return rpc->prepared && !rpc->setup && TAILQ_EMPTY(&rpc->sent) &&
	       TAILQ_EMPTY(&rpc->waiting) && TAILQ_EMPTY(&rpc->delayed);
}

static bool are_there(void)
{
	for (uint32_t i = 0; i < sim_job.terms.clients; i++)
		if (!is_there(clients[i]))
			return false;
	return true;
}

/* What the end of a run tells of the client, by these counters (stats/clients.h). */
static void check_told(const struct conn *conn)
{
	const struct counters *counters = &conn->counters;
	uint64_t served = counters->read_ops + counters->write_ops + counters->meta_ops;
	uint32_t moves = server.moves[1 + conn->number];

	if (moves && !served && !counters->errors)
		world_violated("client %u, of %u calls, is told of as one without I/O",
			       1 + conn->number, moves);
	if (!counters->outages.up || (!counters->errors && !outages_over(&counters->outages)))
		world_violated("client %u is there, and told of as lost", 1 + conn->number);
}

void nclients_return(void)
{
	/* A call that nobody waits for, such as a renewal, may be sent again after 600 s. */
	uint64_t until = world.clock.now + 600 * SEC + LIMIT_CONNECT;
	bool aborted = sim_job.td.terminate;

	sim_job.td.terminate = false;
	while (!are_there() && !*world.violation) {
		job_step();
		if (world.clock.now > until)
			world_violated("a client is not there, though all has healed");
	}
	for (uint32_t i = 0; i < sim_job.terms.clients && !aborted; i++)
		check_told(sim_job.engine.group.conns[i]);
}
