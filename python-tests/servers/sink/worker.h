/* SPDX-License-Identifier: GPL-2.0-only */
/* worker.h - a thread that serves the connections given to it. */
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
