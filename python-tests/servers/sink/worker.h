/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * worker.h - a thread that serves the connections given to it.
 */
#pragma once

#include <pthread.h>

#include "service.h"

/* Nanoseconds: nothing is answered for the last `length` of each `every`; of 0: it always is. */
struct stall {
	uint64_t begun; /* by clock_now() */
	uint64_t length, every;
};

struct worker {
	struct front front;
	struct counts counts;
	struct stall stall;
	int epoll;
	int patience; /* epoll_wait()'s: -1 to sleep, 0 to poll */
	pthread_t thread;
};

struct worker_config {
	struct limits limits;
	struct stall stall;
	bool spin; /* poll for calls, never sleep */
	int cpu;   /* the only processor to run on, or -1 */
};

/* Starts the thread. 0, or a negative errno. */
int worker_start(struct worker *worker, const struct worker_config *config);

/* Hands a connected socket to the thread. Closed at once where that is not possible. */
void worker_give(struct worker *worker, int fd);

/* --- a client's connection (connection.c): bytes in, calls answered in the order of their arrival,
 * replies out. All replies to what has arrived together leave together --- */

struct connection;

/* Takes over the socket, which does not block; NULL: no memory. */
struct connection *connection_open(int fd, struct front *front);
void connection_close(struct connection *connection);

int connection_fd(const struct connection *connection);

/*
 * Serves what has arrived. 0: wait for more of it, -EAGAIN: wait until the client takes its
 * replies, another negative errno: close it (-ECONNRESET: the client is gone, -EPROTO: what it
 * says is not NFS).
 */
int connection_serve(struct connection *connection);
