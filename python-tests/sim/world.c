/* SPDX-License-Identifier: GPL-2.0-only */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct world world;

static uint64_t the_time;

static uint64_t read_time(const struct clock *clock)
{
	if (world.creeps) {
		world.creeps = false; /* what happens meanwhile reads the clock as well */
		world_pass(&world, the_time + MSEC);
		world.creeps = true;
	}
	return the_time;
}

void world_begin(struct world *w, uint64_t seed, bool trace)
{
	*w = (struct world){.clock.read = read_time, .seed = seed, .random = seed, .trace = trace};
	the_time = SEC;
	clock_read(&w->clock);
}

void world_end(struct world *w)
{
	for (uint32_t i = 0; i < w->count; i++)
		if (w->events[i].forget)
			w->events[i].forget(w->events[i].context);
	free(w->events);
	w->events = NULL;
	w->count = w->room = 0;
}

/* splitmix64 (Steele, Lea and Flood, 2014). */
static uint64_t next_random(struct world *w)
{
	uint64_t z = w->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint64_t world_random(struct world *w, uint64_t range)
{
	return next_random(w) % range;
}

bool world_chance(struct world *w, uint64_t one_in)
{
	return one_in && !world_random(w, one_in);
}

/* --- the heap --- */

static bool before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->number < b->number;
}

static void swap(struct world *w, uint32_t a, uint32_t b)
{
	struct event kept = w->events[a];

	w->events[a] = w->events[b];
	w->events[b] = kept;
}

void world_plan(struct world *w, uint64_t after, void (*what)(void *), void (*forget)(void *),
		void *context)
{
	uint32_t i = w->count++;

	if (w->count > w->room) {
		w->room = w->room ? 2 * w->room : 64;
		w->events = realloc(w->events, w->room * sizeof(*w->events));
		if (!w->events)
			abort();
	}
	w->events[i] = (struct event){the_time + after, w->planned++, what, forget, context};
	for (; i && before(&w->events[i], &w->events[(i - 1) / 2]); i = (i - 1) / 2)
		swap(w, i, (i - 1) / 2);
}

static struct event take_first(struct world *w)
{
	struct event first = w->events[0];
	uint32_t i = 0, least;

	w->events[0] = w->events[--w->count];
	for (;;) {
		least = i;
		for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < w->count; child++)
			if (before(&w->events[child], &w->events[least]))
				least = child;
		if (least == i)
			return first;
		swap(w, i, least);
		i = least;
	}
}

uint64_t world_next(const struct world *w)
{
	return w->count ? w->events[0].at : UINT64_MAX;
}

void world_pass(struct world *w, uint64_t until)
{
	while (world_next(w) <= until) {
		struct event event = take_first(w);

		the_time = max_of(the_time, event.at);
		clock_read(&w->clock);
		event.what(event.context);
	}
	the_time = max_of(the_time, until);
	clock_read(&w->clock);
}

void world_tell(struct world *w, const char *format, ...)
{
	va_list values;

	if (!w->trace)
		return;
	printf("%12.6f  ", (double)(the_time - SEC) / SEC);
	va_start(values, format);
	vprintf(format, values);
	va_end(values);
	putchar('\n');
}
