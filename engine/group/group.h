/* SPDX-License-Identifier: GPL-2.0-only */
/* group.h - opens and flushes all connections of one job together, and waits for all together. The
 * cost of an I/O does not depend on the number of connections. */
#pragma once

#include "group/connection.h"
#include "group/path.h"

struct group {
	struct conn_job job;
	struct conn **conns;
	struct path **paths; /* connection c uses path c mod path_count */
	uint32_t path_count;

	/* private */
	bool (*stop)(void);	  /* group_open()'s */
	TAILQ_HEAD(, conn) dirty; /* those with I/O submitted since their last flush */
	int epoll_fd;  /* negative: not needed, since the first connection's reap() waits for all */
	bool unpolled; /* epoll does not watch all: it refuses one (logged), or they are opened */
	uint64_t began; /* when group_open() did */
	uint64_t last_tick;
	/* nclients: when the tick of each connection is due. NULL: at each tick. */
	uint64_t *due;
	uint64_t next_due; /* nclients: when the first of them is, but never within CLIENT_TICK */
	bool opened;	   /* nclients: all clients have opened a file */
	uint32_t opening;  /* the number of the file that is being opened */
	uint32_t detours;  /* failover.c's: I/Os of dead connections that went to another */
};

/* Each connection in turn; NULL where it is not open. */
#define for_each_conn(group, conn)                                                              \
	for (struct conn **conn##_at = (group)->conns, *conn;                                   \
	     conn##_at < (group)->conns + (group)->job.conn_count && (conn = *conn##_at, true); \
	     conn##_at++)

/*
 * Opens `per_path` connections on each path, or with job.clients that many in all, and waits until
 * all are ready (with failover: until each is ready or dead). Before the call, the caller sets
 * io_count, file_count, clients, client_depth, client_start, own_files, writes, direct, rdma,
 * failover, busy_poll, punctual, spin, stamps, hold, ticked, owner and log in group->job, unless
 * they are 0; buffers may follow until the first I/O. The paths stay the caller's. 0, or a negative
 * errno with the reason logged and nothing left open; -EINTR where stop() returned true.
 */
int group_open(struct group *group, struct path **paths, uint32_t path_count, uint32_t per_path,
	       bool (*stop)(void));
void group_close(struct group *group);

/* Submits an I/O to a connection, or if that is dead (failover) to another. Returns the number of
 * the connection that took the I/O. Never blocks. */
uint32_t group_submit(struct group *group, uint32_t connection, struct conn_io *io);

/* Sends what was submitted. Never blocks. The caller has read job.clock before. */
void group_flush(struct group *group);

/* True where some flushed data is not sent yet: group_reap() sends it. */
bool group_unsent(const struct group *group);

/* Collects completions in job.finished. `wait`: blocks until something comes, at most 100 ms. */
void group_reap(struct group *group, bool wait);

/* The most bytes that one I/O may carry over every usable path. Valid once a file is open. */
uint32_t group_io_max(const struct group *group, enum io_op op);

/* True where any connection with outstanding I/O has a reachable host (connection.h). */
bool group_reachable(const struct group *group);

/* Ends every outstanding I/O with `error`. */
void group_abort(struct group *group, int error);

/* Opens and closes file `number`, called `name`, on every path and connection. */
int group_open_file(struct group *group, uint32_t number, const char *name);
void group_close_file(struct group *group, uint32_t number);

/* failover.c decides by their health which connections are dead, and which ones replace them. It
 * moves I/O, and calls no server. The last connection never dies. */

/* Declares silent connections dead and requeues their I/O; revives those that answer again. */
void failover_look(struct group *group);

/* The next connection, in turn, to take a dead one's I/O; if there is none, the dead one. */
struct conn *failover_choose(struct group *group, uint32_t dead, const struct conn_io *io);

/* Declares an unusable connection dead. False: no failover, the last one, or a mount's. */
bool failover_do_without(struct group *group, struct conn *conn);

/* Declares a path's connections dead, and the path unusable for good. False: one cannot die. */
bool failover_give_path_up(struct group *group, uint32_t path);
