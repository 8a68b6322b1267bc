/* SPDX-License-Identifier: GPL-2.0-only */
/* job_log.h - messages for people. They go to stderr, or to the client where this fio is a server.
 * Only a summary may go into fio's own output, and never into JSON. */
#pragma once

#include "job.h"

/*
 * From now on each line of fio's log is written when it is complete. Called before fio forks its
 * jobs: they end by _exit(), which drops what is left in a buffer.
 */
void job_log_begin(void);

/* Writes one line; `format` has no newline. The line begins with "nfsmulti: " and the job. */
void job_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sets the job's name for this thread's further lines; NULL: none. The string stays the caller's.
 * Returns the former name. */
const char *job_log_name(const char *job);

/* From now on keeps copies of this thread's first 32 lines, except those of trace=1, for
 * job_log_write(). job_log_name(NULL) drops them. Keeps none if memory is missing. */
void job_log_keep(uint32_t job_number);

/* Writes the kept lines as JSON objects. */
void job_log_write(FILE *out);

/* Writes a line into fio's own output (the client's, where this fio is a server), if that is in the
 * normal format only; else to stderr. */
void job_log_summary(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An option that a job must not give, and why. */
struct refusal {
	bool given;
	const char *why;
};

/* Logs `what` and the first given refusal's `why`. Returns -EINVAL, or 0 if none is given. */
int job_refuse(const char *what, const struct refusal *refusals, size_t count);

/* --- why an I/O on data failed, and what to do: one line for all I/Os with one reason --- */

/* ": " and what to do about a positive errno, or "". */
const char *failure_remedy(enum io_op op, int error);

/* Logs why a request failed: 16 reasons of a job at most, and each error once for a path, or, for
 * an error of the export, once for all paths. fio itself logs a line for each io_u. */
void failure_say(struct job *job, const struct request *request);
