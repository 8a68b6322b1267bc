/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * world.h - simulated time, chance, and what is to happen: everything is decided by a seed, so that
 * the same seed gives the same run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/* An event: `what` is called when its time has come, unless the world ends before that. */
struct event {
	uint64_t at;	 /* nanoseconds */
	uint64_t number; /* events of one instant happen in the order in which they were planned */
	void (*what)(void *context);
	void (*forget)(void *context); /* instead, at the end of the world; NULL: nothing to do */
	void *context;
};

/* What a job has to live through; those up to FAILED_CALL count as failures. */
enum failure {
	FAILED_CRASH,	  /* a server restarted, and lost what was not durable */
	FAILED_RESET,	  /* a connection was reset */
	FAILED_UNREACHED, /* an address was out of reach for a while */
	FAILED_REPLY,	  /* a call was carried out, and never answered */
	FAILED_CALL,	  /* a call was never carried out, nor answered */
	FAILED_DELAY,	  /* the server asked to wait */
	FAILED_SHORT,	  /* a READ or WRITE moved a part */
	FAILURES,
};

struct world {
	struct clock clock; /* the world's time */
	uint64_t seed, random;
	struct event *events; /* a heap */
	uint32_t count, room;
	uint64_t planned;
	uint64_t failures[FAILURES];
	bool trace;
	bool creeps; /* each reading of the clock lets a moment pass: for code that waits */
};

void world_begin(struct world *world, uint64_t seed, bool trace);
void world_end(struct world *world);

/* From 0 to below `range`, which is not 0. */
uint64_t world_random(struct world *world, uint64_t range);

/* True once in so many times; 0: never. */
bool world_chance(struct world *world, uint64_t one_in);

/* Plans an event `after` nanoseconds from now. */
void world_plan(struct world *world, uint64_t after, void (*what)(void *), void (*forget)(void *),
		void *context);

/* The time of the next event, or UINT64_MAX. */
uint64_t world_next(const struct world *world);

/* Lets time pass to that instant: all events until then happen. */
void world_pass(struct world *world, uint64_t until);

/* A line of the trace. */
void world_tell(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The engine's and the simulated code's world: there is one at a time. */
extern struct world world;
