/* SPDX-License-Identifier: GPL-2.0-only */
/* latency.h - where the time of a connection's I/O went, and how latencies are told. */
#pragma once

#include <stdio.h>

#include "stats/histogram.h"

struct response;

/* The spans of an I/O, one after the other. */
struct latency {
	struct histogram lag; /* from the instant at which it was due; only under arrival_rate= */
	/* In the job for its connection: slots, credits, the hold, a socket; or until it failed. */
	struct histogram wait;
	struct histogram rtt;	   /* of each call: on the wire and at the server */
	struct response *response; /* rtt's parts; NULL: without rx_timestamps= */
};

/* Most I/O waits for nothing, and that is counted for each. */
static inline void latency_waited(struct latency *latency, uint64_t nanoseconds)
{
	if (nanoseconds) {
		histogram_add(&latency->wait, nanoseconds);
	} else {
		latency->wait.count++;
		latency->wait.bins[0]++;
	}
}

/* The percentiles that are told: by `percent`, and by what their keys in the stats file end in. */
struct latency_percentile {
	double percent;
	const char *key;
};
enum { LATENCY_PERCENTILES = 5 };
extern const struct latency_percentile latency_percentiles[LATENCY_PERCENTILES];

/*
 * Members of a JSON object, in microseconds and without a comma behind the last: mean, percentiles
 * and maximum. `prefix` begins their keys: "rtt_" gives "rtt_mean_us".
 */
void latency_write(FILE *out, const char *prefix, const struct histogram *histogram);
