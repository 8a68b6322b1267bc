/* SPDX-License-Identifier: GPL-2.0-only */
/* latency.h - histograms of the latencies of a connection's I/O, and their report. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Latencies are counted in bins, 64 per power of two as in fio: the error of a percentile is below
 * 1 %. */
enum {
	HISTOGRAM_BITS = 6, /* bits after a value's leading 1 that choose its bin */
	HISTOGRAM_PART = 1 << HISTOGRAM_BITS, /* bins of a power of two */
	HISTOGRAM_TOP = 44, /* values from 2^44 ns (five hours) on are in the last bin */
	HISTOGRAM_PARTS = HISTOGRAM_TOP - HISTOGRAM_BITS + 1,
	HISTOGRAM_BINS = HISTOGRAM_PARTS * HISTOGRAM_PART,
};

/*
 * All 0 at first; histogram_free() ends it. Values are nanoseconds. Most connections' latencies lie
 * within a few powers of two, so parts are allocated at first use: with nclients= there are
 * thousands of histograms.
 */
struct histogram {
	uint64_t count, sum, max;
	uint64_t *parts[HISTOGRAM_PARTS]; /* HISTOGRAM_PART bins each; NULL: all are 0 */
};

/* Frees the parts, and makes all 0. */
void histogram_free(struct histogram *histogram);

/* Allocates a part. NULL: out of memory; its values then count only in count, sum and max. */
uint64_t *histogram_new_part(struct histogram *histogram, uint32_t part);

/* Values below 2^HISTOGRAM_BITS have a bin each; a larger value's leading bits choose its bin. */
inline uint32_t histogram_bin(uint64_t value)
{
	uint32_t shift;

	if (value >> HISTOGRAM_TOP)
		return HISTOGRAM_BINS - 1;
	shift = 63 - (uint32_t)__builtin_clzll(value | HISTOGRAM_PART) - HISTOGRAM_BITS;
	return (shift << HISTOGRAM_BITS) + (uint32_t)(value >> shift);
}

inline void histogram_count(struct histogram *histogram, uint32_t bin)
{
	uint64_t *part = histogram->parts[bin / HISTOGRAM_PART];

	if (part || (part = histogram_new_part(histogram, bin / HISTOGRAM_PART)))
		part[bin % HISTOGRAM_PART]++;
}

/* Inline: called for each I/O. */
inline void histogram_add(struct histogram *histogram, uint64_t value)
{
	histogram->count++;
	histogram->sum += value;
	if (value > histogram->max)
		histogram->max = value;
	histogram_count(histogram, histogram_bin(value));
}

/* Adds the counts of `one` to `sum`. */
void histogram_join(struct histogram *sum, const struct histogram *one);

/* These return 0 if nothing was counted; `percent` is from 0 to 100. */
uint64_t histogram_mean(const struct histogram *histogram);
uint64_t histogram_percentile(const struct histogram *histogram, double percent);

struct line_job;

/*
 * rx_timestamps=: the parts of a response. Service is the time from sending a call until the kernel
 * has its reply: the network's and the server's. Wake-up is the time from then until the job takes
 * the reply. The kernel stamps each receive (transport.h, rpc_channel). If a receive brings several
 * replies, service is an upper bound, and wake-up a lower bound.
 */
struct response {
	struct histogram service, wake_up; /* of each reply; their sum is its rtt */
	uint64_t shared;  /* replies that came after another one in the same receive */
	uint64_t clamped; /* replies without a stamp, or with an impossible one */

	/* The latest receive. */
	uint64_t age; /* nanoseconds since the kernel got it; 0 without a valid stamp */
	bool sound;   /* the stamp is valid */
	bool used;    /* it has brought a reply */
};

/* The spans of an I/O, one after the other: of a connection, or of a job's connections together. */
struct latency {
	struct histogram lag; /* from due to issue_time; only with arrival_rate= or arrival_bw= */
	/* Waiting in the job: for slots, credits, the hold, a socket; or until the I/O failed. */
	struct histogram wait;
	struct histogram rtt; /* of each call of I/O: on the wire and at the server */
	bool stamps;	      /* rx_timestamps=: `response` has the parts of rtt */
	struct response response;
};

/* Frees all histograms. */
void latency_free(struct latency *latency);

/* Counts a wait; 0, the most frequent, without a search for its bin. */
static inline void latency_waited(struct latency *latency, uint64_t nanoseconds)
{
	if (nanoseconds) {
		histogram_add(&latency->wait, nanoseconds);
	} else {
		latency->wait.count++;
		histogram_count(&latency->wait, 0);
	}
}

/* The percentiles of a line, with the ends of their keys in the stats file; the last key is NULL.
 * The lines of clients (nclients=) are many, and so have fewer. */
struct latency_percentile {
	double percent;
	const char *key;
};
extern const struct latency_percentile latency_percentiles[], latency_client_percentiles[];

/*
 * Members of a line (json_line.h), in microseconds: mean, percentiles and maximum. `prefix` begins
 * their keys: "rtt_" gives "rtt_mean_us".
 */
void latency_write(FILE *out, const char *prefix, const struct histogram *histogram,
		   const struct latency_percentile *percentiles);

/*
 * Called when bytes that the kernel got at `stamp` are received at `now`, both CLOCK_REALTIME: if
 * somebody sets that clock, only replies on their way are wrong. stamp 0: there is none.
 */
void response_received(struct response *response, uint64_t stamp, uint64_t now);

/* Counts a reply of the receive, `rtt` nanoseconds after its call. */
void response_add(struct response *response, uint64_t rtt);

/* Adds a connection's `lag` and `response` to its job's. */
void response_join(struct latency *sum, const struct latency *one);

/* One line of the stats file: a job's. */
void response_write(FILE *out, const struct line_job *job, const struct latency *latency);

/* The same for people, without a newline. */
enum { RESPONSE_LINE = 256 };
void response_tell(char line[RESPONSE_LINE], const struct response *response);
