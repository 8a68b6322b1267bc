/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * connection.h - one connection of a job: the operations of every transport, and the state that the
 * connections of one job share.
 *
 * A connection owns an I/O (client/call.h) from submit() until the I/O is in the job's list of
 * finished ones; only then is the I/O's result valid. No operation allocates memory per I/O.
 *
 * A job is one thread. Jobs share none of these structures, and no job uses one that was opened
 * before a fork.
 */
#pragma once

#include <sys/queue.h>
#include <sys/uio.h>

#include "client/client.h"
#include "group/hold.h"
#include "transport/transport.h"
#include "stats/counters.h"
#include "wait.h"

struct conn;
struct path;

/* The further members of an I/O that is a COMMIT: the I/O's owner provides them as io->commit. */
struct commit_io {
	/* Set before submit(). */
	struct ledger *ledger;	/* of the WRITEs that are to become durable */
	struct io_list sharing; /* other COMMITs, which get the same result */
	bool data_only;		/* fdatasync(2) is enough */

	struct ledger_commit covered; /* set by the connection; the owner clears it */
};

/* What the connections of one job share. The owner sets it, and keeps it until all close. */
struct conn_job {
	uint32_t io_count;   /* the most I/Os submitted at once, up to 65536 */
	uint32_t file_count; /* open_file() takes numbers below this */
	uint32_t conn_count; /* connections of the job; conn->number is below this */
	uint32_t clients;    /* nclients=: each connection is a client of its own; 0: one has all */
	uint32_t client_depth; /* nclients=: I/Os that a connection has at the server at once */
	uint32_t client_start; /* nclients=: connections that begin in a second; 0: all at once */
	bool own_files;	       /* nclients=: a file is one client's: conn_job_place() */
	struct io_list finished;
	bool failover;		 /* a silent connection is dead: others take its I/O */
	bool news;		 /* failover: group.c must look for dead connections */
	uint32_t alive;		 /* connections that are not dead; the last one never dies */
	uint32_t outstanding;	 /* I/Os submitted and not finished, with requeued ones */
	struct io_list requeued; /* I/O of dead connections, for group.c to submit again */
	struct clock clock; /* read at the last flush or reply; without read(): CLOCK_MONOTONIC */
	bool writes;	    /* some of the I/O will be writes */
	bool polled;	    /* group.c waits for all connections, by their poll_fd() */
	bool punctual;	    /* wake_at may end waits */
	bool direct;	    /* mounts: O_DIRECT */
	bool stamps;	    /* splits response times; all paths use TCP without TLS */
	uint64_t busy_poll; /* nanoseconds that a wait polls for completions before it sleeps */
	uint64_t wake_at;   /* punctual: when a wait ends, by `clock`; 0: after a slice */
	uint64_t spin;	    /* nanoseconds before wake_at in which waits do not sleep */
	struct hold *hold;  /* copies of WRITEs that are not durable yet, or NULL */
	/* The memory of the I/Os' data, for registration: fio's and the hold's, if known. */
	struct iovec buffers[RPC_BUFFERS];
	struct mount_ring *ring;     /* mount.c's: one serves all mounts of the job */
	bool rdma;		     /* paths may use RDMA; unset in the setup */
	struct rdma_memory *memory;  /* group.c's: for RDMA devices; NULL: no RDMA */
	void (*ticked)(void *owner); /* called every 100 ms while there is I/O, or NULL */
	void *owner;
	/* One line for people, without a newline. */
	void (*log)(const char *format, ...) __attribute__((format(printf, 1, 2)));
};

/* The place of a file's state: with own_files it is one connection's, one of that one's files. */
struct conn_place {
	uint32_t connection, number;
};

static inline struct conn_place conn_job_place(const struct conn_job *job, uint32_t file)
{
	uint32_t owners = job->own_files ? job->conn_count : 1;

	return (struct conn_place){file % owners, file / owners};
}

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
	/* Begins to open connection `number`. 0, or a negative errno, logged, and nothing to close.
	 */
	int (*open)(struct conn **conn, struct path *path, struct conn_job *job, uint32_t number);

	/* 0: ready for I/O; -EINPROGRESS: not yet; another errno: failed. NULL: always 0. */
	int (*ready)(struct conn *conn);

	/*
	 * Opens file `file` on this connection, after path_open_file(). 0 or a negative errno,
	 * logged. At close_file() no I/O is outstanding on the file. All three are NULL where
	 * connections keep no state of a file.
	 */
	int (*open_file)(struct conn *conn, uint32_t file);
	/* A step of that: 0: all files are open; -EINPROGRESS: not yet, perhaps as the connection
	 * is being made again; another errno, logged: the server refuses. */
	int (*opened)(struct conn *conn);
	void (*close_file)(struct conn *conn, uint32_t file);

	/* Takes over an I/O. Never blocks, never fails: an error comes as the I/O's result. */
	void (*submit)(struct conn *conn, struct conn_io *io);

	/* Sends what was submitted, as far as possible without waiting. */
	void (*flush)(struct conn *conn);

	/* True where flushed data is not sent yet: reap() sends it. NULL: flush() sends all. */
	bool (*unsent)(const struct conn *conn);

	/* Moves completed I/O to the job's list; with `wait` blocks for at most 100 ms. */
	void (*reap)(struct conn *conn, bool wait);

	/* The descriptor and the events for poll(2); descriptor -1: none. */
	int (*poll_fd)(const struct conn *conn);
	short (*poll_events)(const struct conn *conn);

	/* Handles time-outs and reconnects, about every 100 ms. NULL: there are none. */
	void (*tick)(struct conn *conn);

	/* nclients: when tick() has something to do, by job->clock, unless I/O is submitted or
	 * reap() called before; 0: within 100 ms. */
	uint64_t (*due)(const struct conn *conn);

	/* The server's health, as far as the connection can tell. NULL: it never can. */
	enum client_health (*health)(const struct conn *conn);

	/* True where the server's host is reachable, even if the server is silent. NULL: always. */
	bool (*reachable)(const struct conn *conn);

	/* failover: moves every I/O to job->requeued, and keeps reconnecting. NULL: the transport
	 * cannot return its I/O. */
	void (*hand_over)(struct conn *conn);

	/* Ends every outstanding I/O with `error`. Only a hung mount may still touch buffers. */
	void (*abort)(struct conn *conn, int error);

	/* The addresses of both ends: strings of at least CONN_NAME bytes. */
	void (*names)(const struct conn *conn, char *local, char *remote);

	/* nclients: writes why I/O is not answered, with a remedy, to CONN_TROUBLE bytes. NULL for
	 * mounts, which nclients refuses. */
	void (*trouble)(const struct conn *conn, char *text);

	/* nclients: one step of telling the server that the client ends, without outstanding I/O.
	 * 0: it is told, or cannot be; -EINPROGRESS: not yet. NULL: always 0. */
	int (*leave)(struct conn *conn);

	/* Closes at once. The caller reaps or aborts I/O before: close() gives it no result. */
	void (*close)(struct conn *conn);
};

/* How far a connection is with a step that all take: with ready(), opened() or leave(). */
enum conn_turn {
	CONN_WAITS, /* until others have taken it */
	CONN_TAKES, /* the step itself reads the connection's replies, and ticks */
	CONN_DONE,
};

#define CONN_NAME    128
#define CONN_TROUBLE 160

struct conn {
	const struct conn_ops *ops;
	const char *transport_name; /* "tcp", "rdma", "mount" */
	struct path *path;
	struct conn_job *job;
	uint32_t number;	    /* within the job */
	uint32_t outstanding;	    /* I/Os submitted and not finished */
	const uint32_t *poll_epoch; /* changes whenever poll_fd() may have changed */
	enum conn_turn turn;	    /* group.c's */
	bool dirty;		    /* group.c's: I/O was submitted since the last flush */
	TAILQ_ENTRY(conn) dirty_link;
	uint32_t polled_epoch; /* group.c's: poll_epoch and poll_events() that epoll has */
	short polled_events;
	bool dead; /* failover: gets no I/O until it answers again */
	struct counters counters;
	struct transport_counters transport;
	struct latency latency;
};

/* submit() has taken `io`. */
static inline void conn_began(struct conn *conn, struct conn_io *io)
{
	io->conn = conn;
	conn->outstanding++;
	conn->job->outstanding++;
}

/* `io` has its result. */
static inline void conn_finish(struct conn_io *io)
{
	struct conn *conn = io->conn;

	conn->outstanding--;
	conn->job->outstanding--;
	if (io->error)
		conn->counters.errors++;
	if (io->op == IO_WRITE && io->held)
		hold_finished(conn->job->hold, io->held, io->error, conn->number);
	TAILQ_INSERT_TAIL(&conn->job->finished, io, link);
}

/* Another connection is to take `io`, which stays outstanding in the job. */
static inline void conn_requeue(struct conn_io *io)
{
	io->conn->outstanding--;
	TAILQ_INSERT_TAIL(&io->conn->job->requeued, io, link);
}

/* failover: true where this connection may die, since another one is alive. */
static inline bool conn_may_retire(const struct conn *conn)
{
	return conn->job->failover && !conn->dead && conn->job->alive > 1;
}

extern const struct conn_ops conn_nfs;
extern const struct conn_ops conn_mount;
