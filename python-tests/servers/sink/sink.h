/* SPDX-License-Identifier: GPL-2.0-only */
/* sink.h - what nfs-sink's calls (nfs-sink.c) and its files (files.c) share. */
#pragma once

#include "core/call.h"

enum { IO_MAX = 1 << 20 }; /* bytes of data of a READ or WRITE */

/* What the sink was asked to do: a serving thread writes its own, the sum may be taken at any time.
 */
enum { NFS_PROCEDURES = 22, NFS4_OPERATIONS = 76, MOUNT_PROCEDURES = 6 };

/* All members are uint64_t: print_counts() sums them as an array. */
struct counts {
	uint64_t nfs[NFS_PROCEDURES];	/* calls, by RFC 1813's numbers */
	uint64_t nfs4[NFS4_OPERATIONS]; /* operations that went well, by RFC 8881's numbers */
	uint64_t mount[MOUNT_PROCEDURES];
	uint64_t read_bytes, write_bytes; /* of file data */
	uint64_t stalls;		  /* in which a call came */
	uint64_t busy;			  /* ns that these have served, and not waited */
} __attribute__((aligned(64)));

/* A thread that serves the connections given to it. */
struct front {
	int cpu; /* the only processor to run on, or -1 */
	int epoll;
	struct arguments asked;
	struct counts counts;
};
