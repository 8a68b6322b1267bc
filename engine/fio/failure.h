/* SPDX-License-Identifier: GPL-2.0-only */
/* failure.h - why an I/O on data failed, and what to do: one line, however many are in flight. */
#pragma once

#include "job.h"

/* ": " and what to do about a positive errno, or "". */
const char *failure_remedy(enum io_op op, int error);

/*
 * Says why a request failed, unless that was told already: of this path, or of any where the reason
 * is the export's. fio itself has a line for each io_u.
 */
void failure_say(struct job *job, const struct request *request);
