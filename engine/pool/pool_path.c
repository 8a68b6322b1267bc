/* SPDX-License-Identifier: GPL-2.0-only */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar.h"

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
	/* Copies all, even after a failure, so that `to` owns every string that it has. */
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
	const char *format = strchr(host, ':') ? "[%s]%s:%s" : "%s%s:%s";
	char port[16] = "", *label;

	if (term_given(TERM(port), &path->terms))
		snprintf(port, sizeof(port), ":%u", path->terms.port);
	return asprintf(&label, format, host, port, path->export) < 0 ? NULL : label;
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
	struct pool_path *paths = reallocarray(pool->paths, pool->count + 1, sizeof(*paths));

	if (!paths)
		return -ENOMEM;
	pool->paths = paths;
	pool->paths[pool->count++] = *path;
	return 0;
}
