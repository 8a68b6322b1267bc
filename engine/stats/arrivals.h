/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * arrivals.h - an arrival clock: when each I/O is due, independent of earlier I/O; and counts of
 * what happened to the I/O.
 *
 * Times are nanoseconds of the caller's clock: nothing here reads a clock. A seed determines the
 * schedule. Waiting arrivals take no memory.
 */
#pragma once

#include "stats/latency.h"

struct arrivals_terms {
	double rate;   /* arrivals, or bytes, per second: above 0 */
	bool by_bytes; /* the gap after an I/O is proportional to its length */
	bool fixed;    /* equal gaps after a random first one; else a Poisson process */
	uint64_t seed;
};

struct arrivals {
	struct arrivals_terms terms;
	uint64_t random; /* the generator's state */
	uint64_t due;	 /* the next arrival's instant */
	double part;	 /* the fraction of `due`, so that rounding errors do not add up */

	bool running;
	uint64_t begun; /* when the present schedule, or the measurement within it, began */
	uint64_t since; /* earlier arrivals are not counted */
	uint64_t taken, bytes;

	uint64_t freed;		/* when the depth last had room again */
	uint64_t crowded;	/* sent arrivals that had to wait for the depth */
	uint64_t finished;	/* arrivals that have completed */
	uint64_t last;		/* when the latest of them completed */
	struct histogram lag;	/* from an arrival's instant to its sending */
	uint64_t seen, in_time; /* the time of arrivals_look(), and `finished` then */

	/* Sums over completed arrivals of the present schedule: instants, in nanoseconds since
	 * `begun`, and responses. */
	struct arrivals_trend {
		double count, at, at_squared, response, product;
	} trend;

	/* Sums over ended schedules. */
	uint64_t span;	    /* nanoseconds measured: up to the cut, or to the last completion */
	uint64_t scheduled; /* nanoseconds that the schedules lasted */
	uint64_t dropped;   /* arrivals that were due by the end and never sent */
	uint64_t late;	    /* how long the oldest dropped one had waited, in the last schedule */
	bool grew;	    /* a schedule's responses grew: arrivals_sustained() */
};

void arrivals_init(struct arrivals *arrivals, const struct arrivals_terms *terms);

/* Ends the present schedule, and begins a new one. The first arrival is due after a random time,
 * scaled by the gap of an I/O of `bytes`. */
void arrivals_begin(struct arrivals *arrivals, uint64_t now, uint64_t bytes);

/* Called at the end of a ramp: arrivals before `now` do not count. The schedule goes on. */
void arrivals_measure(struct arrivals *arrivals, uint64_t now);

/* Called whenever an arrival could be taken. */
void arrivals_look(struct arrivals *arrivals, uint64_t now);

/* Nanoseconds until the next arrival; 0: it is due. */
uint64_t arrivals_left(const struct arrivals *arrivals, uint64_t now);

/* Takes the next arrival, an I/O of `bytes`, and returns its instant. */
uint64_t arrivals_take(struct arrivals *arrivals, uint64_t bytes);

/* Called when the depth has room again after it was full. */
void arrivals_freed(struct arrivals *arrivals, uint64_t now);

/* Called when the arrival of `due` was sent, or completed, at `now`. */
void arrivals_sent(struct arrivals *arrivals, uint64_t due, uint64_t now);
void arrivals_finished(struct arrivals *arrivals, uint64_t due, uint64_t now);

/*
 * Called when the schedule has ended, and all sent I/O has completed. `cut`: it ended at the last
 * arrivals_look(), and drops arrivals due and not sent; else it ended with its last arrival.
 */
void arrivals_end(struct arrivals *arrivals, bool cut);

/* --- after arrivals_end() --- */

/* Arrivals that were due, sent or not. */
uint64_t arrivals_due(const struct arrivals *arrivals);

/*
 * True if responses, from an arrival's instant to its completion, did not grow. Allowed in each
 * schedule: growth of 1 % of the time that passed, plus 2/sqrt(n) of it for chance, where n is half
 * the number of I/Os; and dropped I/O that waited for at most a tenth of the schedule.
 */
bool arrivals_sustained(const struct arrivals *arrivals);

/* One line of the stats file. */
void arrivals_write(FILE *out, const struct line_job *job, const struct arrivals *arrivals);

/* The same for people, without a newline. */
enum { ARRIVALS_LINE = 512 };
void arrivals_tell(char line[ARRIVALS_LINE], const struct arrivals *arrivals);
