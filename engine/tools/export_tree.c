/* SPDX-License-Identifier: GPL-2.0-only */
#include "export.h"

#include <stdlib.h>
#include <string.h>

enum {
	NAME_ROOM = 4096,
	OPEN_LEVELS_MAX = 64, /* levels of a mount that stay open during work below them */
	LEVELS_MAX = 10000,   /* a removal goes no deeper: each takes room on the stack */
	LEFT_MAX = 1000,      /* a removal gives up after so many entries that it cannot remove */
};

bool tree_name_is_sound(const char *name)
{
	size_t length;

	if (strlen(name) >= NAME_ROOM)
		return false;
	for (;; name += length + 1) {
		length = strcspn(name, "/");
		if (!length || length > COMPONENT_MAX - 1 || is_dots(name, length))
			return false;
		if (!name[length])
			return true;
	}
}

static int look_at(struct export *export, const struct export_dir *dir, char *name,
		   struct names_item *found)
{
	*found = (struct names_item){.name = name};
	return export_look(export, dir, found, 1) ?: found->error;
}

/* Goes from `dir` into `name` there, and leaves `dir`. */
static int descend(struct export *export, struct export_dir *dir, char *name)
{
	struct names_item item;
	struct export_dir child;
	int error = look_at(export, dir, name, &item);

	if (!error && item.kind.type != META_TYPE_DIRECTORY)
		error = -ENOTDIR;
	if (!error)
		error = export_enter(export, dir, &item, true, &child);
	export_leave(export, dir);
	if (error)
		return export_fail(export, "find directory", name, error, item.status);
	*dir = child;
	return 0;
}

/* Opens the directory that holds the last component of `name`. *last: that component, in `copy`. */
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

int tree_find(struct export *export, const char *name, struct names_item *found)
{
	char copy[NAME_ROOM], *last;
	struct export_dir dir;
	int error;

	error = open_parent(export, name, copy, &dir, &last);
	if (error)
		return error;
	error = look_at(export, &dir, last, found);
	found->name = NULL;
	export_leave(export, &dir);
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
	error = export_make(export, &dir, last);
	export_leave(export, &dir);
	return error;
}

/* Lists the next page of names, and finds what each is. An item's -ENOENT: removed meanwhile. */
static int next_page(struct export *export, const struct export_dir *dir,
		     struct export_listing *listing, struct export_items *items)
{
	int error;

	*items = (struct export_items){0};
	error = export_list(export, dir, listing, items);
	if (error)
		return error;
	error = export_look(export, dir, items->items, items->count);
	if (error)
		export_items_free(items);
	return error;
}

int tree_list(struct export *export, const char *name, void (*each)(const struct names_item *item))
{
	struct export_listing listing = {0};
	struct export_items items;
	struct export_dir dir = export->root;
	char copy[NAME_ROOM], *last;
	int error = *name ? open_parent(export, name, copy, &dir, &last) : 0;

	if (!error && *name)
		error = descend(export, &dir, last);
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
	export_leave(export, &dir);
	return error;
}

/* A directory on the way down, and its page. */
struct level {
	struct level *above; /* NULL: this one holds the directory that is to be removed */
	const char *name;
	struct export_dir dir;
	struct meta_identity identity;
	struct export_listing listing;
	char *gone;  /* the last name removed from the previous page */
	char **left; /* names that cannot be removed, and are not tried again */
	uint32_t left_count;
};

/* A removal of all entries below a directory: the deepest go first. */
struct walk {
	struct export *export;
	struct tree_count *count;
	char *mark; /* NULL: the directory needs none */
	const struct meta_identity *top;
	uint32_t depth;
	uint32_t left; /* entries that cannot be removed */
	int left_error;
	char left_words[sizeof(((struct export *)NULL)->error)]; /* why the first of `left` stays */
};

static void count_item(const struct names_item *item, struct tree_count *count)
{
	count->entries++;
	if (item->kind.type == META_TYPE_FILE)
		count->bytes += item->kind.size;
}

/* Names the item by its path from the directory, where that path is short. */
static int fail_in_walk(struct walk *walk, const struct level *level, const char *what,
			const struct names_item *item, int error)
{
	char path[100], *at = path + sizeof(path);
	size_t length = strlen(item->name) + 1;
	const char *name = item->name;

	while (name && length <= (size_t)(at - path)) {
		at = memcpy(at - length, name, length);
		if (name != item->name)
			at[length - 1] = '/';
		name = level->name; /* NULL: the path is whole */
		length = name ? strlen(name) + 1 : 0;
		level = level->above;
	}
	return export_fail(walk->export, what, name ? item->name : at, error, item->status);
}

/* Leaves an item that cannot be removed, and goes on; `error`: why; 0: reported before. */
static int leave_item(struct walk *walk, struct level *level, const char *what,
		      struct names_item *item, int error)
{
	char **grown = reallocarray(level->left, level->left_count + 1, sizeof(*level->left));

	if (!grown)
		return -ENOMEM;
	level->left = grown;
	level->left[level->left_count] = strdup(item->name);
	if (!level->left[level->left_count])
		return -ENOMEM;
	level->left_count++;
	if (error == -EXDEV)
		item->status = "another file system: unmount it, or remove it by hand";
	if (error && !walk->left++) {
		walk->left_error = fail_in_walk(walk, level, what, item, error);
		memcpy(walk->left_words, walk->export->error, sizeof(walk->left_words));
	}
	item->error = error ?: -ENOTEMPTY;
	return walk->left < LEFT_MAX ? 0 : walk->left_error;
}

static bool is_left(const struct level *level, const char *name)
{
	for (uint32_t i = 0; i < level->left_count; i++)
		if (!strcmp(level->left[i], name))
			return true;
	return false;
}

static int take_item(struct walk *walk, struct level *level, struct names_item *item)
{
	if (is_left(level, item->name)) {
		*item = (struct names_item){.name = item->name, .error = -ENOENT};
	} else if (!item->error && level->gone && !strcmp(item->name, level->gone)) {
		item->status = "it was removed, and is there again";
		return leave_item(walk, level, "remove", item, -EEXIST);
	} else if (item->error && item->error != -ENOENT) {
		return leave_item(walk, level, "find", item, item->error);
	}
	return 0;
}

/* An item that is gone may have been removed by an earlier copy of the call. */
static int end_item(struct walk *walk, struct level *level, struct names_item *item)
{
	if (item->error && item->error != -ENOENT)
		return is_left(level, item->name)
			       ? 0
			       : leave_item(walk, level, "remove", item, item->error);
	if (item->error && !item->kind.type)
		return 0;
	count_item(item, walk->count);
	free(level->gone);
	level->gone = strdup(item->name);
	return level->gone ? 0 : -ENOMEM;
}

/* True for the directory that is to be removed, if it must have a mark. */
static bool has_mark(const struct walk *walk, const struct level *level)
{
	return walk->mark && level->above && !level->above->above;
}

/*
 * Ends a page: removes what is left of it. If that was any, the listing starts again, since the
 * server's cookies may be invalid; else it goes on.
 */
static int end_page(struct walk *walk, struct level *level, const struct export_items *page)
{
	int error;

	free(level->gone);
	level->gone = NULL;
	for (uint32_t i = 0; has_mark(walk, level) && i < page->count; i++)
		if (!strcmp(page->items[i].name, walk->mark)) /* the mark goes last */
			page->items[i] = (struct names_item){.name = walk->mark, .error = -ENOENT};
	error = export_remove(walk->export, &level->dir, page->items, page->count, false)
			?: export_remove(walk->export, &level->dir, page->items, page->count, true);
	for (uint32_t i = 0; !error && i < page->count; i++)
		error = end_item(walk, level, &page->items[i]);
	if (level->gone)
		level->listing = (struct export_listing){0};
	return error;
}

/* The mark must be a directory: a link or a file does not count. */
static int check_mark(struct walk *walk, const struct level *level)
{
	struct names_item found;
	int error = look_at(walk->export, &level->dir, walk->mark, &found);

	if (error && error != -ENOENT)
		return export_fail(walk->export, "find", walk->mark, error, found.status);
	return error || found.kind.type != META_TYPE_DIRECTORY ? TREE_UNMARKED : 0;
}

static int remove_mark(struct walk *walk, struct level *level)
{
	struct names_item mark = {.name = walk->mark, .kind.type = META_TYPE_DIRECTORY};
	int error = export_remove(walk->export, &level->dir, &mark, 1, true);

	if (!error && mark.error && mark.error != -ENOENT)
		return leave_item(walk, level, "remove", &mark, mark.error);
	if (!error)
		count_item(&mark, walk->count);
	return error;
}

static int go_down(struct walk *walk, struct level *level, struct names_item *item);

/* Removes all that lies in a directory, page by page. */
static int clear(struct walk *walk, struct level *level)
{
	struct export_items page;
	int error = 0;

	while (!error && !level->listing.end) {
		error = next_page(walk->export, &level->dir, &level->listing, &page);
		for (uint32_t i = 0; !error && i < page.count; i++)
			error = take_item(walk, level, &page.items[i]);
		for (uint32_t i = 0; !error && i < page.count; i++)
			if (!page.items[i].error && page.items[i].kind.type == META_TYPE_DIRECTORY)
				error = go_down(walk, level, &page.items[i]);
		error = error ?: end_page(walk, level, &page);
		export_items_free(&page);
	}
	return error;
}

/* The same with the mark, which stays where an entry beside it could not be removed. */
static int clear_marked(struct walk *walk, struct level *level)
{
	int error = check_mark(walk, level) ?: clear(walk, level);

	return error || level->left_count ? error : remove_mark(walk, level);
}

static void drop_level(struct walk *walk, struct level *level)
{
	while (level->left_count)
		free(level->left[--level->left_count]);
	free(level->left);
	free(level->gone);
	export_leave(walk->export, &level->dir);
}

/* Clears a directory of the page of `level`, unless it is of another file system. It is left if an
 * entry of it could not be removed. */
static int go_down(struct walk *walk, struct level *level, struct names_item *item)
{
	struct level below = {.above = level, .name = item->name, .identity = item->identity};
	int error = -EXDEV;
	bool stays;

	if (walk->depth == LEVELS_MAX) {
		item->status = "it lies too deep: remove it by hand";
		error = -ENAMETOOLONG;
	} else if (!memcmp(item->identity.fsid, walk->top->fsid, sizeof(walk->top->fsid))) {
		error = export_enter(walk->export, &level->dir, item, false, &below.dir);
	}
	if (error)
		return leave_item(walk, level, "go into", item, error);
	if (++walk->depth > OPEN_LEVELS_MAX)
		export_leave(walk->export, &level->dir);
	error = has_mark(walk, &below) ? clear_marked(walk, &below) : clear(walk, &below);
	error = error ?: export_back(walk->export, &below.dir, &level->identity, &level->dir);
	walk->depth--;
	stays = below.left_count;
	drop_level(walk, &below);
	return error || !stays ? error : leave_item(walk, level, "", item, 0);
}

/* Removes `item`, a directory, and all below it. */
static int remove_directory(struct walk *walk, struct level *first, struct names_item *item)
{
	const struct export_items page = {.items = item, .count = 1};
	bool may_go_down = !walk->mark || *walk->mark;
	int error = may_go_down ? go_down(walk, first, item) : 0;

	error = error ?: end_page(walk, first, &page);
	if (error == -ENOMEM)
		export_fail(walk->export, "walk through", "the directory", error, NULL);
	if (!error && walk->left)
		snprintf(walk->export->error, sizeof(walk->export->error),
			 walk->left > 1 ? "%.280s: %u entries stay" : "%s", walk->left_words,
			 walk->left);
	return error ?: walk->left_error;
}

/* `name`, but not its parent, may be missing. */
int tree_remove(struct export *export, const char *name, char *mark, struct tree_count *count)
{
	char copy[NAME_ROOM], *last;
	struct level first = {0};
	struct names_item item;
	struct walk walk = {.export = export, .count = count, .mark = mark, .top = &item.identity};
	int error = open_parent(export, name, copy, &first.dir, &last);

	if (error)
		return error;
	error = look_at(export, &first.dir, last, &item);
	if (!error && item.kind.type != META_TYPE_DIRECTORY)
		error = -ENOTDIR;
	if (!error)
		error = remove_directory(&walk, &first, &item);
	else
		error = error == -ENOENT ? 0
					 : export_fail(export, "remove", name, error, item.status);
	drop_level(&walk, &first);
	return error;
}
