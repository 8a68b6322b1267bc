/* SPDX-License-Identifier: GPL-2.0-only */
/* counters.h - what one connection, and a job's metadata operations, have done, and their lines in
 * the stats file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "stats/latency.h"
#include "stats/sampled_time.h"

/* What Kerberos did for it. */
struct security_counters {
	/* Of the latest context, such as "aes256-cts-hmac-sha1-96"; NULL: it had none. */
	const char *enctype;
	uint64_t contexts, context_time; /* that it has made; nanoseconds, of all of them */
	struct sampled_time crypto;	 /* encryption and checksums */
};

struct counters {
	uint64_t read_ops, read_bytes;	 /* answered READs and the bytes they brought */
	uint64_t write_ops, write_bytes; /* answered WRITEs and the bytes they took */
	uint64_t commits;		 /* answered COMMITs, or fsyncs of a mount */
	uint64_t meta_ops;		 /* metadata operations that were done */
	uint64_t lookups;		 /* LOOKUPs that metadata operations needed before */
	uint64_t rewritten_bytes;	 /* of write_bytes, those of held data written again */
	uint64_t retransmissions;	 /* calls sent again, with their xid */
	uint64_t reconnects;		 /* connections made after the first */
	uint64_t reissues;		 /* calls taken over from a path that failed */
	uint64_t stale_replies;		 /* replies to no outstanding call, dropped */
	uint64_t errors;		 /* calls that ended in an error */
	struct security_counters security;
};

/* What its transport did. */
struct transport_counters {
	uint64_t syscalls;
	uint64_t bytes_sent, bytes_received; /* headers and all */
	uint64_t bytes_discarded;	     /* of those received: the kernel dropped them */
	uint64_t sends, receives;	     /* that moved bytes; RDMA: messages */

	/* TLS's alone */
	uint64_t handshakes, handshake_time; /* nanoseconds, of all of them */
	const char *cipher;		     /* of the latest, such as "AES-256-GCM" */
	bool ktls;			     /* the kernel has the latest's keys */
	struct sampled_time crypto;	     /* encryption, without handshakes */

	/* RDMA's alone */
	uint64_t credits;	/* granted by the latest reply */
	uint64_t rnr_errors;	/* connections lost because the server had no Receive posted */
	uint64_t retry_errors;	/* connections lost because the server did not acknowledge */
	uint64_t registrations; /* of memory, those of the connection's own included */
};

/* Whose counters they are. Strings are UTF-8 or not: they are escaped. */
struct counters_label {
	const char *job;     /* fio's job name */
	uint32_t job_number; /* fio's, from 0 */
	uint32_t connection; /* within the job, from 0 */
	const char *path;    /* as the pool names it */
	const char *local, *remote;
	const char *transport;	   /* "tcp", "mount", "rdma", which has counters of its own */
	const char *sec, *xprtsec; /* nfs(5); NULL: they are the kernel's */
};

/* One JSON object, in one line that ends with a newline. */
void counters_write(FILE *out, const struct counters_label *label, const struct counters *counters,
		    const struct transport_counters *transport, const struct latency *latency);

/* --- a job's metadata operations of one kind --- */

struct operations {
	uint64_t errors;	  /* those that failed, which are not in `latency` */
	struct histogram latency; /* of those that were done, from submission to the end */
};

/* Whose they are. */
struct operations_label {
	const char *job;     /* fio's job name */
	uint32_t job_number; /* fio's, from 0 */
	const char *name;    /* "getattr" */
	uint64_t span;	     /* nanoseconds in which they were done */
};

/* One JSON object, in one line that ends with a newline. */
void operations_write(FILE *out, const struct operations_label *label,
		      const struct operations *operations);

/* The same for people, without a newline. */
enum { OPERATIONS_LINE = 256 };
void operations_tell(char line[OPERATIONS_LINE], const struct operations_label *label,
		     const struct operations *operations);
