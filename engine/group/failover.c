/* SPDX-License-Identifier: GPL-2.0-only */
#include "group/group.h"

/* Declares a connection dead, and requeues its I/O. False where the transport cannot do that. */
static bool retire(struct conn *conn)
{
	uint32_t outstanding = conn->outstanding;

	if (!conn->ops->hand_over)
		return false;
	conn->ops->hand_over(conn);
	if (!conn->path->dead++)
		path_say(conn->path, "does not answer: %u calls or more go to other paths",
			 outstanding);
	conn->dead = true;
	conn->job->alive--;
	return true;
}

static void revive(struct conn *conn)
{
	conn->dead = false;
	conn->job->alive++;
	if (!--conn->path->dead)
		path_say(conn->path, "answers again: it takes I/O again");
}

void failover_look(struct group *group)
{
	for_each_conn (group, conn) {
		enum client_health health =
			conn->ops->health ? conn->ops->health(conn) : CLIENT_UNKNOWN;

		if (conn->dead && !conn->path->unusable && health == CLIENT_ANSWERS)
			revive(conn);
		else if (conn_may_retire(conn) && health == CLIENT_SILENT)
			retire(conn);
	}
}

bool failover_do_without(struct group *group, struct conn *conn)
{
	return conn->dead || (conn_may_retire(conn) && retire(conn));
}

bool failover_give_path_up(struct group *group, uint32_t path)
{
	for (uint32_t i = path; i < group->job.conn_count; i += group->path_count)
		if (!failover_do_without(group, group->conns[i]))
			return false;
	group->paths[path]->unusable = true;
	return true;
}

/* True where `conn` is the best substitute for `dead`: for a COMMIT, one on the same path, since
 * COMMIT covers WRITEs of that path; for other I/O, one on another path. */
static bool suits(const struct conn *conn, const struct conn *dead, const struct conn_io *io)
{
	if (io->op == IO_COMMIT)
		return conn->path == dead->path;
	return conn->path != dead->path;
}

struct conn *failover_choose(struct group *group, uint32_t dead, const struct conn_io *io)
{
	uint32_t count = group->job.conn_count;
	uint32_t first = dead + 1 + group->detours++;
	struct conn *any = group->conns[dead];

	for (uint32_t i = 0; i < count; i++) {
		struct conn *conn = group->conns[(first + i) % count];

		if (conn->dead || ((io->op == IO_COMMIT || io->nfs_only) && conn->path->config.dir))
			continue;
		if (suits(conn, group->conns[dead], io))
			return conn;
		any = conn;
	}
	return any;
}
