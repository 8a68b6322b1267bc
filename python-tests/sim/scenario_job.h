/* SPDX-License-Identifier: GPL-2.0-only */
/* scenario_job.h - a scenario's I/Os: from its first block to its last, then a sync, as at close.
 */
#pragma once

#include "job.h"
#include "scenario.h"

/* Why there is no such job, or NULL. */
const char *scenario_job_refusal(const struct scenario *terms);

/* Opens the job in a world that has begun; false: it does not open. */
bool scenario_job_begin(const struct scenario *scenario);
void scenario_job_run(struct scenario_result *result);
/* It has been left where it waited: its descriptors are closed, and its memory is lost. */
void scenario_job_abandon(void);

/* job.c's: the engine's part of the terms. */
void scenario_fill_job(struct job *job, const struct scenario *scenario);
