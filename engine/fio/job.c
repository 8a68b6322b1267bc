/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include <stdio.h>
#include <string.h>

__thread struct job *job_of_thread;

/* A path that is not used any more does not know it: ask the first that does. */
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

char *job_error_details(const struct io_u *io_u)
{
	const struct job *job = job_of_thread;
	const struct request *request = job ? &job->requests[io_u->index] : NULL;
	char *text;

	if (!request || !request->label)
		return strdup("nfsmulti: no connection has failed");
	if (asprintf(&text, "nfsmulti: %s%s%s", request->label, request->status ? ": " : "",
		     request->status ?: "") < 0)
		return NULL;
	return text;
}
