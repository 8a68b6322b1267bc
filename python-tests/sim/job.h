/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job.h - a simulated job: random reads, writes and COMMITs over a group of connections, on random
 * terms, and what must hold whatever fails: each I/O completes once, in time; what is read is what
 * was written; what was reported durable is, and what may be lost was reported.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Runs the job of a seed; returns how many I/Os have completed. `world` has what they lived
 * through, and what does not hold.
 */
uint64_t job_run(uint64_t seed, uint32_t ios, bool trace);
