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
 * Before fio forks its jobs: these end by _exit(), so that what they leave in a buffer of fio's log
 * is lost. From here on each line of the log is written when it is complete.
 */
void job_log_begin(void);

/* One line, without a newline; it begins with "nfsmulti: " and the job, where one was named. */
void job_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Names this thread's job in its further lines; the string stays the caller's. NULL: none.
 * Returns what it was before. */
const char *job_log_name(const char *job);

/*
 * Keeps this thread's lines from now on, but for those of trace=1 and what comes behind the first
 * 32, for job_log_write(); until job_log_name(NULL). Without memory it keeps none.
 */
void job_log_keep(uint32_t job_number);

/* Writes the kept lines as JSON objects. */
void job_log_write(FILE *out);

/* Into fio's own log, the client's where this fio is a server, where that is for people alone; else
 * on this process's stderr. */
void job_log_summary(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- why an I/O on data failed, and what to do: one line, however many are in flight --- */

/* ": " and what to do about a positive errno, or "". */
const char *failure_remedy(enum io_op op, int error);

/*
 * Says why a request failed, unless that was told already: of this path, or of any where the reason
 * is the export's. fio itself has a line for each io_u.
 */
void failure_say(struct job *job, const struct request *request);
