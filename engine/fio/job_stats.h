/* SPDX-License-Identifier: GPL-2.0-only */
/* job_stats.h - reports what a job's connections and metadata operations did. */
#pragma once

#include "job.h"

/*
 * Appends a JSON line per connection, and one per kind of metadata operation, to stats_file=; and
 * to fio's log a line for people, and one per kind where there are several.
 */
void job_stats_report(struct job *job);

/*
 * A group's ticked(): once a second writes the connections' lines to the file that live_file= and
 * the job's number name. A failure is logged once, and the job goes on without.
 */
void job_stats_live(void *job);
