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
	uint32_t clients; /* set by the owner: path_job's */
	void *state;	  /* path_job.state, of all paths */
	/* metadata=1: the owner sets entries.count before it opens a file. */
	struct entries_terms entries;
};

/* Finds the pool of a job with files 0 to file_count-1; opens no path. 0, or -errno. */
int pool_paths_init(struct pool_paths *paths, struct thread_data *td, uint32_t file_count);
void pool_paths_close(struct pool_paths *paths);

/* Opens the first `max` paths, in the pool's order; with failover leaves out those that it cannot
 * open. Returns how many are in all[], or 0 with *error a negative errno, logged. */
uint32_t pool_paths_all(struct pool_paths *paths, struct thread_data *td, struct path **all,
			uint32_t max, int *error);

/* Opens and returns the job's own path or, with failover, the next one that it can open. NULL:
 * *error is a negative errno, logged. */
struct path *pool_paths_own(struct pool_paths *paths, struct thread_data *td, int *error);

/*
 * own_file_add() records a file that this run of fio has made, for all its jobs and processes;
 * own_file() is true for such a file, which even a job that only reads may extend. `name` is
 * relative to the paths of the pool. Only the first 65,536 files are remembered.
 */
void own_file_add(const struct pool *pool, const char *name);
bool own_file(const struct pool *pool, const char *name);
