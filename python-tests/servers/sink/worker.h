/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * worker.h - a thread that serves the connections given to it.
 */
#ifndef NFS_SINK_WORKER_H
#define NFS_SINK_WORKER_H

#include <pthread.h>

#include "service.h"

struct worker {
	struct service service;
	struct counts counts;
	int epoll;
	int patience; /* epoll_wait()'s: -1 to sleep, 0 to poll */
	pthread_t thread;
};

struct worker_config {
	uint32_t read_max, write_max;
	bool spin; /* poll for calls, never sleep */
	int cpu;   /* the only processor to run on, or -1 */
};

/* Starts the thread. 0, or a negative errno. */
int worker_start(struct worker *worker, const struct worker_config *config);

/* Hands a connected socket to the thread. Closed at once where that is not possible. */
void worker_give(struct worker *worker, int fd);

#endif
