/* SPDX-License-Identifier: GPL-2.0-only */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A job runs for less than two hours, and its ending for four: what waits longer never ends. */
static const uint64_t TIME_MAX = 8 * 3600 * SEC;

struct world world;

static jmp_buf *too_late; /* NULL: nothing was called by world_run() */
static uint64_t time_max = TIME_MAX;

bool world_run(void (*what)(void *context), void *context, uint64_t until)
{
	jmp_buf here;

	too_late = &here;
	time_max = until;
	if (setjmp(here)) {
		too_late = NULL;
		return false;
	}
	what(context);
	too_late = NULL;
	return true;
}

/* The engine does not look at anything but the clock. */
static void end_waiting(void)
{
	if (too_late)
		longjmp(*too_late, 1);
	fprintf(stderr, "nfsmulti-sim: the engine waits for ever: %s\n", world.violation);
	abort();
}

static uint64_t read_time(const struct clock *clock)
{
	if (world.creeps) {
		world.creeps = false; /* what happens meanwhile reads the clock as well */
		world_pass(world.clock.now + world.moment);
		world.creeps = true;
	}
	if (world.clock.now > time_max)
		end_waiting();
	return world.clock.now;
}

void world_begin(uint64_t seed, bool trace)
{
	world = (struct world){.clock.read = read_time,
			       .random = seed,
			       .apart = ~seed,
			       .trace = trace,
			       .moment = MSEC};
	world.clock.now = SEC;
	TAILQ_INIT(&world.events);
}

static struct event take_first(void)
{
	struct event *first = TAILQ_FIRST(&world.events), event = *first;

	TAILQ_REMOVE(&world.events, first, link);
	free(first);
	return event;
}

void world_end(void)
{
	while (!TAILQ_EMPTY(&world.events)) {
		struct event event = take_first();

		if (event.forget)
			event.forget(event.context);
	}
}

/* splitmix64 (Steele, Lea and Flood, 2014). */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint64_t world_random(uint64_t range)
{
	return next_random(&world.random) % range;
}

uint64_t world_apart(uint64_t range)
{
	return next_random(&world.apart) % range;
}

bool world_chance(uint64_t one_in)
{
	return one_in && !world_random(one_in);
}

bool world_fails(enum failure failure, uint64_t one_in)
{
	bool fails = world_chance(one_in);

	world.failures[failure] += fails;
	return fails;
}

/* --- events --- */

void world_plan(uint64_t after, void (*what)(void *), void (*forget)(void *), void *context)
{
	struct event *event = malloc(sizeof(*event));
	struct event *before = TAILQ_LAST(&world.events, events);

	if (!event)
		abort();
	*event = (struct event){
		.at = world.clock.now + after, .what = what, .forget = forget, .context = context};
	while (before && before->at > event->at)
		before = TAILQ_PREV(before, events, link);
	if (before)
		TAILQ_INSERT_AFTER(&world.events, before, event, link);
	else
		TAILQ_INSERT_HEAD(&world.events, event, link);
}

uint64_t world_next(void)
{
	return TAILQ_EMPTY(&world.events) ? UINT64_MAX : TAILQ_FIRST(&world.events)->at;
}

void world_pass(uint64_t until)
{
	while (world_next() <= until) {
		struct event event = take_first();

		world.clock.now = max_of(world.clock.now, event.at);
		event.what(event.context);
	}
	world.clock.now = max_of(world.clock.now, until);
}

void world_tell(const char *format, ...)
{
	va_list values;

	if (!world.trace)
		return;
	printf("%12.6f  ", (double)(world.clock.now - SEC) / SEC);
	va_start(values, format);
	vprintf(format, values);
	va_end(values);
	putchar('\n');
}

void world_violated(const char *format, ...)
{
	va_list values;

	if (*world.violation)
		return;
	va_start(values, format);
	vsnprintf(world.violation, sizeof(world.violation), format, values);
	va_end(values);
	world_tell("VIOLATED: %s", world.violation);
}
