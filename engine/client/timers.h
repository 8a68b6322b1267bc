/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * timers.h - when a call times out (nfs(5): timeo, retrans, soft), and how long a server may be
 * silent. The client acts on these. Times are nanoseconds.
 */
#pragma once

#include "client/call.h"
#include "util.h"

/* The user's options. */
struct rpc_timing {
	uint64_t timeo;
	unsigned int retrans;
	bool soft;
};

/* The first and the longest delay of a call that is put off. */
static const uint64_t DELAY_FIRST = 100 * MSEC, DELAY_LAST = 5 * SEC;

/* The longest delay of session set-up, for which all calls wait. */
static const uint64_t SETUP_DELAY_LAST = SEC;

/* The delay of a call that is logged: it begins after 3 s. */
enum { DELAYS_QUIET = 6 };

/* How long a connection may be down before a message is logged, or its I/O moved. */
static const uint64_t DOWN_MAX = SEC;

/* TCP's pauses between retransmissions grow to minutes, and a new connection begins with short
 * ones: after this time without an acknowledgement a new connection is made. */
static const uint64_t UNHEARD_MAX = 15 * SEC;

/* A live host is heard at least this often: transport.h's unheard(). */
static const uint64_t HEARD_MAX = 10 * SEC;

/* nfs(5), retrans: a soft call fails after its retransmissions. */
static inline uint64_t timer_major(const struct rpc_timing *timing)
{
	return timing->timeo * (timing->retrans + 1);
}

static inline bool timer_expired(const struct call *call, const struct rpc_timing *timing,
				 uint64_t now)
{
	return timing->soft && now - call->since > timer_major(timing);
}

/* nfs(5), timeo: the n-th transmission has n times timeo, at most 600 s. */
static inline bool timer_overdue(const struct call *call, const struct rpc_timing *timing,
				 uint64_t now)
{
	return now - call->last_sent > min_of(timing->timeo * call->tries, 600 * SEC);
}

/* RFC 1813, 2.6: after NFS3ERR_JUKEBOX "wait some amount of time and then try the request with a
 * new RPC transaction ID". */
static inline uint64_t timer_delay(uint32_t delays)
{
	uint32_t doublings = min_of(delays, 6u);

	return min_of(DELAY_FIRST << doublings, DELAY_LAST);
}

/* A server that owes replies is probed after this silence, and given up after as much again. */
static inline uint64_t timer_silence(const struct rpc_timing *timing)
{
	return min_of(timing->timeo, 5 * SEC) / 2;
}
