/* SPDX-License-Identifier: GPL-2.0-only */
/* arrivals_line.h - how a job's arrival clock is told, after arrivals_end(). */
#pragma once

#include <stdio.h>

#include "stats/arrivals.h"

/* Whose it is. */
struct arrivals_label {
	const char *job;     /* fio's job name */
	uint32_t job_number; /* fio's, from 0 */
};

/* One JSON object, in one line that ends with a newline. */
void arrivals_write(FILE *out, const struct arrivals_label *label, const struct arrivals *arrivals);

/* The same for people, without a newline. */
enum { ARRIVALS_LINE = 512 };
void arrivals_tell(char line[ARRIVALS_LINE], const struct arrivals *arrivals);
