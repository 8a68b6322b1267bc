/* SPDX-License-Identifier: GPL-2.0-only */
/* job_terms.h - finds the pool of a job, and the terms of each of its paths, from the options of
 * fio and the engine, the environment and the paths' own arguments; opens each path when it is
 * first asked for; and knows the files that this run of fio has made there. Refusals are logged. */
#pragma once

#include "fio.h"
#include "group/connection.h"
#include "group/path.h"
#include "nfs/entries.h"
#include "pool/pool.h"
#include "terms/terms.h"

/* The engine's options, for fio: it keeps a job's values in a struct terms. Filled on loading. */
extern struct fio_option engine_option_table[];

/* The options of a job. */
static inline const struct terms *options_of(const struct thread_data *td)
{
	return td->eo;
}

/* Refuses options that the engine does not support. 0 or a negative errno. */
int terms_check(struct thread_data *td);

/* *name: the part of f->file_name that is relative to the pool's paths. 0 or a negative errno. */
int terms_name(struct fio_file *f, const struct pool *pool, const char **name);

/* The job's number from 0, the same in all processes. */
uint32_t terms_job_number(const struct thread_data *td);

/* The number, below `count`, of the job's path under spread=job. */
uint32_t terms_path_of_job(const struct thread_data *td, uint32_t count);

/* The stable_how of this job's WRITEs. */
enum io_stable terms_stable(struct thread_data *td);

/* --- the paths of a job's pool --- */

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
