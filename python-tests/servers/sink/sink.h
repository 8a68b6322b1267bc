/* SPDX-License-Identifier: GPL-2.0-only */
/* sink.h - threads that serve NFS versions 3 and 4.1 and MOUNT version 3 (serve.c). */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "core/call.h"

/* What the sink was asked to do: a serving thread writes its own, the sum may be taken at any time.
 */
enum { NFS_PROCEDURES = 22, NFS4_OPERATIONS = 76, MOUNT_PROCEDURES = 6 };

/* All members are uint64_t: tell_counts() sums them as an array. */
struct counts {
	uint64_t nfs[NFS_PROCEDURES];	/* calls, by RFC 1813's numbers */
	uint64_t nfs4[NFS4_OPERATIONS]; /* operations that went well, by RFC 8881's numbers */
	uint64_t mount[MOUNT_PROCEDURES];
	uint64_t read_bytes, write_bytes; /* of file data */
	uint64_t connections;		  /* accepted so far */
	uint64_t stalls;		  /* in which a call came */
	uint64_t busy;			  /* ns that these have served, and not waited */
} __attribute__((aligned(64)));

/* A serving thread's. */
struct front {
	struct limits limits;
	struct arguments asked;
	struct counts counts;
};

/*
 * Before any call is served; `name`: this server's, at whose addresses sessions are one's. False:
 * there is no memory.
 */
bool sink_init(const char *name);

/* --- a thread that serves the connections given to it --- */

/* Nanoseconds: nothing is answered for the last `length` of each `every`; of 0: it always is. */
struct stall {
	uint64_t begun; /* by clock_now() */
	uint64_t length, every;
};

struct worker {
	struct front front; /* its limits, and what follows, are set before it starts */
	struct stall stall;
	bool spin; /* poll for calls, never sleep */
	int cpu;   /* the only processor to run on, or -1 */

	int epoll;
	pthread_t thread;
};

/* Starts the thread. 0, or a negative errno. */
int worker_start(struct worker *worker);

/* Hands a connected socket to the thread. Closed at once where that is not possible. */
void worker_give(struct worker *worker, int fd);
