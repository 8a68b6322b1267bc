/* SPDX-License-Identifier: GPL-2.0-only */
/* paths.h - the engine's paths of a simulated job, one for each address. */
#pragma once

#include "group/path.h"
#include "job.h"

/*
 * Opens the job's paths and what the workload wants of them, while nothing fails. False: one does
 * not open. paths_close() follows in either case.
 */
bool paths_open(struct path **paths, const struct job_terms *terms);
void paths_close(struct path **paths, const struct job_terms *terms);

/* Nobody stops a simulated job. */
bool paths_stop(void);
