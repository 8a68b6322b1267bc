/* SPDX-License-Identifier: GPL-2.0-only */
/* operations.h - what a job's metadata operations of one kind have done, and how that is told. */
#pragma once

#include <stdio.h>

#include "stats/histogram.h"

struct operations {
	uint64_t errors;	  /* those that failed, which are not in `latency` */
	struct histogram latency; /* of those that were done, from submission to the end */
};

/* Whose they are. */
struct operations_label {
	const char *job;     /* fio's job name */
	uint32_t job_number; /* fio's, from 0 */
	const char *name;    /* "getattr" */
	uint64_t span;	     /* nanoseconds in which they were done */
};

/* One JSON object, in one line that ends with a newline. */
void operations_write(FILE *out, const struct operations_label *label,
		      const struct operations *operations);

/* The same for people, without a newline. */
enum { OPERATIONS_LINE = 256 };
void operations_tell(char line[OPERATIONS_LINE], const struct operations_label *label,
		     const struct operations *operations);
