/* SPDX-License-Identifier: GPL-2.0-only */
/* job_stats.h - what a job's connections did, reported when it ends. */
#ifndef NFSMULTI_JOB_STATS_H
#define NFSMULTI_JOB_STATS_H

#include "job.h"

/* Appends a JSON line per connection to stats_file=, and one line for people to fio's log. */
void job_stats_report(const struct job *job);

#endif
