/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * response.h - rx_timestamps=: the parts of a response. Service is from a call's sending until the
 * kernel has its reply, the network's and the server's; wake-up from then until the job takes it.
 *
 * The kernel stamps a receive (transport.h, rpc_channel), which may bring several replies: service
 * is then an upper bound, and wake-up a lower one.
 */
#pragma once

#include <stdbool.h>

#include "stats/latency.h"

/* Of zeros at first. */
struct response {
	struct histogram lag; /* of a job alone, and under an arrival clock: latency.h's */
	struct histogram service, wake_up; /* of each reply; together they are its rtt */
	uint64_t shared;  /* replies that had others before them in their receive */
	uint64_t clamped; /* replies without a stamp, or with one that cannot be right */

	/* The latest receive. */
	uint64_t age; /* nanoseconds since the kernel had it; 0: no sound stamp says so */
	bool sound;
	bool used; /* it has brought a reply */
};

/*
 * What the kernel had at `stamp` is taken `now`, both CLOCK_REALTIME: a step of that clock spoils
 * what is on its way then and no more. stamp 0: it has none.
 */
void response_received(struct response *response, uint64_t stamp, uint64_t now);

/* It brought a reply, `rtt` nanoseconds after its call. */
void response_add(struct response *response, uint64_t rtt);

/* Adds what a connection has counted to its job's. */
void response_join(struct response *sum, const struct latency *latency);

/* One JSON object, in one line that ends with a newline. */
void response_write(FILE *out, const char *job, uint32_t job_number,
		    const struct response *response);

/* The same for people, without a newline. */
enum { RESPONSE_LINE = 256 };
void response_tell(char line[RESPONSE_LINE], const struct response *response);
