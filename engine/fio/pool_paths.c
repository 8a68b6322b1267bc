/* SPDX-License-Identifier: GPL-2.0-only */
#include "pool_paths.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "deadline.h"
#include "meta_job.h"
#include "job_log.h"

int pool_paths_init(struct pool_paths *paths, struct thread_data *td, uint32_t file_count)
{
	int error = terms_pool(td, &paths->pool);

	if (error)
		return error;
	paths->file_count = file_count;
	metadata_terms(td, &paths->entries);
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
		path_close(paths->open[i].path);
	free(paths->open);
	paths->open = NULL;
	pool_free(&paths->pool);
}

/* Returns path `number` of the pool, opened if necessary; or NULL and *error, which is logged. */
static struct path *get(struct pool_paths *paths, struct thread_data *td, uint32_t number,
			int *error)
{
	const struct terms *eo = td->eo;
	const struct path_job job = {
		.file_count = paths->file_count,
		.entries = eo->metadata ? &paths->entries : NULL,
		.failover = eo->failover && paths->pool.count > 1,
		.clients = paths->clients,
		.first_client = terms_job_number(td) * max_of(eo->nclients, 1u),
		.stop = deadline_passed,
		.over = deadline_over,
		.log = job_log,
		.state = &paths->state,
	};
	struct opened_path *opened = &paths->open[number];
	struct path_config config;

	*error = opened->failed;
	if (opened->path || *error)
		return opened->path;
	*error = terms_path(td, &paths->pool.paths[number], &config);
	if (!*error)
		*error = path_open(&opened->path, &config, &job);
	opened->failed = *error;
	return opened->path;
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

/* --- the files that this run of fio has made --- */

enum { FILES_MAX = 65536 };

/* Memory shared with the processes of jobs: mapped before the first fork, and never unmapped, since
 * a thread that fio has left behind may read it until the process ends. NULL: out of memory. */
static struct {
	_Atomic uint32_t count;
	_Atomic uint64_t hashes[FILES_MAX];
} * own;

__attribute__((constructor)) static void make(void)
{
	void *memory =
		mmap(NULL, sizeof(*own), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	own = memory == MAP_FAILED ? NULL : memory;
}

/* Continues an FNV-1a hash with a text and its NUL. */
static uint64_t mix(uint64_t hash, const char *text)
{
	do
		hash = (hash ^ (uint8_t)*text) * 0x100000001b3ull;
	while (*text++);
	return hash;
}

static uint64_t hash_of(const struct pool *pool, const char *name)
{
	return mix(mix(0xcbf29ce484222325ull, pool->paths[0].label), name);
}

void own_file_add(const struct pool *pool, const char *name)
{
	uint32_t place = own ? atomic_fetch_add(&own->count, 1) : FILES_MAX;

	if (place < FILES_MAX)
		own->hashes[place] = hash_of(pool, name);
}

bool own_file(const struct pool *pool, const char *name)
{
	uint32_t count = own ? min_of(own->count, (uint32_t)FILES_MAX) : 0;
	uint64_t hash = hash_of(pool, name);

	for (uint32_t i = 0; i < count; i++)
		if (own->hashes[i] == hash)
			return true;
	return false;
}
