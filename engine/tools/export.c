/* SPDX-License-Identifier: GPL-2.0-only */
#include "export.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "nfs/meta_call.h"

/* Items with names of their own, for export_items_free(). All zeros: none. */
struct export_items {
	struct names_item *items;
	uint32_t count;
};

/* The position of a directory's listing; all 0 at the beginning. Needs no freeing. */
struct export_listing {
	struct listing nfs;
	long mount; /* telldir(3) */
	bool end;
};

/* True for "." and "..", which listings leave out, and names must not contain. */
static bool is_dots(const char *name, size_t length)
{
	return length && length <= 2 && !memcmp(name, "..", length);
}

static void export_items_free(struct export_items *items)
{
	while (items->count)
		free(items->items[--items->count].name);
	free(items->items);
	items->items = NULL;
}

/* Adds an item with a copy of the name, unless it is "." or "..". 0 or -ENOMEM. */
static int add_name(struct export_items *items, const char *name, size_t length)
{
	struct names_item *grown, item = {0};

	if (is_dots(name, length))
		return 0;
	grown = reallocarray(items->items, items->count + 1, sizeof(item));
	if (!grown)
		return -ENOMEM;
	items->items = grown;
	item.name = strndup(name, length);
	grown[items->count++] = item;
	return item.name ? 0 : -ENOMEM;
}

/* --- a kernel mount, or any directory, by plain system calls. 0 or -errno --- */

enum { PAGE_NAMES = 1024 };

static uint32_t access_of(int directory)
{
	uint32_t found = 0;

	if (!faccessat(directory, ".", R_OK, AT_EACCESS))
		found |= META_ACCESS_READ;
	if (!faccessat(directory, ".", X_OK, AT_EACCESS))
		found |= META_ACCESS_LOOKUP;
	if (!faccessat(directory, ".", W_OK | X_OK, AT_EACCESS))
		found |= META_ACCESS_MODIFY | META_ACCESS_EXTEND | META_ACCESS_DELETE;
	return found;
}

static int mount_find_facts(int directory, struct export_facts *facts)
{
	struct statvfs room;
	uint64_t block;

	if (fstatvfs(directory, &room))
		return -errno;
	block = room.f_frsize;
	facts->access = access_of(directory);
	facts->room = (struct meta_room){
		room.f_blocks * block, room.f_bfree * block, room.f_bavail * block,
		room.f_files,	       room.f_ffree,	     room.f_favail,
	};
	return 0;
}

/* Adds the next names. Opens the directory for each page: else listings of a deep tree would hold
 * many descriptors. */
static int mount_list(int directory, struct export_listing *listing, struct export_items *items)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), error;
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!stream) {
		error = -errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	if (listing->mount)
		seekdir(stream, listing->mount);
	do {
		errno = 0;
		entry = readdir(stream);
		error = entry ? add_name(items, entry->d_name, strlen(entry->d_name)) : -errno;
	} while (entry && !error && items->count < PAGE_NAMES);
	listing->mount = telldir(stream);
	listing->end = !entry;
	closedir(stream);
	return error;
}

static uint32_t type_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG: return META_TYPE_FILE;
	case S_IFDIR: return META_TYPE_DIRECTORY;
	case S_IFLNK: return META_TYPE_SYMLINK;
	default: return META_TYPE_OTHER;
	}
}

static int look(int directory, struct names_item *item)
{
	struct stat status;

	if (fstatat(directory, item->name, &status, AT_SYMLINK_NOFOLLOW))
		return -errno;
	item->kind = (struct meta_kind){type_of(status.st_mode), (uint64_t)status.st_size};
	item->identity = (struct meta_identity){{status.st_dev}, status.st_ino};
	return 0;
}

static int work(int directory, enum meta_op op, struct names_item *item)
{
	switch (op) {
	case META_LOOKUP: return look(directory, item);
	case META_MKDIR: return mkdirat(directory, item->name, DIRECTORY_MODE) ? -errno : 0;
	case META_REMOVE: return unlinkat(directory, item->name, 0) ? -errno : 0;
	case META_RMDIR: return unlinkat(directory, item->name, AT_REMOVEDIR) ? -errno : 0;
	default: return -EOPNOTSUPP;
	}
}

/* LOOKUP, MKDIR, REMOVE and RMDIR. -EINTR: stop() was true; other errors are in the items. */
static int mount_run(int directory, const struct names_batch *batch, bool (*stop)(void))
{
	for (uint32_t i = 0; i < batch->count; i++) {
		struct names_item *item = &batch->items[i];

		if (stop())
			return -EINTR;
		if (!batch->wants || batch->wants(item))
			item->error = work(directory, batch->op, item);
	}
	return 0;
}

/* --- over NFS, or of a mount --- */

void export_open(struct export *export, struct path *path)
{
	*export = (struct export){.path = path, .root.fd = path->directory};
	if (path->names)
		export->root.handle = path->names->export;
}

/* Sets export->error to what failed, for which name, and why. Returns `error`. */
static int export_fail(struct export *export, const char *what, const char *name, int error,
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

/* Collects a page of a listing. */
struct page_taker {
	struct export_items *items;
	struct export_listing *listing;
	const char *stuck; /* why the listing cannot go on; NULL: it can */
	int error;
};

static void take_reply(struct meta_request *request, const struct readdir_page *page)
{
	struct page_taker *taker = (struct page_taker *)request->arguments.owner;
	struct export_listing *listing = taker->listing;
	struct xdr_in in = {page->entries, page->end, false};
	struct readdir_entry entry;

	export_items_free(taker->items); /* those of an earlier reply, refused after it was read */
	taker->error = 0;
	while (!taker->error && readdir_next(&in, page, &entry))
		taker->error = add_name(taker->items, entry.name, entry.length);
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
		.listed = take_reply,
		.context = &taker,
	};
	int error = run(export, dir, &batch);

	if (error)
		return error;
	error = item.error ?: taker.error ?: taker.stuck ? -EPROTO : 0;
	return error ? export_fail(export, "list", "the directory", error,
				   item.error ? item.status : taker.stuck)
		     : 0;
}

/* NFSv3's LOOKUP need not tell the type (RFC 1813, 3.3.3). */
static bool lacks_kind(const struct names_item *item)
{
	return !item->error && !item->kind.type && item->handle.length;
}

/* Finds what each item is. An item that fails has its `error`; the others go on. */
static int export_look(struct export *export, const struct export_dir *dir,
		       struct names_item *items, uint32_t count)
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

/* Removes the items that have no error, directories last. */
static int export_remove(struct export *export, const struct export_dir *dir,
			 struct names_item *items, uint32_t count)
{
	struct names_batch others = {
		.op = META_REMOVE, .items = items, .count = count, .wants = is_other};
	struct names_batch directories = {
		.op = META_RMDIR, .items = items, .count = count, .wants = is_directory};

	return run(export, dir, &others) ?: run(export, dir, &directories);
}

/* Opens `item`, a directory that export_look() has found; export_leave() closes it. A mount point
 * gives -EXDEV, without words, unless `across`; over NFS it is no error: see item->identity. */
static int export_enter(struct export *export, const struct export_dir *dir,
			const struct names_item *item, bool across, struct export_dir *child)
{
	*child = (struct export_dir){.handle = item->handle, .fd = -1};
	if (!is_mount(export))
		return 0;
	child->fd = directory_enter(dir->fd, item->name, across);
	if (child->fd >= 0 || child->fd == -EXDEV)
		return min_of(child->fd, 0);
	return export_fail(export, "open directory", item->name, child->fd, NULL);
}

/* Goes from `child` up to `dir`, which has `identity`, and opens `dir` again if it was closed.
 * -ESTALE: the child was moved meanwhile, so that the directory above it is not `dir`. */
static int export_back(struct export *export, const struct export_dir *child,
		       const struct meta_identity *identity, struct export_dir *dir)
{
	struct stat status;
	int error = 0;

	if (!is_mount(export) || dir->fd >= 0)
		return 0;
	dir->fd = openat(child->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir->fd < 0 || fstat(dir->fd, &status))
		error = -errno;
	else if (status.st_dev != identity->fsid[0] || status.st_ino != identity->fileid)
		error = -ESTALE;
	return error ? export_fail(export, "go back to", "the directory above", error, NULL) : 0;
}

/* Closes a descriptor, unless it is the root's. */
static void export_leave(const struct export *export, struct export_dir *dir)
{
	if (dir->fd >= 0 && dir->fd != export->root.fd)
		close(dir->fd);
	dir->fd = -1;
}

/* --- by name --- */

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

/* Opens the directory that holds the last component of `name`. *last: that component. */
static int open_parent(struct export *export, char *name, struct export_dir *dir, char **last)
{
	char *slash;
	int error = 0;

	*dir = export->root;
	for (*last = name; !error && (slash = strchr(*last, '/')); *last = slash + 1) {
		*slash = '\0';
		error = descend(export, dir, *last);
		*slash = '/';
	}
	return error;
}

int tree_find(struct export *export, char *name, struct names_item *found)
{
	char *last;
	struct export_dir dir;
	int error = open_parent(export, name, &dir, &last);

	if (error)
		return error;
	error = look_at(export, &dir, last, found);
	export_leave(export, &dir);
	if (error && error != -ENOENT)
		export_fail(export, "find", name, error, found->status);
	return error;
}

int tree_make(struct export *export, char *name)
{
	struct names_item item = {0};
	struct names_batch batch = {.op = META_MKDIR, .items = &item, .count = 1};
	struct export_dir dir;
	int error = open_parent(export, name, &dir, &item.name);

	if (error)
		return error;
	error = run(export, &dir, &batch);
	if (!error && item.error)
		error = export_fail(export, "make directory", item.name, item.error, item.status);
	export_leave(export, &dir);
	return error;
}

/* Lists the next names of a directory, without "." and "..", and finds what each is;
 * listing->end: these are the last. An item's -ENOENT: removed meanwhile. The caller frees `items`
 * by export_items_free(). */
static int next_page(struct export *export, const struct export_dir *dir,
		     struct export_listing *listing, struct export_items *items)
{
	int error;

	*items = (struct export_items){0};
	error = is_mount(export) ? mount_list(dir->fd, listing, items)
				 : ask_page(export, dir, listing, items);
	if (error && is_mount(export))
		export_fail(export, "list", "the directory", error, NULL);
	error = error ?: export_look(export, dir, items->items, items->count);
	if (error)
		export_items_free(items);
	return error;
}

int tree_list(struct export *export, char *name, void (*each)(const struct names_item *item))
{
	struct export_listing listing = {0};
	struct export_items items;
	struct export_dir dir = export->root;
	char *last;
	int error = *name ? open_parent(export, name, &dir, &last) : 0;

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
	char *gone;		  /* the last name removed from the previous page */
	struct export_items left; /* those that cannot be removed, and are not tried again */
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
	if (add_name(&level->left, item->name, strlen(item->name)))
		return -ENOMEM;
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
	for (uint32_t i = 0; i < level->left.count; i++)
		if (!strcmp(level->left.items[i].name, name))
			return true;
	return false;
}

static void pass_over(struct names_item *item)
{
	*item = (struct names_item){.name = item->name, .error = -ENOENT};
}

static int take_item(struct walk *walk, struct level *level, struct names_item *item)
{
	if (is_left(level, item->name)) {
		pass_over(item);
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
			pass_over(&items->items[i]);
	error = export_remove(walk->export, &level->dir, items->items, items->count);
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
	int error = export_remove(walk->export, &lowest(walk)->dir, &mark, 1);

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

	export_items_free(&level->left);
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
	bool stays = level->left.count;
	int error = 0;

	if (walk->mark && walk->depth == 2 && !stays) {
		error = remove_mark(walk);
		stays = level->left.count;
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
		else if (lowest(walk)->items.count)
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

int tree_remove(struct export *export, char *name, char *mark, struct tree_count *count)
{
	struct walk walk = {.export = export, .count = count, .mark = mark};
	char *last;
	struct level first = {.listing.end = true, .next = mark && !*mark};
	struct names_item item;
	int error = open_parent(export, name, &first.dir, &last);

	if (error)
		return error;
	error = look_at(export, &first.dir, last, &item);
	if (!error && item.kind.type != META_TYPE_DIRECTORY)
		error = -ENOTDIR;
	first.identity = item.identity;
	first.items = (struct export_items){.items = &item, .count = 1};
	walk.levels = malloc(sizeof(first));
	if (!error && walk.levels) {
		walk.levels[walk.depth++] = first;
		error = go_through(&walk);
	} else if (error == -ENOENT) { /* it is gone, but not its parent */
		error = 0;
	} else {
		error = export_fail(export, "remove", name, error ?: -ENOMEM, item.status);
	}
	free(walk.levels);
	export_leave(export, &first.dir);
	return error;
}
