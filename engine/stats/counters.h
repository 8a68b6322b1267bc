/* SPDX-License-Identifier: GPL-2.0-only */
/* counters.h - counters of one connection, and of a job's metadata operations, and their lines in
 * the stats file. */
#pragma once

#include "stats/clients.h"
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
