/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * own_files.h - the files that this run of fio has made, by any of its jobs and processes: what it
 * may lay out further, for a job that only reads as well.
 */
#pragma once

#include <stdbool.h>

#include "pool/pool.h"

/* `name` is relative to the paths of the pool. Beyond 65,536 files none is remembered. */
void own_file_add(const struct pool *pool, const char *name);
bool own_file(const struct pool *pool, const char *name);
