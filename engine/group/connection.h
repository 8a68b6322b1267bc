/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * connection.h - one connection of a job: what every transport offers, and what the connections of
 * one job share.
 *
 * While a connection has an I/O (client/io.h), its result is not valid; it has it until that stands
 * in the job's list of finished ones. No operation allocates memory per I/O.
 *
 * A job is one thread. Nothing here is shared between jobs, and nothing that was opened before a
 * fork is used after it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "client/client.h"
#include "clock.h"
#include "group/hold.h"
#include "transport/transport.h"
#include "stats/counters.h"
#include "util.h"
#include "wait.h"

struct conn;
struct path;

/* What the connections of one job share. The owner fills it, and keeps it until all are closed. */
struct conn_job {
	uint32_t io_count;   /* I/Os that are submitted at once, at most 65536 */
	uint32_t file_count; /* open_file() takes numbers below this */
	uint32_t conn_count; /* connections of the job; conn->number is below this */
	struct io_list finished;
	bool failover;		 /* a connection that does not answer hands its I/O on: dead */
	bool news;		 /* failover is to look at once at one that is dead, or to be */
	uint32_t alive;		 /* connections that are not dead; the last one never is */
	uint32_t outstanding;	 /* I/Os submitted and not finished, those requeued as well */
	struct io_list requeued; /* I/O of the dead: group.c finds it another connection */
	struct clock clock; /* read at the last flush or reply; read() of NULL: CLOCK_MONOTONIC */
	bool writes;	    /* some of the I/O will be writes */
	bool polled;	    /* connections are waited for by their poll_fd() */
	bool punctual;	    /* waits may have to end before a slice is over, by wake_at */
	bool direct;	    /* mounts: O_DIRECT */
	bool stamps;	    /* responses are told in parts: paths are over TCP in clear */
	uint64_t busy_poll; /* nanoseconds to ask for completions without sleeping, before a wait */
	uint64_t
		wake_at; /* punctual: by the clock: when a wait ends; 0: after its slice, as ever */
	uint64_t spin;	 /* the last nanoseconds before wake_at are no sleep */
	struct hold *hold; /* copies of WRITEs that are not durable yet, or NULL */
	/* Memory that I/O's data lies in, where known, for registration: fio's, and the hold's. */
	struct iovec buffers[RPC_BUFFERS];
	void *ring;	     /* mount.c's: one serves all mounts of the job */
	bool rdma;	     /* paths may be used over RDMA: never before a fork */
	uint32_t inline_max; /* RDMA: bytes of the longest message that is sent without chunks */
	struct rdma_memory *memory;  /* group.c's: what devices may reach; NULL: no RDMA */
	void (*ticked)(void *owner); /* every 100 ms while there is I/O; NULL: nobody asks */
	void *owner;
	/* One line for people, without a newline. */
	void (*log)(const char *format, ...) __attribute__((format(printf, 1, 2)));
};

/* Nanoseconds that a wait may sleep from now on, at most a slice. */
static inline uint64_t conn_job_slice(const struct conn_job *job)
{
	static const uint64_t slice = WAIT_SLICE_MS * MSEC;
	uint64_t sleeps_until = job->wake_at - job->spin, now;

	if (!job->wake_at)
		return slice;
	now = job->clock.read(&job->clock);
	return sleeps_until > now ? min_of(sleeps_until - now, slice) : 0;
}

struct conn_ops {
	/*
	 * Begins to open a connection on `path`. 0, or a negative errno with nothing to close and
	 * the reason logged.
	 */
	int (*open)(struct conn **conn, struct path *path, struct conn_job *job);

	/* 0: ready for I/O, -EINPROGRESS: not yet, another negative errno: failed, and logged. */
	int (*ready)(struct conn *conn);

	/*
	 * Makes file `file` usable by this connection; path_open_file() has found it. 0 or a
	 * negative errno, logged. close_file() wants no I/O outstanding on it. Both NULL where a
	 * connection needs no more than its path.
	 */
	int (*open_file)(struct conn *conn, uint32_t file);
	void (*close_file)(struct conn *conn, uint32_t file);

	/* Takes over an I/O. Never blocks, never fails: an error comes as the I/O's result. */
	void (*submit)(struct conn *conn, struct conn_io *io);

	/* Sends what was submitted, as far as that can be done without waiting. */
	void (*flush)(struct conn *conn);

	/* Some of what was flushed has not left yet; reap() goes on with it. NULL: that cannot be.
	 */
	bool (*unsent)(const struct conn *conn);

	/*
	 * Moves what has completed to the job's finished list. With `wait` it blocks, for 100 ms at
	 * the most, until there is something to be done.
	 */
	void (*reap)(struct conn *conn, bool wait);

	/* What to poll for when waiting for several connections at once; poll_fd may be -1:
	 * nothing. */
	int (*poll_fd)(const struct conn *conn);
	short (*poll_events)(const struct conn *conn);

	/* To be called about every 100 ms, whatever else happens: time-outs and reconnects. */
	void (*tick)(struct conn *conn);

	/* How the server does, as far as this connection can tell. */
	enum client_health (*health)(const struct conn *conn);

	/* The other host is there, whether or not its server answers; true where nobody can tell.
	 */
	bool (*reachable)(const struct conn *conn);

	/*
	 * failover: gives every I/O back, into job->requeued, and goes on connecting. False where a
	 * transport cannot take its I/O back.
	 */
	bool (*hand_over)(struct conn *conn);

	/* Gives up every outstanding I/O with `error`; their buffers are not touched from here on.
	 */
	void (*abort)(struct conn *conn, int error);

	/* The two ends, and what the transport did. Strings of at least CONN_NAME bytes. */
	void (*names)(const struct conn *conn, char *local, char *remote);

	/* Closes at once; outstanding I/O is gone without a result: reap or abort it first. */
	void (*close)(struct conn *conn);
};

#define CONN_NAME 128

struct conn {
	const struct conn_ops *ops;
	const char *transport_name; /* "tcp", "rdma", "mount" */
	struct path *path;
	struct conn_job *job;
	uint32_t number;	    /* within the job: the owner sets it after open() */
	uint32_t outstanding;	    /* I/Os submitted and not finished */
	const uint32_t *poll_epoch; /* changes whenever poll_fd() may have */
	bool dirty;		    /* group.c's: submitted to since the last flush */
	bool dead;		    /* failover: gets no I/O until it answers again */
	struct counters counters;
	struct transport_counters transport;
	struct latency latency;
};

/* --- for transports --- */

/* submit() has taken `io`. */
static inline void conn_began(struct conn *conn, struct conn_io *io)
{
	io->conn = conn;
	conn->outstanding++;
	conn->job->outstanding++;
}

/* `io` has its result. */
static inline void conn_finish(struct conn *conn, struct conn_io *io)
{
	conn->outstanding--;
	conn->job->outstanding--;
	if (io->error)
		conn->counters.errors++;
	if (io->op == IO_WRITE && io->held)
		hold_finished(conn->job->hold, io->held, io->error, conn->number);
	TAILQ_INSERT_TAIL(&conn->job->finished, io, link);
}

/* Another connection is to take `io`: the job's count of outstanding ones still has it. */
static inline void conn_requeue(struct conn *conn, struct conn_io *io)
{
	conn->outstanding--;
	TAILQ_INSERT_TAIL(&conn->job->requeued, io, link);
}

/* failover: others could stand in for this connection. */
static inline bool conn_may_retire(const struct conn *conn)
{
	return conn->job->failover && !conn->dead && conn->job->alive > 1;
}

/* conn_nfs's: what requests go by (client_request()). */
struct rpc_client *conn_client(struct conn *conn);

extern const struct conn_ops conn_nfs;
extern const struct conn_ops conn_mount;
