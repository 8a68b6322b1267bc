/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * timers.h - when a call times out (nfs(5): timeo, retrans, soft), and how long a server may be
 * silent. Times are nanoseconds.
 */
#pragma once

#include "client/call.h"
#include "terms/choices.h"
#include "util.h"

/* The user's options. */
struct rpc_timing {
	uint64_t timeo;
	unsigned int retrans;
	bool soft;
	enum reconnect reconnect;
};

/* RETRY_FIRST: backoff's pause before the second attempt to connect again; there is none before the
 * first. RETRY_LAST: the longest pause, also of jitter. */
static const uint64_t RETRY_FIRST = 100 * MSEC, RETRY_LAST = SEC;

/* The first and the longest delay before a refused call is sent again. */
static const uint64_t DELAY_FIRST = 100 * MSEC, DELAY_LAST = 5 * SEC;

/* The longest delay of session set-up: shorter, since all calls wait for set-up. */
static const uint64_t SETUP_DELAY_LAST = SEC;

/* A call's sixth delay is logged: it begins 3 s after the first. */
enum { DELAYS_QUIET = 6 };

/* A connection that is down for longer is logged, or other connections take over its I/O. */
static const uint64_t DOWN_MAX = SEC;

/* A connection without an acknowledgement for this time is replaced: its TCP retransmission
 * time-out may have grown to minutes, while a new connection begins with a short one. */
static const uint64_t UNHEARD_MAX = 15 * SEC;

/* A live host sends something at least this often: see unheard() in transport.h. */
static const uint64_t HEARD_MAX = 10 * SEC;

/* reconnect=linux: how long TCP repeats the SYN for a lost connection: 180 s, or a shorter `lease`
 * (0: there is none), but at least 18 s (Linux's xs_tcp_set_connect_timeout()). A job's first
 * connect fails sooner. */
static inline uint64_t timer_linux_connect(uint64_t lease)
{
	return min_of(max_of(lease ?: UINT64_MAX, 18 * SEC), 180 * SEC);
}

/* The major time-out (nfs(5), retrans), after which a soft call fails. */
static inline uint64_t timer_major(const struct rpc_timing *timing)
{
	return timing->timeo * (timing->retrans + 1);
}

static inline bool timer_expired(const struct call *call, const struct rpc_timing *timing,
				 uint64_t now)
{
	return timing->soft && now - call->since > timer_major(timing);
}

/* nfs(5), timeo: the n-th transmission times out after n * timeo, at most 600 s. */
static inline bool timer_overdue(const struct call *call, const struct rpc_timing *timing,
				 uint64_t now)
{
	return now - call->last_sent > min_of(timing->timeo * call->tries, 600 * SEC);
}

/* The delay of a call that was delayed `delays` times before. RFC 1813, 2.6: after NFS3ERR_JUKEBOX
 * "wait and then try the request with a new RPC transaction ID". */
static inline uint64_t timer_delay(uint32_t delays)
{
	uint32_t doublings = min_of(delays, 6u);

	return min_of(DELAY_FIRST << doublings, DELAY_LAST);
}

/* The pause before the next attempt, after a pause of `pause`; 0: there was none. */
static inline uint64_t timer_backoff(uint64_t pause)
{
	return pause ? min_of(2 * pause, RETRY_LAST) : RETRY_FIRST;
}

/*
 * A random pause, below RETRY_LAST. `state` is the generator's. MurmurHash3's finalizer mixes it,
 * so that consecutive states, such as the numbers of clients, give unrelated pauses.
 */
static inline uint64_t timer_jitter(uint32_t *state)
{
	uint32_t mixed = *state += 0x9e3779b9;

	mixed = (mixed ^ mixed >> 16) * 0x85ebca6b;
	mixed = (mixed ^ mixed >> 13) * 0xc2b2ae35;
	return RETRY_LAST * (mixed ^ mixed >> 16) >> 32;
}

/* When the next connect begins with reconnect=linux: at once, but 3 s after a failed one `began`.
 */
static inline uint64_t timer_linux(uint64_t began, uint64_t now)
{
	return began ? max_of(now, began + 3 * SEC) : now;
}

/* A server that owes replies is probed after this time, and counts as silent after twice that. */
static inline uint64_t timer_silence(const struct rpc_timing *timing)
{
	return min_of(timing->timeo, 5 * SEC) / 2;
}
