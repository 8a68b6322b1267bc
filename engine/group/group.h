/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * group.h - all connections of one job: opened together, flushed together, waited for together.
 * What an I/O costs does not depend on how many there are.
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
	int epoll_fd;	  /* negative: none needed, the first connection waits for all */
	uint32_t *polled; /* per connection: the poll_epoch and the events that epoll knows */
	short *polled_events;
	bool unpolled; /* it was said that epoll does not take a connection */
	uint64_t last_tick;
	uint32_t detours; /* failover.c's: I/Os that could not go where they should have gone */
};

/*
 * Opens `per_path` connections on each of the paths, whose order they follow in turn, and waits
 * until all are ready (with failover: until each is ready or dead). The caller has set in
 * group->job what is not zero of io_count, file_count, writes, direct, rdma, inline_max, failover,
 * busy_poll, punctual, spin, stamps, hold, ticked and log; buffers may follow until the first I/O.
 * The paths stay the caller's. 0, or a negative errno with the reason logged and nothing left open.
 * `stop` gives up with -EINTR.
 */
int group_open(struct group *group, struct path **paths, uint32_t path_count, uint32_t per_path,
	       bool (*stop)(void));
void group_close(struct group *group);

/*
 * Hands an I/O to a connection, or, where that is dead (failover), to another. Returns which. Never
 * blocks.
 */
uint32_t group_submit(struct group *group, uint32_t connection, struct conn_io *io);

/* Sends what was submitted; the caller has read job.clock. Never blocks. */
void group_flush(struct group *group);

/* Some of what was flushed has not left yet; group_reap() goes on with it. */
bool group_unsent(const struct group *group);

/* Collects completions in job.finished; with `wait` blocks for 100 ms at the most until there are
 * some. */
void group_reap(struct group *group, bool wait);

/* The most bytes that an I/O may carry over whichever path. Valid once a file is open. */
uint32_t group_io_max(const struct group *group, enum io_op op);

/* Of a connection that owes an answer: the other host is there (connection.h). */
bool group_reachable(const struct group *group);

/* Gives up everything outstanding. */
void group_abort(struct group *group, int error);

/* Opens and closes file `number`, called `name`, on every path and connection. */
int group_open_file(struct group *group, uint32_t number, const char *name);
void group_close_file(struct group *group, uint32_t number);
