/* SPDX-License-Identifier: GPL-2.0-only */
#include "export.h"

#include <stdlib.h>
#include <string.h>

enum {
	NAME_ROOM = 4096,
	OPEN_LEVELS_MAX = 64, /* levels of a mount that stay open during work below them */
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

/* A directory on the way down, and its page; `next`: the first item not looked at yet. */
struct level {
	struct export_dir dir;
	struct meta_identity identity;
	struct export_listing listing;
	struct export_items items;
	uint32_t next;
	char *gone;  /* the last name removed from the previous page */
	char **left; /* names that cannot be removed, and are not tried again */
	uint32_t left_count;
};

/* A removal of all entries below a directory, of any depth: the deepest go first. */
struct walk {
	struct export *export;
	struct tree_count *count;
	char *mark;	      /* NULL: the directory needs none */
	struct level *levels; /* the first one's page has one item: the directory itself */
	unsigned int depth;
	uint32_t left; /* entries that cannot be removed */
	int left_error;
	char left_words[sizeof(((struct export *)NULL)->error)]; /* why the first of `left` stays */
};

static struct level *lowest(const struct walk *walk)
{
	return &walk->levels[walk->depth - 1];
}

static void count_item(const struct names_item *item, struct tree_count *count)
{
	count->entries++;
	if (item->kind.type == META_TYPE_FILE)
		count->bytes += item->kind.size;
}

/* Names the item by its path from the directory, where that path is short. */
static int fail_in_walk(struct walk *walk, const char *what, const struct names_item *item,
			int error)
{
	char path[100];
	size_t used = 0;

	for (unsigned int i = 0; i + 1 < walk->depth && used < sizeof(path); i++)
		used += (size_t)snprintf(
			path + used, sizeof(path) - used, "%s/",
			walk->levels[i].items.items[walk->levels[i].next - 1].name);
	if (used < sizeof(path))
		used += (size_t)snprintf(path + used, sizeof(path) - used, "%s", item->name);
	return export_fail(walk->export, what, used < sizeof(path) ? path : item->name, error,
			   item->status);
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
		walk->left_error = fail_in_walk(walk, what, item, error);
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

static int take_page(struct walk *walk)
{
	struct level *level = lowest(walk);
	int error = next_page(walk->export, &level->dir, &level->listing, &level->items);

	level->next = 0;
	for (uint32_t i = 0; !error && i < level->items.count; i++)
		error = take_item(walk, level, &level->items.items[i]);
	return error;
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

/*
 * Ends a page: removes what is left of it. If that was any, the listing starts again, since the
 * server's cookies may be invalid; else it goes on.
 */
static int end_page(struct walk *walk)
{
	struct level *level = lowest(walk);
	struct export_items *items = &level->items;
	int error;

	free(level->gone);
	level->gone = NULL;
	for (uint32_t i = 0; walk->mark && walk->depth == 2 && i < items->count; i++)
		if (!strcmp(items->items[i].name, walk->mark)) /* the mark goes last */
			items->items[i] = (struct names_item){.name = walk->mark, .error = -ENOENT};
	error = export_remove(walk->export, &level->dir, items->items, items->count, false)
			?: export_remove(walk->export, &level->dir, items->items, items->count,
					 true);
	for (uint32_t i = 0; !error && i < items->count; i++)
		error = end_item(walk, level, &items->items[i]);
	if (walk->depth == 1) {
		*items = (struct export_items){0};
		return error;
	}
	if (level->gone)
		level->listing = (struct export_listing){0};
	export_items_free(items);
	return error;
}

/* The mark must be a directory: a link or a file does not count. */
static int check_mark(struct walk *walk)
{
	struct names_item found;
	int error = look_at(walk->export, &lowest(walk)->dir, walk->mark, &found);

	if (error && error != -ENOENT)
		return export_fail(walk->export, "find", walk->mark, error, found.status);
	return error || found.kind.type != META_TYPE_DIRECTORY ? TREE_UNMARKED : 0;
}

static int remove_mark(struct walk *walk)
{
	struct names_item mark = {.name = walk->mark, .kind.type = META_TYPE_DIRECTORY};
	int error = export_remove(walk->export, &lowest(walk)->dir, &mark, 1, true);

	if (!error && mark.error && mark.error != -ENOENT)
		return leave_item(walk, lowest(walk), "remove", &mark, mark.error);
	if (!error)
		count_item(&mark, walk->count);
	return error;
}

/* Goes into a directory of the lowest page, unless it is of another file system. */
static int go_down(struct walk *walk, struct names_item *item)
{
	const struct meta_identity *own = &walk->levels[0].identity;
	struct level *grown, below = {.identity = item->identity};
	int error = -EXDEV;

	if (!memcmp(item->identity.fsid, own->fsid, sizeof(own->fsid)))
		error = export_enter(walk->export, &lowest(walk)->dir, item, false, &below.dir);
	if (error)
		return leave_item(walk, lowest(walk), "go into", item, error);
	grown = reallocarray(walk->levels, walk->depth + 1, sizeof(*walk->levels));
	if (!grown) {
		export_leave(walk->export, &below.dir);
		return -ENOMEM;
	}
	walk->levels = grown;
	if (walk->depth > OPEN_LEVELS_MAX)
		export_leave(walk->export, &lowest(walk)->dir);
	walk->levels[walk->depth++] = below;
	return walk->mark && walk->depth == 2 ? check_mark(walk) : 0;
}

static void drop_level(struct walk *walk)
{
	struct level *level = lowest(walk);

	while (level->left_count)
		free(level->left[--level->left_count]);
	free(level->left);
	free(level->gone);
	if (--walk->depth) { /* the caller owns the first level's */
		export_leave(walk->export, &level->dir);
		export_items_free(&level->items);
	}
}

/* Keeps a directory, and its mark, if an entry of it could not be removed. */
static int go_up(struct walk *walk)
{
	struct level *level = lowest(walk), *above = level - 1;
	bool stays = level->left_count;
	int error = 0;

	if (walk->mark && walk->depth == 2 && !stays) {
		error = remove_mark(walk);
		stays = level->left_count;
	}
	if (!error && walk->depth > 1)
		error = export_back(walk->export, &level->dir, &above->identity, &above->dir);
	drop_level(walk);
	if (!error && walk->depth && stays)
		error = leave_item(walk, above, "", &above->items.items[above->next - 1], 0);
	return error;
}

/* The next directory of the lowest page; NULL: there is none. */
static struct names_item *next_directory(const struct walk *walk)
{
	struct level *level = lowest(walk);

	while (level->next < level->items.count) {
		struct names_item *item = &level->items.items[level->next++];

		if (!item->error && item->kind.type == META_TYPE_DIRECTORY)
			return item;
	}
	return NULL;
}

static int go_through(struct walk *walk)
{
	int error = 0;

	while (walk->depth && !error) {
		struct names_item *item = next_directory(walk);

		if (item)
			error = go_down(walk, item);
		else if (lowest(walk)->items.items)
			error = end_page(walk);
		else if (!lowest(walk)->listing.end)
			error = take_page(walk);
		else
			error = go_up(walk);
	}
	if (error == -ENOMEM)
		export_fail(walk->export, "walk through", "the directory", error, NULL);
	while (walk->depth)
		drop_level(walk);
	if (!error && walk->left)
		snprintf(walk->export->error, sizeof(walk->export->error),
			 walk->left > 1 ? "%.280s: %u entries stay" : "%s", walk->left_words,
			 walk->left);
	return error ?: walk->left_error;
}

/* `name`, but not its parent, may be missing. */
static int walk_through(struct walk *walk, const char *name)
{
	char copy[NAME_ROOM], *last;
	struct level first = {.listing.end = true, .next = walk->mark && !*walk->mark};
	struct names_item item;
	int error = open_parent(walk->export, name, copy, &first.dir, &last);

	if (error)
		return error;
	error = look_at(walk->export, &first.dir, last, &item);
	if (!error && item.kind.type != META_TYPE_DIRECTORY)
		error = -ENOTDIR;
	first.identity = item.identity;
	first.items = (struct export_items){.items = &item, .count = 1};
	walk->levels = malloc(sizeof(first));
	if (!error && walk->levels) {
		walk->levels[walk->depth++] = first;
		error = go_through(walk);
	} else if (error == -ENOENT) {
		error = 0;
	} else {
		error = export_fail(walk->export, "remove", name, error ?: -ENOMEM, item.status);
	}
	free(walk->levels);
	export_leave(walk->export, &first.dir);
	return error;
}

int tree_remove(struct export *export, const char *name, char *mark, struct tree_count *count)
{
	struct walk walk = {.export = export, .count = count, .mark = mark};

	return walk_through(&walk, name);
}
