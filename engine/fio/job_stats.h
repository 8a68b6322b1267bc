/* SPDX-License-Identifier: GPL-2.0-only */
/* job_stats.h - what a job's connections, and its metadata operations, did, reported when it ends.
 */
#pragma once

#include "job.h"

/*
 * Appends a JSON line per connection, and one per kind of metadata operation, to stats_file=; and
 * to fio's log a line for people, and one per kind where there are several.
 */
void job_stats_report(struct job *job);

/*
 * Writes the connections' lines to live_file= and the job's number, once a second: a group's
 * ticked(). Where it cannot it says so once, and the job goes on without.
 */
void job_stats_live(void *job);
