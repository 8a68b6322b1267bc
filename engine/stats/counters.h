/* SPDX-License-Identifier: GPL-2.0-only */
/* counters.h - what one connection has done, and its line in the stats file. */
#ifndef NFSMULTI_COUNTERS_H
#define NFSMULTI_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct counters {
	uint64_t read_ops, read_bytes;	      /* answered READs and the bytes they brought */
	uint64_t write_ops, write_bytes;      /* answered WRITEs and the bytes they took */
	uint64_t commits;		      /* answered COMMITs, or fsyncs of a mount */
	uint64_t rewritten_bytes;	      /* of write_bytes, those of held data written again */
	uint64_t retransmissions;	      /* calls sent again, with their xid */
	uint64_t reconnects;		      /* connections made after the first */
	uint64_t reissues;		      /* calls taken over from a path that failed */
	uint64_t stale_replies;		      /* replies to no outstanding call, dropped */
	uint64_t errors;		      /* calls that ended in an error */
	uint64_t rtt_count, rtt_sum, rtt_max; /* nanoseconds, from flush to reply */
};

static inline void counters_rtt(struct counters *counters, uint64_t nanoseconds)
{
	counters->rtt_count++;
	counters->rtt_sum += nanoseconds;
	if (nanoseconds > counters->rtt_max)
		counters->rtt_max = nanoseconds;
}

/* Whose counters they are. Strings are UTF-8 or not: they are escaped. */
struct counters_label {
	const char *job;     /* fio's job name */
	uint32_t job_number; /* fio's, from 0 */
	uint32_t connection; /* within the job, from 0 */
	const char *path;    /* as the pool names it */
	const char *local, *remote;
	const char *transport; /* "tcp", "rdma", "mount" */
};

/* Transport figures beside them; rpc.h's struct rpc_counters without its header. */
struct counters_transport {
	uint64_t syscalls, bytes_sent, bytes_received;
	bool rdma; /* the rest applies, and is written */
	uint64_t sends, receives, credits, rnr_errors, retry_errors, registrations;
};

/*
 * One JSON object, in one line that ends with a newline. Written by hand and not by a JSON library,
 * because fio exports a json_* family of its own that a library's symbols would meet in one
 * process.
 */
void counters_write(FILE *out, const struct counters_label *label, const struct counters *counters,
		    const struct counters_transport *transport);

#endif
