/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * own_files.h - the files that this run of fio has made, by any of its jobs and processes: the run
 * may change them, also for a job that only reads.
 */
#pragma once

#include <stdbool.h>

#include "pool/pool.h"

/* `name` is relative to the paths of the pool. Only the first 65,536 files are remembered. */
void own_file_add(const struct pool *pool, const char *name);
bool own_file(const struct pool *pool, const char *name);
