/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job.h - a simulated job: random reads, writes and COMMITs over a group of connections, on random
 * terms, and what must hold whatever fails: each I/O completes once, in time; what is read is what
 * was written; what was reported durable is, and what may be lost was reported.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct job_result {
	uint64_t ios;
	uint64_t failures[8]; /* by enum failure */
	char why[200];	      /* what does not hold; "": all does */
};

/* Runs the job of a seed. False: something does not hold. */
bool job_run(uint64_t seed, uint32_t ios, bool trace, struct job_result *result);
