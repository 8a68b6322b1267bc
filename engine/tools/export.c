/* SPDX-License-Identifier: GPL-2.0-only */
#include "export.h"

#include <stdlib.h>

#include "group/directory.h"
#include "nfs/meta_call.h"

void export_open(struct export *export, struct path *path)
{
	*export = (struct export){.path = path, .root.fd = path->directory};
	if (path->names)
		export->root.handle = path->names->export;
}

int export_fail(struct export *export, const char *what, const char *name, int error,
		const char *status)
{
	snprintf(export->error, sizeof(export->error), "%s \"%.100s\": %.300s%s%s%s", what, name,
		 status ?: "", status ? " (" : "", strerror(-error), status ? ")" : "");
	return error;
}

static bool is_mount(const struct export *export)
{
	return export->path->config.dir;
}

/* Each item gets its own error, unless the server did not answer. */
static int run(struct export *export, const struct export_dir *dir, struct names_batch *batch)
{
	struct names *names = export->path->names;
	int error;

	batch->directory = &dir->handle;
	error = is_mount(export) ? mount_run(dir->fd, batch, export->path->job.stop)
				 : names_run(names, batch, true);
	if (error)
		snprintf(export->error, sizeof(export->error), "%s",
			 is_mount(export) ? "interrupted" : names->error);
	return error;
}

/* False: the server gave no result. */
static bool ask_root(struct export *export, enum meta_op op, struct meta_result *found, int *error)
{
	struct names_item item = {.result = found};
	struct names_batch batch = {.op = op, .items = &item, .count = 1};

	*error = run(export, &export->root, &batch);
	if (!*error && item.error && op == META_GETATTR)
		*error = export_fail(export, "find attributes of", export->path->config.export,
				     item.error, item.status);
	return !*error && !item.error;
}

/* Limits and attributes are required; many servers do not return rights or space. */
static int ask_facts(struct export *export, struct export_facts *facts)
{
	const struct path_config *config = &export->path->config;
	struct names *names = export->path->names;
	struct meta_result found;
	int error = names_limits(names, NULL, &facts->limits);

	if (error)
		return export_fail(export, "find limits of", config->export, error, names->error);
	export->root.handle = names->export; /* which may have been found again */
	facts->limits.read_max = min_of(facts->limits.read_max, (uint64_t)config->rsize);
	facts->limits.write_max = min_of(facts->limits.write_max, (uint64_t)config->wsize);
	ask_root(export, META_GETATTR, &found, &error);
	if (!error && ask_root(export, META_ACCESS, &found, &error))
		facts->access = found.access;
	if (!error && ask_root(export, META_FSSTAT, &found, &error))
		facts->room = found.attributes.room;
	return error;
}

int export_find_facts(struct export *export, struct export_facts *facts)
{
	const struct path *path = export->path;
	int error;

	*facts = (struct export_facts){.access = META_ACCESS_UNTOLD};
	memset(&facts->room, 0xff, sizeof(facts->room)); /* META_UNTOLD, each */
	if (!is_mount(export))
		return ask_facts(export, facts);
	error = mount_find_facts(export->root.fd, facts);
	return error ? export_fail(export, "find attributes of", path->config.dir, error, NULL) : 0;
}

void export_items_free(struct export_items *items)
{
	free(items->items);
	free(items->names);
	*items = (struct export_items){0};
}

/* Collects a page of a listing. */
struct page_taker {
	struct export_items *items;
	struct export_listing *listing;
	const char *stuck; /* why the listing cannot go on; NULL: it can */
	bool failed;	   /* no memory */
};

static void take_names(struct page_taker *taker, const struct readdir_page *page)
{
	size_t bytes = (size_t)(page->end - page->entries) + page->count;
	struct export_items *items = taker->items;
	struct xdr_in in = {page->entries, page->end, false};
	struct readdir_entry entry;
	char *at;

	export_items_free(items); /* those of an earlier reply, refused after it was read */
	items->items = calloc(page->count ?: 1, sizeof(*items->items));
	items->names = at = malloc(bytes ?: 1);
	taker->failed = !items->items || !at;
	while (!taker->failed && readdir_next(&in, page, &entry)) {
		if (is_dots(entry.name, entry.length))
			continue;
		items->items[items->count++].name = at;
		at = mempcpy(at, entry.name, entry.length);
		*at++ = '\0';
	}
}

static void take_page(struct meta_request *request, const struct readdir_page *page)
{
	struct page_taker *taker = (struct page_taker *)request->arguments.owner;
	struct export_listing *listing = taker->listing;

	take_names(taker, page);
	if (page->eof)
		listing->end = true;
	else
		taker->stuck =
			listing_stuck(&listing->nfs, page->count, page->cookie, page->verifier);
}

static void fill_page(struct meta_arguments *arguments, void *context)
{
	struct page_taker *taker = context;

	arguments->listing = &taker->listing->nfs;
	arguments->bytes = READDIR_BYTES;
	arguments->owner = taker;
}

static int ask_page(struct export *export, const struct export_dir *dir,
		    struct export_listing *listing, struct export_items *items)
{
	struct page_taker taker = {.items = items, .listing = listing};
	struct names_item item = {0};
	struct names_batch batch = {
		.op = META_READDIR,
		.items = &item,
		.count = 1,
		.fill = fill_page,
		.listed = take_page,
		.context = &taker,
	};
	int error = run(export, dir, &batch);

	if (error)
		return error;
	error = item.error ?: taker.failed ? -ENOMEM : taker.stuck ? -EPROTO : 0;
	return error ? export_fail(export, "list", "the directory", error,
				   item.error ? item.status : taker.stuck)
		     : 0;
}

int export_list(struct export *export, const struct export_dir *dir, struct export_listing *listing,
		struct export_items *items)
{
	int error = is_mount(export) ? mount_list(dir->fd, listing, items)
				     : ask_page(export, dir, listing, items);

	if (error && is_mount(export))
		export_fail(export, "list", "the directory", error, NULL);
	if (error)
		export_items_free(items);
	return error;
}

/* NFSv3's LOOKUP need not tell the type (RFC 1813, 3.3.3). */
static bool lacks_kind(const struct names_item *item)
{
	return !item->error && !item->kind.type && item->handle.length;
}

int export_look(struct export *export, const struct export_dir *dir, struct names_item *items,
		uint32_t count)
{
	struct names_batch found = {.op = META_LOOKUP, .items = items, .count = count};
	struct names_batch told = {
		.op = META_GETATTR, .items = items, .count = count, .wants = lacks_kind};

	return run(export, dir, &found) ?: run(export, dir, &told);
}

static bool is_directory(const struct names_item *item)
{
	return !item->error && item->kind.type == META_TYPE_DIRECTORY;
}

static bool is_other(const struct names_item *item)
{
	return !item->error && item->kind.type && item->kind.type != META_TYPE_DIRECTORY;
}

int export_remove(struct export *export, const struct export_dir *dir, struct names_item *items,
		  uint32_t count, bool directories)
{
	struct names_batch batch = {
		.op = directories ? META_RMDIR : META_REMOVE,
		.items = items,
		.count = count,
		.wants = directories ? is_directory : is_other,
	};

	return run(export, dir, &batch);
}

int export_make(struct export *export, const struct export_dir *dir, char *name)
{
	struct names_item item = {.name = name};
	struct names_batch batch = {.op = META_MKDIR, .items = &item, .count = 1};
	int error = run(export, dir, &batch);

	return error || !item.error
		       ? error
		       : export_fail(export, "make directory", name, item.error, item.status);
}

int export_enter(struct export *export, const struct export_dir *dir, const struct names_item *item,
		 bool across, struct export_dir *child)
{
	*child = (struct export_dir){.handle = item->handle, .fd = -1};
	if (!is_mount(export))
		return 0;
	child->fd = directory_enter(dir->fd, item->name, across);
	if (child->fd >= 0 || child->fd == -EXDEV)
		return min_of(child->fd, 0);
	return export_fail(export, "open directory", item->name, child->fd, NULL);
}

int export_back(struct export *export, const struct export_dir *child,
		const struct meta_identity *identity, struct export_dir *dir)
{
	int error = 0;

	if (is_mount(export) && dir->fd < 0)
		error = mount_back(child->fd, identity, &dir->fd);
	return error ? export_fail(export, "go back to", "the directory above", error, NULL) : 0;
}

void export_leave(const struct export *export, struct export_dir *dir)
{
	if (dir->fd >= 0 && dir->fd != export->root.fd)
		close(dir->fd);
	dir->fd = -1;
}
