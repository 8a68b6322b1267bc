/* SPDX-License-Identifier: GPL-2.0-only */
#include "pool_paths.h"

#include <errno.h>
#include <stdlib.h>

#include "job_terms.h"
#include "deadline.h"
#include "metadata.h"
#include "job_log.h"

int pool_paths_init(struct pool_paths *paths, struct thread_data *td, uint32_t file_count)
{
	int error = terms_pool(td, &paths->pool);

	if (error)
		return error;
	paths->file_count = file_count;
	metadata_terms(td, &paths->entries);
	paths->open = calloc(paths->pool.count, sizeof(*paths->open));
	paths->failed = calloc(paths->pool.count, sizeof(*paths->failed));
	if (paths->open && paths->failed)
		return 0;
	free(paths->open);
	free(paths->failed);
	paths->open = NULL; /* pool_paths_close() does nothing */
	pool_free(&paths->pool);
	return -ENOMEM;
}

void pool_paths_close(struct pool_paths *paths)
{
	if (!paths->open)
		return;
	for (unsigned int i = 0; i < paths->pool.count; i++)
		path_close(paths->open[i]);
	free(paths->open);
	free(paths->failed);
	paths->open = NULL;
	paths->failed = NULL;
	pool_free(&paths->pool);
}

/* Path `number` of the pool, or NULL with *error a negative errno, logged. */
static struct path *get(struct pool_paths *paths, struct thread_data *td, uint32_t number,
			int *error)
{
	const struct terms *eo = td->eo;
	const struct path_job job = {
		.file_count = paths->file_count,
		.entries = eo->metadata ? &paths->entries : NULL,
		.failover = eo->failover && paths->pool.count > 1,
		.stop = deadline_passed,
		.over = deadline_over,
		.log = job_log,
		.state = &paths->state,
	};
	struct path_config config;

	*error = paths->failed[number];
	if (paths->open[number] || *error)
		return paths->open[number];
	*error = terms_path(td, &paths->pool.paths[number], &config);
	if (!*error)
		*error = path_open(&paths->open[number], &config, &job);
	paths->failed[number] = *error;
	return paths->open[number];
}

uint32_t pool_paths_all(struct pool_paths *paths, struct thread_data *td, struct path **all,
			uint32_t max, int *error)
{
	const struct terms *eo = td->eo;
	uint32_t count = min(paths->pool.count, max), found = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct path *path = get(paths, td, i, error);

		if (path)
			all[found++] = path;
		else if (!eo->failover || *error == -EINTR)
			return 0;
	}
	if (found)
		*error = 0;
	return found;
}

struct path *pool_paths_own(struct pool_paths *paths, struct thread_data *td, int *error)
{
	const struct terms *eo = td->eo;
	uint32_t count = paths->pool.count, own = terms_path_of_job(td, count);
	struct path *path = get(paths, td, own, error);

	for (uint32_t i = 1; !path && eo->failover && *error != -EINTR && i < count; i++)
		path = get(paths, td, (own + i) % count, error);
	return path;
}
