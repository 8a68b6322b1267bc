/* SPDX-License-Identifier: GPL-2.0-only */
#include <limits.h>

#include "grammar.h"

/* The rest of `file` below `directory`; several slashes count as one. NULL: `file` is elsewhere. */
static const char *below(const char *directory, const char *file)
{
	struct scanner outer = scanner_over(directory, NULL);
	struct scanner inner = scanner_over(file, NULL);
	struct span component;

	if (scanner_peek(&inner) != '/')
		return NULL;
	component = scanner_component(&outer);
	for (; span_length(component); component = scanner_component(&outer))
		if (!span_same(component, scanner_component(&inner)))
			return NULL;
	scanner_while(&inner, "/");
	return inner.at;
}

const char *pool_below_mount(const struct pool *pool, const char *file)
{
	const char *shortest = NULL;

	for (unsigned int i = 0; i < pool->count; i++) {
		const char *rest;

		if (pool->paths[i].kind != PATH_MOUNT)
			continue;
		rest = below(pool->paths[i].dir, file);
		if (rest && (!shortest || rest > shortest))
			shortest = rest;
	}
	return shortest;
}

const struct pool_path *pool_first_mount(const struct pool *pool)
{
	for (unsigned int i = 0; i < pool->count; i++)
		if (pool->paths[i].kind == PATH_MOUNT)
			return &pool->paths[i];
	return NULL;
}

int check_components(struct scanner name, const char *what)
{
	while (!scanner_done(&name)) {
		struct span component = scanner_component(&name);

		if (span_is(component, ".."))
			return scanner_refuse(&name, component.at,
					      "'..' in %s: write the path without '..'", what);
	}
	return 0;
}

/* Strips an absolute name of its mount or, in a pool without mounts, of its leading slashes. */
static int strip(const struct pool *pool, struct scanner *name)
{
	const struct pool_path *mount = pool_first_mount(pool);
	const char *rest = pool_below_mount(pool, name->at);

	if (mount && !rest)
		return scanner_refuse(name, name->at,
				      "'%s' lies in none of the pool's mounts: name a file "
				      "relative to them, or below one of them, such as %.60s",
				      QUOTE(span_over(name->at)), mount->dir);
	if (mount)
		name->at = rest;
	scanner_while(name, "/");
	return 0;
}

int pool_relative_name(const struct pool *pool, const char *file, const char **relative,
		       struct pool_error *err)
{
	struct scanner name = scanner_over(file, err);
	int refused;

	if ((size_t)(name.end - name.at) >= PATH_MAX)
		return scanner_refuse(&name, file + PATH_MAX - 1,
				      "a file name has fewer than %d bytes", PATH_MAX);
	refused = check_components(name, "a file name");
	if (!refused && scanner_peek(&name) == '/')
		refused = strip(pool, &name);
	if (refused)
		return refused;
	if (scanner_done(&name))
		return scanner_refuse(&name, name.at, "'%s' names no file inside the pool",
				      QUOTE(span_over(file)));
	*relative = name.at;
	return 0;
}
