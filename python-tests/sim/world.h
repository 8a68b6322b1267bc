/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * world.h - simulated time, chance, and what is to happen: everything is decided by a seed, so that
 * the same seed gives the same run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "wait.h"

/* An event: `what` is called when its time has come, unless the world ends before that. */
struct event {
	TAILQ_ENTRY(event) link;
	uint64_t at; /* nanoseconds */
	void (*what)(void *context);
	void (*forget)(void *context); /* instead, at the end of the world; NULL: nothing to do */
	void *context;
};

/* What a job has to live through; those up to FAILED_KDC count as failures. */
enum failure {
	FAILED_CRASH,	  /* a server restarted, and lost what was not durable */
	FAILED_RESET,	  /* a connection was reset */
	FAILED_UNREACHED, /* an address was out of reach for a while */
	FAILED_REPLY,	  /* a call was carried out, and never answered */
	FAILED_CALL,	  /* a call was never carried out, nor answered */
	FAILED_CONTEXT,	  /* a server forgot a context of RPCSEC_GSS */
	FAILED_CHANGED,	  /* a reply was changed on its way */
	FAILED_KDC,	  /* there were no tickets for a while */
	FAILED_DELAY,	  /* the server asked to wait */
	FAILED_SHORT,	  /* a READ or WRITE moved a part */
	FAILURES,
};

struct world {
	struct clock clock; /* the world's time */
	uint64_t random;    /* what the next chance is made of */
	uint64_t apart;	    /* the same, of world_apart() */
	/* In the order in which they happen: those of one instant as they were planned. */
	TAILQ_HEAD(events, event) events;
	uint64_t failures[FAILURES];
	char violation[200]; /* the first thing that does not hold; "": all does */
	bool trace;
	bool creeps;	 /* each reading of the clock lets a moment pass: for code that waits */
	uint64_t moment; /* nanoseconds; 1 ms at first */
};

/* The one that there is, from a job's begin to the next one's. */
extern struct world world;

void world_begin(uint64_t seed, bool trace);
void world_end(void);

/* Calls a function; false: at `until` it had not come back, and was left where it waited. */
bool world_run(void (*what)(void *context), void *context, uint64_t until);

/* From 0 to below `range`, which is not 0. */
uint64_t world_random(uint64_t range);

/* The same, of a chance apart: what draws from it changes nothing else of a seed's run. */
uint64_t world_apart(uint64_t range);

/* True once in so many times; 0: never. */
bool world_chance(uint64_t one_in);

/* The same of a failure, which counts. */
bool world_fails(enum failure failure, uint64_t one_in);

/* Plans an event `after` nanoseconds from now. */
void world_plan(uint64_t after, void (*what)(void *), void (*forget)(void *), void *context);

/* The time of the next event, or UINT64_MAX. */
uint64_t world_next(void);

/* Lets time pass to that instant: all events until then happen. */
void world_pass(uint64_t until);

/* A line of the trace. */
void world_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Something does not hold: the first such thing is kept. */
void world_violated(const char *format, ...) __attribute__((format(printf, 1, 2)));
