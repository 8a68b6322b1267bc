/* SPDX-License-Identifier: GPL-2.0-only */
/* job_terms.h - finds the pool of a job, and the terms of each of its paths, from the options of
 * fio and the engine, the environment and the paths' own arguments. Refusals are logged. */
#pragma once

#include "fio.h"
#include "group/connection.h"
#include "group/path.h"
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

/* Fills in the pool that pool= or else the job's files give, and resolves it. 0 or -errno. */
int terms_pool(struct thread_data *td, struct pool *pool);

/* Fills in the terms of a path, for path_open() to take over. 0 or a negative errno. */
int terms_path(struct thread_data *td, const struct pool_path *path, struct path_config *config);

/* *name: the part of f->file_name that is relative to the pool's paths. 0 or a negative errno. */
int terms_name(struct fio_file *f, const struct pool *pool, const char **name);

/* The job's number from 0, the same in all processes. */
uint32_t terms_job_number(const struct thread_data *td);

/* The number, below `count`, of the job's path under spread=job. */
uint32_t terms_path_of_job(const struct thread_data *td, uint32_t count);

/* The stable_how of this job's WRITEs. */
enum io_stable terms_stable(struct thread_data *td);
