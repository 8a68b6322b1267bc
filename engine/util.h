/* SPDX-License-Identifier: GPL-2.0-only */
/* util.h - the few things that every layer uses. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#ifndef container_of /* fio's flist.h has the same */
#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
#endif
#define min_of(a, b)                    \
	({                              \
		__typeof__(a) a_ = (a); \
		__typeof__(b) b_ = (b); \
		a_ < b_ ? a_ : b_;      \
	})

#define max_of(a, b)                               \
	({                                         \
		__typeof__(a) max_a_ = (a);        \
		__typeof__(b) max_b_ = (b);        \
		max_a_ > max_b_ ? max_a_ : max_b_; \
	})

/* Of what is created, on whichever way. */
enum { FILE_MODE = 0644, DIRECTORY_MODE = 0755 };

#define MSEC 1000000ull /* in nanoseconds, as all times here are */
#define SEC  1000000000ull

/* Bytes. */
static inline uint64_t memory_of_machine(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Monotonic nanoseconds. */
static inline uint64_t clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SEC + (uint64_t)now.tv_nsec;
}
