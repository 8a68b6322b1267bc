/* SPDX-License-Identifier: GPL-2.0-only */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool_path.h"

void path_free(struct pool_path *path)
{
	free(path->dir);
	free(path->host);
	free(path->export);
	free(path->label);
	terms_free(&path->terms);
	*path = (struct pool_path){0};
}

void pool_free(struct pool *pool)
{
	for (unsigned int i = 0; i < pool->count; i++)
		path_free(&pool->paths[i]);
	free(pool->paths);
	*pool = (struct pool){0};
}

static bool copy_string(const char *from, char **to)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from;
}

int path_copy(const struct pool_path *from, struct pool_path *to)
{
	bool copied = true;

	*to = *from;
	/* Each string is copied whatever became of the others, so that `to` owns all that it points
	 * to. */
	copied &= copy_string(from->dir, &to->dir);
	copied &= copy_string(from->host, &to->host);
	copied &= copy_string(from->export, &to->export);
	copied &= copy_string(from->label, &to->label);
	copied &= terms_copy(&to->terms, &from->terms);
	if (copied)
		return 0;
	path_free(to);
	return -ENOMEM;
}

static char *nfs_label(const struct pool_path *path, const char *host)
{
	size_t size = strlen(host) + strlen(path->export) + sizeof("[]:4294967295:");
	bool ipv6 = strchr(host, ':');
	char *label = malloc(size);
	char port[16] = "";

	if (!label)
		return NULL;
	if (term_given(TERM(port), &path->terms))
		snprintf(port, sizeof(port), ":%u", path->terms.port);
	snprintf(label, size, ipv6 ? "[%s]%s:%s" : "%s%s:%s", host, port, path->export);
	return label;
}

int path_set_label(struct pool_path *path, const char *host)
{
	char *label = path->kind == PATH_NFS ? nfs_label(path, host) : strdup(path->dir);

	if (!label)
		return -ENOMEM;
	free(path->label);
	path->label = label;
	return 0;
}

int pool_append(struct pool *pool, const struct pool_path *path)
{
	struct pool_path *paths;

	paths = reallocarray(pool->paths, pool->count + 1, sizeof(*paths));
	if (!paths)
		return -ENOMEM;
	pool->paths = paths;
	pool->paths[pool->count++] = *path;
	return 0;
}
