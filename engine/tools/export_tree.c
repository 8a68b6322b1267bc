/* SPDX-License-Identifier: GPL-2.0-only */
#include "export_tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

enum { DEPTH_MAX = 128, NAME_ROOM = 4096 };

/* --- names --- */

bool tree_name_is_sound(const char *name)
{
	size_t length;

	if (strlen(name) >= NAME_ROOM)
		return false;
	for (;; name += length + 1) {
		length = strcspn(name, "/");
		if (!length || length > EXPORT_NAME_MAX || (length == 1 && *name == '.') ||
		    (length == 2 && !memcmp(name, "..", 2)))
			return false;
		if (!name[length])
			return true;
	}
}

static void leave(struct export *export, struct export_dir *dir)
{
	if (dir->fd != export->root.fd)
		export->ops->leave(dir);
}

/* Finds one name in a directory. */
static int look_at(struct export *export, const struct export_dir *dir, char *name,
		   struct export_item *found)
{
	*found = (struct export_item){.name = name};
	return export->ops->look(export, dir, found, 1) ?: found->error;
}

/* Goes from `dir`, which is left, into what `name` is there. */
static int descend(struct export *export, struct export_dir *dir, char *name)
{
	struct export_item item;
	struct export_dir child;
	int error = look_at(export, dir, name, &item);

	if (!error && item.kind.type != META_TYPE_DIRECTORY)
		error = -ENOTDIR;
	if (!error)
		error = export->ops->enter(export, dir, &item, &child);
	leave(export, dir);
	if (error)
		return export_fail(export, "find directory", name, error, item.status);
	*dir = child;
	return 0;
}

/* Opens the directory that holds the last component of `name`: *last, which lies in `copy`. */
static int open_parent(struct export *export, const char *name, char copy[NAME_ROOM],
		       struct export_dir *dir, char **last)
{
	size_t length = strlen(name);
	char *slash;

	*dir = export->root;
	*last = copy;
	if (length >= NAME_ROOM)
		return export_fail(export, "find", name, -ENAMETOOLONG, NULL);
	memcpy(copy, name, length + 1);
	for (; (slash = strchr(*last, '/')); *last = slash + 1) {
		int error;

		*slash = '\0';
		error = descend(export, dir, *last);
		if (error)
			return error;
	}
	return 0;
}

static int open_dir(struct export *export, const char *name, struct export_dir *dir)
{
	char copy[NAME_ROOM], *last;
	int error;

	*dir = export->root;
	if (!*name)
		return 0;
	error = open_parent(export, name, copy, dir, &last);
	return error ?: descend(export, dir, last);
}

int tree_find(struct export *export, const char *name, struct export_item *found)
{
	char copy[NAME_ROOM], *last;
	struct export_dir dir;
	int error;

	error = open_parent(export, name, copy, &dir, &last);
	if (error)
		return error;
	error = look_at(export, &dir, last, found);
	found->name = NULL;
	leave(export, &dir);
	if (error && error != -ENOENT)
		export_fail(export, "find", name, error, found->status);
	return error;
}

int tree_make(struct export *export, const char *name)
{
	char copy[NAME_ROOM], *last;
	struct export_dir dir;
	int error;

	error = open_parent(export, name, copy, &dir, &last);
	if (error)
		return error;
	error = export->ops->make(export, &dir, last);
	leave(export, &dir);
	return error;
}

/* --- what lies in a directory --- */

/* The next page of names, and what each is. Those that are gone meanwhile have -ENOENT. */
static int next_page(struct export *export, const struct export_dir *dir,
		     struct export_listing *listing, struct export_items *items)
{
	int error;

	*items = (struct export_items){0};
	error = export->ops->list(export, dir, listing, items);
	if (error)
		return error;
	error = export->ops->look(export, dir, items->items, items->count);
	if (error)
		export_items_free(items);
	return error;
}

int tree_list(struct export *export, const char *name, void (*each)(const struct export_item *item))
{
	struct export_listing listing = {0};
	struct export_items items;
	struct export_dir dir;
	int error = open_dir(export, name, &dir);

	if (error)
		return error;
	while (!error && !listing.end) {
		error = next_page(export, &dir, &listing, &items);
		for (uint32_t i = 0; !error && i < items.count; i++)
			if (items.items[i].error != -ENOENT)
				each(&items.items[i]);
		if (!error)
			export_items_free(&items);
	}
	export->ops->list_end(&listing);
	leave(export, &dir);
	return error;
}

/* --- all that lies below one --- */

static void count_item(const struct export_item *item, struct tree_count *count)
{
	count->entries++;
	if (item->kind.type == META_TYPE_FILE)
		count->bytes += item->kind.size;
}

/* The first that failed, but for what is gone already. */
static int check(struct export *export, const char *what, const struct export_items *items)
{
	for (uint32_t i = 0; i < items->count; i++) {
		const struct export_item *item = &items->items[i];

		if (item->error && item->error != -ENOENT)
			return export_fail(export, what, item->name, item->error, item->status);
	}
	return 0;
}

typedef int tree_work(struct export *export, const struct export_dir *dir, unsigned int depth,
		      struct tree_count *count);

/* Does `work` in each directory of the items. */
static int into_directories(struct export *export, const struct export_dir *dir,
			    const struct export_items *items, unsigned int depth, tree_work *work,
			    struct tree_count *count)
{
	int error = 0;

	for (uint32_t i = 0; !error && i < items->count; i++) {
		const struct export_item *item = &items->items[i];
		struct export_dir child;

		if (item->error || item->kind.type != META_TYPE_DIRECTORY)
			continue;
		if (depth >= DEPTH_MAX)
			return export_fail(export, "go into directory", item->name, -ELOOP, NULL);
		error = export->ops->enter(export, dir, item, &child);
		if (error)
			return error;
		error = work(export, &child, depth + 1, count);
		export->ops->leave(&child);
	}
	return error;
}

static int count_below(struct export *export, const struct export_dir *dir, unsigned int depth,
		       struct tree_count *count)
{
	struct export_listing listing = {0};
	struct export_items items;
	int error = 0;

	while (!error && !listing.end) {
		error = next_page(export, dir, &listing, &items);
		if (error)
			break;
		error = check(export, "find", &items);
		for (uint32_t i = 0; i < items.count; i++)
			if (!items.items[i].error)
				count_item(&items.items[i], count);
		error = error ?: into_directories(export, dir, &items, depth, count_below, count);
		export_items_free(&items);
	}
	export->ops->list_end(&listing);
	return error;
}

int tree_usage(struct export *export, const char *name, struct tree_count *count)
{
	struct export_dir dir;
	int error = open_dir(export, name, &dir);

	if (error)
		return error;
	error = count_below(export, &dir, 0, count);
	leave(export, &dir);
	return error;
}

static int empty(struct export *export, const struct export_dir *dir, unsigned int depth,
		 struct tree_count *count);

/* Takes a name out of a page. */
static void leave_out(struct export_items *items, const char *name)
{
	for (uint32_t i = 0; i < items->count; i++)
		if (!strcmp(items->items[i].name, name))
			items->items[i--] = items->items[--items->count];
}

/* Removes a page of a directory; *removed: how many of its items. */
static int remove_page(struct export *export, const struct export_dir *dir,
		       const struct export_items *items, unsigned int depth,
		       struct tree_count *count, uint32_t *removed)
{
	int error = check(export, "find", items);

	error = error ?: into_directories(export, dir, items, depth, empty, count);
	error = error ?: export->ops->remove(export, dir, items->items, items->count, false);
	error = error ?: export->ops->remove(export, dir, items->items, items->count, true);
	for (uint32_t i = 0; !error && i < items->count; i++) {
		const struct export_item *item = &items->items[i];

		/* What is gone may be what an earlier copy of the call has removed. */
		if (item->error && (item->error != -ENOENT || !item->kind.type))
			continue;
		count_item(item, count);
		++*removed;
	}
	return error ?: check(export, "remove", items);
}

/*
 * Removes all that lies in a directory but `spared`, a name or NULL.
 *
 * Where names were removed the listing begins anew: a server's cookies may mean something else
 * then. Names that are listed though they are gone end no listing, and begin none.
 */
static int empty_but(struct export *export, const struct export_dir *dir, unsigned int depth,
		     const char *spared, struct tree_count *count)
{
	struct export_listing listing = {0};
	struct export_items items;
	int error = 0;

	while (!error && !listing.end) {
		uint32_t removed = 0;

		error = next_page(export, dir, &listing, &items);
		if (error)
			break;
		if (spared)
			leave_out(&items, spared);
		error = remove_page(export, dir, &items, depth, count, &removed);
		export_items_free(&items);
		if (removed) {
			export->ops->list_end(&listing);
			listing = (struct export_listing){0};
		}
	}
	export->ops->list_end(&listing);
	return error;
}

static int empty(struct export *export, const struct export_dir *dir, unsigned int depth,
		 struct tree_count *count)
{
	return empty_but(export, dir, depth, NULL, count);
}

/* Leaves the mark alone in a directory that has it: a removal that ends early can be repeated. */
static int empty_marked(struct export *export, const struct export_dir *parent,
			const struct export_item *item, char *mark, struct tree_count *count)
{
	struct export_item found;
	struct export_dir dir;
	int error = export->ops->enter(export, parent, item, &dir);

	if (error)
		return error;
	error = look_at(export, &dir, mark, &found);
	if (error && error != -ENOENT)
		export_fail(export, "find", mark, error, found.status);
	else if (error || found.kind.type != META_TYPE_DIRECTORY) /* no link, and no file */
		error = TREE_UNMARKED;
	else
		error = empty_but(export, &dir, 1, mark, count);
	export->ops->leave(&dir);
	return error;
}

int tree_remove(struct export *export, const char *name, char *mark, struct tree_count *count)
{
	char copy[NAME_ROOM], *last;
	struct export_items one = {.count = 1};
	struct export_item item;
	struct export_dir dir;
	uint32_t removed = 0;
	int error;

	error = open_parent(export, name, copy, &dir, &last);
	if (error)
		return error;
	error = look_at(export, &dir, last, &item);
	one.items = &item;
	if (error)
		error = error == -ENOENT ? 0
					 : export_fail(export, "find", name, error, item.status);
	else if (item.kind.type != META_TYPE_DIRECTORY)
		error = export_fail(export, "remove", name, -ENOTDIR, NULL);
	else if (mark && !*mark)
		error = export->ops->remove(export, &dir, &item, 1, true)
				?: check(export, "remove", &one);
	else
		error = (mark ? empty_marked(export, &dir, &item, mark, count) : 0)
				?: remove_page(export, &dir, &one, 0, count, &removed);
	leave(export, &dir);
	return error;
}
