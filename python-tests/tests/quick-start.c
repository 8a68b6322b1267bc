/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * quick-start.c - lets fio start in a few milliseconds, for tests: to be loaded before the C
 * library (LD_PRELOAD), whose functions it stands before
 *
 * Also where it takes the time from the kernel, fio measures the processor's clock at each start:
 * 51 times it asks for the time until 1.28 ms have passed. With clocksource=clock_gettime, which
 * makes no use of it, every other answer is as much later. And it sleeps for 100 ms before it looks
 * whether its jobs are there: then it looks more often. What a test preloads behind this has both
 * calls, too.
 *
 * fio never frees the words of its command line and jobfiles. For a sanitizer that looks for leaks
 * nothing is one that was allocated before fio opens its only pipe, that to its helper's thread.
 * With NFSMULTI_TEST_LEAK fio loses a byte after that.
 *
 * With NFSMULTI_TEST_CLOCK=N, for what waits for minutes, the monotonic clock goes N times as fast;
 * with 1/N as slowly, for limits of which timers shall take most.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define QUESTIONS 100 /* of 102: what comes after them has the C library's answers */
#define STEP_NS	  1280000
#define LOOK_US	  100000
#define SOONER_US 2000

static int (*real)(clockid_t clock, struct timespec *now);
static int left, times = 1, slower = 1;
static long long begun;
static bool quick, reads_words;

/* The sanitizer's, where there is one. */
__attribute__((weak)) void __lsan_disable(void);
__attribute__((weak)) void __lsan_enable(void);

__attribute__((constructor)) static void begin(int argc, char **argv)
{
	if (__lsan_disable && __lsan_enable) {
		__lsan_disable();
		reads_words = true;
	}
	real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	if (getenv("NFSMULTI_TEST_CLOCK"))
		sscanf(getenv("NFSMULTI_TEST_CLOCK"), "%d/%d", &times, &slower);
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--clocksource=clock_gettime"))
			left = QUESTIONS;
	quick = left;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	/* A sanitizer's runtime asks before we have begun. */
	int error = real ? real(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);

	if (clock == CLOCK_MONOTONIC) {
		long long ns = (now->tv_sec * 1000000000LL + now->tv_nsec) * times;

		/* Both begin together: the kernel waits until an instant by its own clock. */
		begun = begun ? begun : ns;
		ns = begun + (ns - begun) / slower;
		now->tv_sec = ns / 1000000000;
		now->tv_nsec = ns % 1000000000;
	}
	if (left && clock == CLOCK_MONOTONIC && left-- % 2) {
		now->tv_nsec += STEP_NS;
		now->tv_sec += now->tv_nsec / 1000000000;
		now->tv_nsec %= 1000000000;
	}
	return error;
}

int usleep(useconds_t us)
{
	int (*next)(useconds_t) = (int (*)(useconds_t))dlsym(RTLD_NEXT, "usleep");

	if (getenv("NFSMULTI_TEST_LEAK"))
		*(void *volatile *)&(void *){NULL} = malloc(1);
	return next(quick && us == LOOK_US ? SOONER_US : us);
}

int pipe2(int ends[2], int flags)
{
	int (*next)(int *, int) = (int (*)(int *, int))dlsym(RTLD_NEXT, "pipe2");

	if (reads_words) {
		reads_words = false;
		__lsan_enable();
	}
	return next(ends, flags);
}
