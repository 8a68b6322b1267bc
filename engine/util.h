/* SPDX-License-Identifier: GPL-2.0-only */
/* util.h - what every layer uses. */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/uio.h>
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

/*
 * Steps over `length` bytes of spans[first …), which have so many: what a send has taken. Returns
 * the first span that has bytes left.
 */
static inline uint32_t iovec_skip(struct iovec *spans, uint32_t first, size_t length)
{
	while (length) {
		struct iovec *span = &spans[first];
		size_t part = min_of(length, span->iov_len);

		span->iov_base = (uint8_t *)span->iov_base + part;
		span->iov_len -= part;
		length -= part;
		if (!span->iov_len)
			first++;
	}
	return first;
}

/* The modes of files and directories that are created. */
enum { FILE_MODE = 0644, DIRECTORY_MODE = 0755 };

#define MSEC 1000000ull /* in nanoseconds, as all times here are */
#define SEC  1000000000ull

/* In bytes. */
static inline uint64_t memory_of_machine(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static inline uint64_t nanoseconds_of(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * SEC + (uint64_t)time->tv_nsec;
}

/* Monotonic nanoseconds. */
static inline uint64_t clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return nanoseconds_of(&now);
}

/* ": " and what to do about a positive errno, or "". Valid until the thread's next call. */
static inline const char *errno_remedy(int error)
{
	static _Thread_local char text[80];
	struct rlimit limit = {0};

	switch (error) {
	case ENOSPC: return ": the file system is full: make room there, or use a smaller size=";
	case EDQUOT: return ": the user's quota is used up: raise it, or use a smaller size=";
	case EROFS: return ": the export is read-only: allow writing there, or only read (rw=read)";
	case EADDRNOTAVAIL:
		return ": this machine has no address of the server's family: give it one, or use "
		       "another of the server's addresses";
	case EADDRINUSE:
		return ": ports of closed connections rest for a minute: give more addresses "
		       "(localaddr=A+B), use fewer connections, or wait";
	case ENFILE:
		return ": the machine's limit of open files is reached: raise fs.file-max (sysctl)";
	case EMFILE:
		getrlimit(RLIMIT_NOFILE, &limit);
		snprintf(text, sizeof(text), ": a process may open %llu: raise ulimit -n",
			 (unsigned long long)limit.rlim_cur);
		return text;
	default: return "";
	}
}
