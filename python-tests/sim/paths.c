/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "fio/job_log.h"
#include "nfs/entries.h"
#include "nfs/meta.h"
#include "nfs/names.h"
#include "nfs/path_client.h"
#include "nfs/version.h"
#include "wire/rpcsec_gss.h"
#include "world.h"

static void *state; /* NFSv4's, of all paths */

bool paths_stop(void)
{
	return false;
}

static enum path_sec sec_of(const struct job_terms *terms)
{
	static const enum path_sec secs[] = {
		[GSS_SERVICE_NONE] = SEC_KRB5,
		[GSS_SERVICE_INTEGRITY] = SEC_KRB5I,
		[GSS_SERVICE_PRIVACY] = SEC_KRB5P,
	};

	return terms->service ? secs[terms->service] : SEC_SYS;
}

static struct path *new_path(uint32_t number, const struct job_terms *terms)
{
	static char client_name[] = "%d"; /* server.h's */
	struct path *path = calloc(1, sizeof(*path));
	struct sockaddr_in *remote = (void *)&path->config.remote;
	char label[16];

	snprintf(label, sizeof(label), "path %u", number);
	path->config.label = strdup(label);
	path->config.export = strdup("/");
	path->config.nfs_port = 1 + number;
	path->config.timing = terms->timing;
	path->config.setup_time = 10 * SEC;
	path->config.terms.version = terms->nfs4;
	path->config.terms.trunking = terms->trunks;
	path->config.terms.security = sec_of(terms);
	path->config.terms.client_name = terms->clients ? client_name : NULL;
	path->config.rsize = path->config.wsize = 64 << 10;
	path->config.remote_length = sizeof(*remote);
	remote->sin_family = AF_INET;
	path->job = (struct path_job){
		.file_count = terms->files,
		.failover = terms->failover,
		.clients = terms->clients,
		.stop = paths_stop,
		.log = job_log,
		.state = &state,
		.clock = world.clock.read,
	};
	path->version = terms->nfs4 ? &nfs_version_4 : &nfs_version_3;
	path->directory = -1;
	path->files = calloc(terms->files, sizeof(*path->files));
	for (uint32_t i = 0; i < terms->files; i++)
		path->files[i].name = strdup(job_file(i));
	return path;
}

/* NFSv3's names are not simulated: the handle is known. */
static int open_file(struct path *path, uint32_t number)
{
	static struct nfs_handle handles[SERVER_FILES_MAX];
	struct path_file *file = &path->files[number];

	if (path->version == &nfs_version_3) {
		handles[number] = (struct nfs_handle){.length = 4, .bytes = SERVER_HANDLE};
		handles[number].bytes[3] += number;
		file->state = &handles[number];
		return 0;
	}
	return path->version->open_file(path->names, number, file->name, true, &file->state);
}

/* In the engine's place, for group_open_file(): paths have all files open. */
int __wrap_path_open_file(struct path *path, uint32_t number, const char *name, bool writes)
{
	return 0;
}

/* NFSv3's is known, as the file is. */
static int find_directory(void *context, const char *name, bool make, struct nfs_handle *found)
{
	struct path *path = context;

	if (path->version != &nfs_version_3)
		return names_directory(path->names, name, make, found);
	*found = (struct nfs_handle){.length = 3, .bytes = "dir"};
	return 0;
}

/* The directory, which the workload metadata.c works on. */
static int open_directory(struct path *path)
{
	const struct entries_terms terms = {
		.count = NAMESPACE_ENTRIES, .per_directory = 1, .run = 1};

	return entries_open(&path->files[0].entries, &terms, path->version->handle_max, "dir",
			    find_directory, path);
}

static int open_path(struct path *path, const struct job_terms *terms)
{
	int error = 0;

	if (path->version != &nfs_version_3)
		error = path->version->open_names(&path->names, path);
	if (error)
		return error;
	if (terms->metadata)
		return open_directory(path);
	for (uint32_t i = 0; i < terms->files && !error; i++)
		error = open_file(path, i);
	return error;
}

bool paths_open(struct path **paths, const struct job_terms *terms)
{
	int error = 0;

	state = NULL;
	for (uint32_t i = 0; i < terms->path_count; i++)
		paths[i] = new_path(i, terms);
	for (uint32_t i = 0; !error && i < terms->path_count; i++)
		error = open_path(paths[i], terms);
	return !error;
}

static void close_path(struct path *path)
{
	for (uint32_t i = 0; i < path->job.file_count; i++) {
		struct path_file *file = &path->files[i];

		if (path->version != &nfs_version_3 && file->state)
			path->version->close_file(path->names, file->state);
		free(file->name);
	}
	if (path->state)
		path->version->teardown(path);
	path_close_names(path);
	free(path->config.export);
	free(path->config.label);
	entries_close(path->files[0].entries);
	free(path->files);
	free(path);
}

void paths_close(struct path **paths, const struct job_terms *terms)
{
	for (uint32_t i = 0; i < terms->path_count; i++)
		close_path(paths[i]);
}
