/* SPDX-License-Identifier: GPL-2.0-only */
/* pool_paths.h - the paths of a job's pool, each opened when it is first asked for, and the files
 * that this run of fio has made there. */
#pragma once

#include "job_terms.h"

#include "nfs/entries.h"

struct pool_paths {
	struct pool pool;
	struct opened_path {
		struct path *path; /* NULL: not opened yet */
		int failed;	   /* why it could not be opened, 0 or a negative errno */
	} * open;		   /* for each path of the pool */
	uint32_t file_count;
	void *state; /* path_job's */
	/* metadata=1: entries.count is set before a file is opened. */
	struct entries_terms entries;
};

/* 0 or a negative errno, logged. Files of the job have numbers below file_count. */
int pool_paths_init(struct pool_paths *paths, struct thread_data *td, uint32_t file_count);
void pool_paths_close(struct pool_paths *paths);

/*
 * The first `max` paths in the pool's order; with failover only those that can be opened. Returns
 * how many, or 0 with *error set.
 */
uint32_t pool_paths_all(struct pool_paths *paths, struct thread_data *td, struct path **all,
			uint32_t max, int *error);

/* The job's own path, or with failover, where that cannot be opened, the next that can. NULL with
 * *error set where there is none. */
struct path *pool_paths_own(struct pool_paths *paths, struct thread_data *td, int *error);

/*
 * The files that this run of fio has made, by any of its jobs and processes: the run may change
 * them, also for a job that only reads. `name` is relative to the paths of the pool. Only the first
 * 65,536 files are remembered.
 */
void own_file_add(const struct pool *pool, const char *name);
bool own_file(const struct pool *pool, const char *name);
