/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job_terms.h - which pool a job uses, and on what terms each of its paths: fio's and the engine's
 * options, the environment and the paths' own arguments brought together. Refusals are logged.
 */
#pragma once

#include "fio.h"
#include "group/connection.h"
#include "group/path.h"
#include "pool/pool.h"
#include "terms/terms.h"

/* The options for fio, which keeps each job's in a struct terms. Filled as the engine loads. */
extern struct fio_option engine_option_table[];

/* The options of a job. */
static inline const struct terms *options_of(const struct thread_data *td)
{
	return td->eo;
}

/* Refuses what the engine cannot do for this job. 0 or a negative errno. */
int terms_check(struct thread_data *td);

/* The pool that the job's options or else its files choose, resolved. 0 or a negative errno. */
int terms_pool(struct thread_data *td, struct pool *pool);

/* The terms of one of the pool's paths; path_open() frees them. */
int terms_path(struct thread_data *td, const struct pool_path *path, struct path_config *config);

/* The part of a file's name that is relative to the paths of the pool, within f->file_name. */
int terms_name(struct fio_file *f, const struct pool *pool, const char **name);

/* The job's number from 0, the same in all processes. */
uint32_t terms_job_number(const struct thread_data *td);

/* Which of `count` paths the job has under spread=job. */
uint32_t terms_path_of_job(const struct thread_data *td, uint32_t count);

/* The stable_how of this job's WRITEs. */
enum io_stable terms_stable(struct thread_data *td);
