/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * counts.h - what the sink was asked to do. One structure to a thread, written by that thread
 * alone; the sum may be taken at any time.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

enum { NFS_PROCEDURES = 22, NFS4_OPERATIONS = 76, MOUNT_PROCEDURES = 6 };

struct counts {
	uint64_t nfs[NFS_PROCEDURES];	/* calls, by RFC 1813's numbers */
	uint64_t nfs4[NFS4_OPERATIONS]; /* operations that went well, by RFC 8881's numbers */
	uint64_t mount[MOUNT_PROCEDURES];
	uint64_t read_bytes, write_bytes; /* of file data */
	uint64_t connections;		  /* accepted so far */
	uint64_t stalls;		  /* in which a call came */
	uint64_t busy;			  /* ns that these have served, and not waited */
} __attribute__((aligned(64)));

void counts_add(struct counts *sum, const struct counts *one);

/* One line of JSON. */
void counts_print(const struct counts *sum, FILE *out);
