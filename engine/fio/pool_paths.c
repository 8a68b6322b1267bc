/* SPDX-License-Identifier: GPL-2.0-only */
#include "pool_paths.h"

#include <errno.h>
#include <stdlib.h>

#include "patience.h"
#include "say.h"

#include "pool/spread.h"

int pool_paths_init(struct pool_paths *paths, struct thread_data *td, uint32_t file_count)
{
	int error = terms_pool(td, &paths->pool);

	if (error)
		return error;
	paths->file_count = file_count;
	paths->open = calloc(paths->pool.count, sizeof(*paths->open));
	if (paths->open)
		return 0;
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
	paths->open = NULL;
	pool_free(&paths->pool);
}

struct path *pool_paths_get(struct pool_paths *paths, struct thread_data *td, uint32_t number,
			    int *error)
{
	const struct path_job job = {paths->file_count, patience_stopped, say};
	struct path_config config;

	*error = 0;
	if (paths->open[number])
		return paths->open[number];
	*error = terms_path(td, &paths->pool.paths[number], &config);
	if (!*error)
		*error = path_open(&paths->open[number], &config, &job);
	return paths->open[number];
}

uint32_t pool_paths_of_job(const struct pool_paths *paths, const struct thread_data *td)
{
	return spread_path_of_job(terms_job_number(td), paths->pool.count);
}
