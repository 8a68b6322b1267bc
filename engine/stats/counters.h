/* SPDX-License-Identifier: GPL-2.0-only */
/* counters.h - counters of one connection, of the clients of nclients=, and of a job's metadata
 * operations; their lines in the stats file, and a job's last lines about them. */
#pragma once

#include "stats/latency.h"
#include "util.h"

/*
 * --- a thread's CPU time for many small pieces of work ---
 *
 * It is estimated from every 17th, since reading the clock may cost more than a piece. 17 is a
 * prime, so that alternating pieces, such as header and body, are sampled alike.
 */

enum { SAMPLED_EVERY = 17 };

struct sampled_time {
	uint64_t total; /* estimated total in nanoseconds, extrapolated from the samples */
	uint32_t turns;
	bool looks;	      /* this piece is sampled */
	uint64_t began, cost; /* cost: of reading the clock, part of each sample */
};

static inline uint64_t thread_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return nanoseconds_of(&now);
}

static inline void sampled_begin(struct sampled_time *time)
{
	uint64_t before;

	time->looks = !(++time->turns % SAMPLED_EVERY);
	if (!time->looks)
		return;
	before = thread_time();
	time->began = thread_time();
	time->cost = time->began - before;
}

static inline void sampled_end(struct sampled_time *time)
{
	uint64_t took;

	if (!time->looks)
		return;
	took = thread_time() - time->began;
	time->total += SAMPLED_EVERY * (took - min_of(took, time->cost));
}

/* Time between leave and return is not counted. */
static inline uint64_t sampled_leave(const struct sampled_time *time)
{
	return time->looks ? thread_time() : 0;
}

static inline void sampled_return(struct sampled_time *time, uint64_t left)
{
	if (time->looks)
		time->began += thread_time() - left;
}

/*
 * --- when a client first did I/O, and when it could do none ---
 *
 * An outage begins when a client that can do I/O loses its connection. It ends when the server
 * answers an I/O or, if the client has none to do, as soon as the client can send I/O again. A
 * connection that is lost before that belongs to the same outage. Times are nanoseconds of the
 * caller's clock; 0: it has not happened.
 */

enum { OUTAGES_KEPT = 3 };

struct outage {
	uint64_t lost;
	uint64_t back;	   /* I/O could be sent again; the last such time, if there were several */
	uint64_t answered; /* an I/O was answered, for the first time since then */
	uint64_t ended;	   /* the outage was over: `answered` or, with nothing to do, `back` */
};

/* All 0 at first. Connections that are not reported need no outages_begin(). */
struct outages {
	bool awaited; /* the next answer must call outages_answered(): the first, or after a loss */
	bool up;      /* I/O can be sent */
	uint32_t count;
	uint64_t begun;			  /* when the client first began to connect */
	uint64_t first_io;		  /* when its first I/O was answered */
	uint64_t longest;		  /* nanoseconds, of the outages that are over */
	struct outage kept[OUTAGES_KEPT]; /* the newest: number n is kept[n % OUTAGES_KEPT] */
};

/* The client begins to connect, for the first time. */
void outages_begin(struct outages *outages, uint64_t now);

/* I/O can be sent; `waits`: there is I/O to do. May be called while the client is up. */
void outages_up(struct outages *outages, uint64_t now, bool waits);

/* The connection is lost. May be called before the client was up. */
void outages_lost(struct outages *outages, uint64_t now);

/* An I/O was answered without an error. */
void outages_answered(struct outages *outages, uint64_t now);

/* True if no outage is going on. */
bool outages_over(const struct outages *outages);

/* How many outages are kept; kept outage `number`, from 0, the oldest first. */
uint32_t outages_kept(const struct outages *outages);
const struct outage *outages_get(const struct outages *outages, uint32_t number);

/* Writes the outages into the client's line of the stats file (json_line.h), in microseconds. */
void outages_write(FILE *out, const struct outages *outages);

/* --- a connection --- */

/* TLS or Kerberos, of one connection. */
struct security_counters {
	const char *algorithm;	    /* of the latest: "AES-256-GCM"; NULL: there was none */
	uint64_t count, time;	    /* handshakes or contexts made; nanoseconds for all of them */
	struct sampled_time crypto; /* encryption and checksums, without handshakes */
};

struct counters {
	uint64_t read_ops, read_bytes;	 /* answered READs and their bytes */
	uint64_t write_ops, write_bytes; /* answered WRITEs and their bytes */
	uint64_t commits;		 /* answered COMMITs, or fsyncs of a mount */
	uint64_t meta_ops;		 /* successful metadata operations */
	uint64_t lookups;		 /* LOOKUPs before metadata operations */
	uint64_t rewritten_bytes;	 /* held data written again, part of write_bytes */
	uint64_t retransmissions;	 /* calls sent again, with their xid */
	uint64_t reconnects;		 /* connections made after the first */
	uint64_t reissues;		 /* I/Os taken over from a dead connection */
	uint64_t stale_replies;		 /* replies to no outstanding call, dropped */
	uint64_t errors;		 /* I/Os that ended in an error */
	struct security_counters security;
	struct outages outages; /* told of with nclients= */
};

/* Adds another connection's, but for security and outages. */
void counters_add(struct counters *sum, const struct counters *one);

/* The transport of one connection. */
struct transport_counters {
	uint64_t syscalls;
	uint64_t bytes_sent, bytes_received; /* with all headers */
	uint64_t bytes_discarded;	     /* dropped by the kernel, part of bytes_received */
	uint64_t sends, receives;	     /* system calls that moved bytes; RDMA: messages */

	struct security_counters tls;
	bool ktls; /* the kernel has the latest keys of TLS */

	/* RDMA only */
	uint64_t credits;	/* granted by the latest reply */
	uint64_t rnr_errors;	/* connections lost because the server had no Receive posted */
	uint64_t retry_errors;	/* connections lost because the server did not acknowledge */
	uint64_t registrations; /* of memory, including the connection's own */
};

/* Members of a connection's line in the stats file (json_line.h): what it did, and how long that
 * took. `rdma`: with the counters of RDMA. */
void counters_write(FILE *out, const struct counters *counters,
		    const struct transport_counters *transport, bool rdma);
void latencies_write(FILE *out, const struct latency *latency,
		     const struct latency_percentile *percentiles);

/* One line of live_file=: the connections of a path together. `rtt_mean`: nanoseconds. */
void counters_write_path(FILE *out, const struct line_job *job, const char *path,
			 const struct counters *sum, double rtt_mean);

/* --- a job's metadata operations of one kind --- */

struct operations {
	uint64_t errors;	  /* failed operations, not in `latency` */
	struct histogram latency; /* of successful operations, since they were sent or due */
};

/* One line of the stats file. `span`: nanoseconds from the job's first operation to its last. */
void operations_write(FILE *out, const struct line_job *job, const char *name, uint64_t span,
		      const struct operations *operations);

/* The same for people, without a newline. */
enum { OPERATIONS_LINE = 256 };
void operations_tell(char line[OPERATIONS_LINE], const char *name, uint64_t span,
		     const struct operations *operations);

/* --- all clients of nclients= together: a line for each question below, never one for each client
 * --- */

struct client_figures {
	uint32_t number;     /* client_name='s %d */
	uint64_t operations; /* answered without an error: a client with none was not served */
	uint64_t errors;     /* I/Os that failed */
	const struct histogram *rtt;
	const struct outages *outages;
	const char *why; /* why it was not served, or is not back */
};

/*
 * Calls say() with each line, without a newline:
 * - how many were served, and how evenly: Jain's index is 1 if all did the same, and 1/N if one did
 * all. It hides a few starved clients, and shows nothing if the job gives each the same number of
 * I/Os: so the line also names the slowest and the fastest client;
 * - how many lost their connection, and how soon they were back: each by its longest outage;
 * - why clients were not served, or are not back, and how many.
 * If the job did no I/O, only the first line: the job has already logged why.
 */
enum { CLIENTS_LINE = 384 };
void clients_tell(const struct client_figures *clients, uint32_t count,
		  void (*say)(const char *line));
