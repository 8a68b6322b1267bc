/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * group.h - all connections of one job: opened together, flushed together, waited for together.
 * The cost of an I/O does not depend on the number of connections.
 */
#pragma once

#include "group/connection.h"
#include "group/path.h"

struct group {
	struct conn_job job;
	struct conn **conns;
	struct path **paths; /* connection c lies on path c mod path_count */
	uint32_t path_count;

	/* private */
	struct conn **dirty; /* submitted to since their last flush */
	uint32_t dirty_count;
	int epoll_fd;  /* negative: none needed, the first connection waits for all */
	bool unpolled; /* it was logged that epoll does not take a connection */
	uint64_t last_tick;
	uint32_t detours; /* failover.c's: I/Os that went to another connection than their own */
};

/*
 * Opens `per_path` connections on each path, and waits until all are ready (with failover: until
 * each is ready or dead). Before the call, the caller sets io_count, file_count, writes, direct,
 * rdma, inline_max, failover, busy_poll, punctual, spin, stamps, hold, ticked and log in
 * group->job, as far as they are not 0; buffers may follow until the first I/O. The paths stay the
 * caller's. 0, or a negative errno with the reason logged and nothing left open; -EINTR where
 * stop() says so.
 */
int group_open(struct group *group, struct path **paths, uint32_t path_count, uint32_t per_path,
	       bool (*stop)(void));
void group_close(struct group *group);

/*
 * Hands an I/O to a connection, or to another where that one is dead (failover). Returns the number
 * of the connection that has it. Never blocks.
 */
uint32_t group_submit(struct group *group, uint32_t connection, struct conn_io *io);

/* Sends what was submitted. Never blocks. The caller has read job.clock before. */
void group_flush(struct group *group);

/* True where some of what was flushed has not left yet: group_reap() sends it. */
bool group_unsent(const struct group *group);

/* Collects completions in job.finished; with `wait` blocks for at most 100 ms until one is there.
 */
void group_reap(struct group *group, bool wait);

/* The most bytes that one I/O may carry over any path. Valid once a file is open. */
uint32_t group_io_max(const struct group *group, enum io_op op);

/* True where the host of a connection that owes an answer is reachable (connection.h). */
bool group_reachable(const struct group *group);

/* Ends every outstanding I/O with `error`. */
void group_abort(struct group *group, int error);

/* Opens and closes file `number`, called `name`, on every path and connection. */
int group_open_file(struct group *group, uint32_t number, const char *name);
void group_close_file(struct group *group, uint32_t number);

/*
 * failover.c decides which connections are dead, by their health, and which connections stand in
 * for them. It moves I/O, and never calls a server. The last connection never dies.
 */

/* Silent connections die, and their I/O goes into job.requeued; those that answer again revive. */
void failover_look(struct group *group);

/* The connection that takes an I/O instead of a dead one: each in turn. */
struct conn *failover_choose(struct group *group, uint32_t dead, const struct conn_io *io);

/* Declares an unusable connection dead. False: it is the last one, or there is no failover. */
bool failover_do_without(struct group *group, struct conn *conn);

/* The same for all connections of a path, which is then unusable for good. */
bool failover_give_path_up(struct group *group, uint32_t path);
