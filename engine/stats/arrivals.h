/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * arrivals.h - an arrival clock: when I/O is due, whatever becomes of the I/O before it; and counts
 * of what became of it.
 *
 * Times are nanoseconds of the caller's clock, which is handed in: nothing here reads one. One seed
 * gives one schedule. Nothing is stored for an arrival, however many wait.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "stats/latency.h"

struct arrivals_terms {
	double rate;   /* arrivals, or bytes, per second: above 0 */
	bool by_bytes; /* the gap after an I/O is in proportion to its length */
	bool fixed; /* equal gaps, after a first one that the seed draws; else a Poisson process */
	uint64_t seed;
};

struct arrivals {
	struct arrivals_terms terms;
	uint64_t random; /* the generator's state */
	uint64_t due;	 /* the next arrival's instant */
	double part;	 /* of `due`, below a nanosecond: rounding errors do not add up */

	bool running;
	uint64_t begun; /* when the present schedule, or the measurement within it, did */
	uint64_t since; /* what was due earlier is not counted */
	uint64_t taken, bytes;

	uint64_t freed;		/* when the depth, used up until then, had room again */
	uint64_t crowded;	/* arrivals sent that had found the depth used up */
	uint64_t finished;	/* arrivals that have completed */
	uint64_t last;		/* when the latest of them did */
	struct histogram lag;	/* from an arrival's instant to its sending */
	uint64_t seen, in_time; /* the clock when it was last looked at, and `finished` then */

	/* Sums over what has completed of the present schedule: instants, in nanoseconds since
	 * `begun`, and responses. */
	struct arrivals_trend {
		double count, at, at_squared, response, product;
	} trend;

	/* Of the schedules that have ended. */
	uint64_t span;	    /* nanoseconds until the last of what is counted as in time */
	uint64_t scheduled; /* nanoseconds that had instants */
	uint64_t dropped;   /* arrivals that were due by the end and never sent */
	uint64_t late;	    /* how long the oldest of these had waited; of the latest schedule */
	bool grew;	    /* the responses of one of them did: arrivals_sustained() */
};

void arrivals_init(struct arrivals *arrivals, const struct arrivals_terms *terms);

/*
 * A schedule begins; one that was under way has ended. The first arrival is one gap away, of an I/O
 * of `bytes`.
 */
void arrivals_begin(struct arrivals *arrivals, uint64_t now, uint64_t bytes);

/* What was due before `now` is not counted: a ramp has ended. The schedule goes on. */
void arrivals_measure(struct arrivals *arrivals, uint64_t now);

/* The schedule is followed until `now`: to be called whenever an arrival could be taken. */
void arrivals_look(struct arrivals *arrivals, uint64_t now);

/* Nanoseconds until the next arrival; 0: it is due. */
uint64_t arrivals_left(const struct arrivals *arrivals, uint64_t now);

/* Takes the next arrival, an I/O of `bytes`, and returns its instant. */
uint64_t arrivals_take(struct arrivals *arrivals, uint64_t bytes);

/* The depth was used up, and has room again. */
void arrivals_freed(struct arrivals *arrivals, uint64_t now);

/* The arrival of `due` was sent, or has completed, at `now`. */
void arrivals_sent(struct arrivals *arrivals, uint64_t due, uint64_t now);
void arrivals_finished(struct arrivals *arrivals, uint64_t due, uint64_t now);

/*
 * The last schedule has ended, and all that was sent has completed. `cut`: it ended when it was
 * last looked at, and what was due and not sent is dropped; else with its last arrival, and nothing
 * is.
 */
void arrivals_end(struct arrivals *arrivals, bool cut);

/* --- after arrivals_end() --- */

/* Arrivals that were due, sent or not. */
uint64_t arrivals_due(const struct arrivals *arrivals);

/*
 * Responses, from an instant to completion, did not grow: in no schedule by more than 1 % of the
 * time that passed and chance, which is 2/sqrt(n), n being half of the I/Os; nor had what was
 * dropped waited for more than a tenth of the schedule.
 */
bool arrivals_sustained(const struct arrivals *arrivals);

/* --- how it is told, after arrivals_end() --- */

/* Whose it is. */
struct arrivals_label {
	const char *job;     /* fio's job name */
	uint32_t job_number; /* fio's, from 0 */
};

/* One JSON object, in one line that ends with a newline. */
void arrivals_write(FILE *out, const struct arrivals_label *label, const struct arrivals *arrivals);

/* The same for people, without a newline. */
enum { ARRIVALS_LINE = 512 };
void arrivals_tell(char line[ARRIVALS_LINE], const struct arrivals *arrivals);
