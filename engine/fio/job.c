/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

/* On a path that is not used any more no file is open: the first path with a name tells it. */
const char *job_file_name(const struct job *job, uint32_t file)
{
	const char *name = NULL;

	for (uint32_t i = 0; !name && i < job->group.path_count; i++)
		name = job->used[i]->files[file].name;
	return name;
}

bool job_same_file(const struct job *job, uint32_t a, uint32_t b)
{
	bool same = a == b;

	for (uint32_t i = 0; !same && i < job->group.path_count; i++)
		same = path_same_file(job->used[i], a, b);
	return same;
}
