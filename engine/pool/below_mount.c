/* SPDX-License-Identifier: GPL-2.0-only */
#include <limits.h>

#include "below_mount.h"
#include "cursor.h"

/* The rest of `file` inside `directory`; several slashes are as good as one. */
static const char *below(const char *directory, const char *file)
{
	struct cursor outer = cursor_over(directory, NULL);
	struct cursor inner = cursor_over(file, NULL);

	if (cursor_peek(&inner) != '/')
		return NULL;
	for (;;) {
		struct span component = cursor_component(&outer);

		if (!span_length(component))
			break;
		if (!span_same(component, cursor_component(&inner)))
			return NULL;
	}
	cursor_while(&inner, "/");
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

static int check_name(const struct cursor *name)
{
	struct cursor components = *name;

	if ((size_t)(name->end - name->at) >= PATH_MAX)
		return cursor_refuse(name, name->at + PATH_MAX - 1,
				     "a file name has fewer than %d bytes", PATH_MAX);
	while (!cursor_done(&components)) {
		struct span component = cursor_component(&components);

		if (span_is(component, ".."))
			return cursor_refuse(name, component.at,
					     "'..' in a file name: write where it leads to");
	}
	return 0;
}

/* An absolute name loses the mount it lies in, or, where there are no mounts, its slashes. */
static int strip(const struct pool *pool, struct cursor *name)
{
	const struct pool_path *mount = pool_first_mount(pool);
	const char *rest = pool_below_mount(pool, name->at);

	if (mount && !rest)
		return cursor_refuse(name, name->at,
				     "'%s' lies in none of the pool's mounts: name it relative "
				     "to them, or below one, as %.60s",
				     QUOTE(((struct span){name->at, name->end})), mount->dir);
	if (mount)
		name->at = rest;
	cursor_while(name, "/");
	return 0;
}

int pool_relative_name(const struct pool *pool, const char *file, const char **relative,
		       struct pool_error *err)
{
	struct cursor name = cursor_over(file, err);
	int refused = check_name(&name);

	if (!refused && cursor_peek(&name) == '/')
		refused = strip(pool, &name);
	if (refused)
		return refused;
	if (cursor_done(&name))
		return cursor_refuse(&name, name.at, "'%s' names no file inside the pool",
				     QUOTE(((struct span){file, name.end})));
	*relative = name.at;
	return 0;
}
