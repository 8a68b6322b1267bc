/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job_log.h - lines for people. They go to stderr, and to the client where this fio is a server:
 * never into fio's own output, whose JSON they would spoil.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "job.h"

/*
 * From now on each line of fio's log is written when it is complete. Called before fio forks its
 * jobs: they end by _exit(), which drops what is left in a buffer.
 */
void job_log_begin(void);

/* One line, without a newline; it begins with "nfsmulti: " and the job, where one was named. */
void job_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Names the job in this thread's further lines; NULL: none. The string stays the caller's. Returns
 * the name before. */
const char *job_log_name(const char *job);

/*
 * Keeps this thread's first 32 lines from now on, without those of trace=1, for job_log_write();
 * until job_log_name(NULL). Without memory it keeps none.
 */
void job_log_keep(uint32_t job_number);

/* Writes the kept lines as JSON objects. */
void job_log_write(FILE *out);

/* Writes a line into fio's own log (the client's, where this fio is a server) if the log is for
 * people only; else to stderr. */
void job_log_summary(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What a job must not ask for, and why not. */
struct refusal {
	bool given;
	const char *why;
};

/* Logs WHAT and WHY of the first of `count` refusals that is given. 0 or -EINVAL. */
int job_refuse(const char *what, const struct refusal *refusals, size_t count);

/* --- why an I/O on data failed, and what to do: one line, however many are in flight --- */

/* ": " and what to do about a positive errno, or "". */
const char *failure_remedy(enum io_op op, int error);

/*
 * Logs why a request failed, unless that was logged before: for this path, or for any path where
 * the reason is the export's. fio itself logs a line for each io_u.
 */
void failure_say(struct job *job, const struct request *request);
