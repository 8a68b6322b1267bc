/* SPDX-License-Identifier: GPL-2.0-only */
/* job_open.h - a job begins, and ends. */
#pragma once

#include "job.h"

/* 0 or a negative errno, logged. td->io_ops_data is the job on success alone. */
int job_open(struct thread_data *td);

/* Memory that fio's I/O buffers lie in, known once they are allocated. */
void job_buffers(struct job *job, void *memory, size_t size);

/* Makes durable what is still open, writes the statistics and closes everything. NULL is allowed.
 */
void job_close(struct job *job);
