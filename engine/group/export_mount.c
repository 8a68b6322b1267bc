/* SPDX-License-Identifier: GPL-2.0-only */
/* export_mount.c - the same of a kernel mount, or of any directory: by plain system calls. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "group/directory.h"
#include "group/export.h"

enum { PAGE_NAMES = 1024 };

static int open_mounted(struct export *export)
{
	return 0;
}

static void close_mounted(struct export *export)
{
}

/* --- what it offers --- */

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

static int find_facts(struct export *export, struct export_facts *facts)
{
	struct stat status;
	struct statvfs room;
	int directory = export->root.fd;
	uint64_t block;

	if (fstat(directory, &status) || fstatvfs(directory, &room))
		return export_fail(export, "attributes of", export->path->config.dir, -errno, NULL);
	block = room.f_frsize;
	*facts = (struct export_facts){
		.identity = {{status.st_dev}, status.st_ino},
		.access = access_of(directory),
		.room = {room.f_blocks * block, room.f_bfree * block, room.f_bavail * block,
			 room.f_files, room.f_ffree, room.f_favail},
	};
	return 0;
}

/* --- names --- */

static void end_list(struct export_listing *listing)
{
	if (listing->mount)
		closedir(listing->mount);
	listing->mount = NULL;
}

static int begin_list(const struct export_dir *dir, struct export_listing *listing)
{
	int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	listing->mount = fdopendir(fd);
	if (listing->mount)
		return 0;
	close(fd);
	return -ENOMEM;
}

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

static int take_names(struct export_listing *listing, struct export_items *items)
{
	char *at = items->names;
	const struct dirent *entry;

	errno = 0;
	while (items->count < PAGE_NAMES && (entry = readdir(listing->mount))) {
		if (is_dots(entry->d_name))
			continue;
		items->items[items->count++].name = at;
		at = stpcpy(at, entry->d_name) + 1;
	}
	listing->end = items->count < PAGE_NAMES;
	return listing->end ? -errno : 0;
}

static int list_mounted(struct export *export, const struct export_dir *dir,
			struct export_listing *listing, struct export_items *items)
{
	int error = listing->mount ? 0 : begin_list(dir, listing);

	items->items = calloc(PAGE_NAMES, sizeof(*items->items));
	items->names = malloc(PAGE_NAMES * (EXPORT_NAME_MAX + 1));
	if (!items->items || !items->names)
		error = -ENOMEM;
	else if (listing->mount)
		error = take_names(listing, items);
	if (error)
		export_items_free(items);
	return error ? export_fail(export, "list", "the directory", error, NULL) : 0;
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

static int look_mounted(struct export *export, const struct export_dir *dir,
			struct export_item *items, uint32_t count)
{
	struct stat status;

	for (uint32_t i = 0; i < count; i++) {
		struct export_item *item = &items[i];

		if (export->path->job.stop())
			return -EINTR;
		item->error =
			fstatat(dir->fd, item->name, &status, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
		if (item->error)
			continue;
		item->kind = (struct meta_kind){type_of(status.st_mode), (uint64_t)status.st_size};
		item->identity = (struct meta_identity){{status.st_dev}, status.st_ino};
	}
	return 0;
}

/* --- changes --- */

static int remove_mounted(struct export *export, const struct export_dir *dir,
			  struct export_item *items, uint32_t count, bool directories)
{
	for (uint32_t i = 0; i < count; i++) {
		struct export_item *item = &items[i];

		if (export->path->job.stop())
			return -EINTR;
		if (item->error || directories != (item->kind.type == META_TYPE_DIRECTORY))
			continue;
		if (unlinkat(dir->fd, item->name, directories ? AT_REMOVEDIR : 0))
			item->error = -errno;
	}
	return 0;
}

static int make_mounted(struct export *export, const struct export_dir *dir, const char *name)
{
	return mkdirat(dir->fd, name, DIRECTORY_MODE)
		       ? export_fail(export, "make directory", name, -errno, NULL)
		       : 0;
}

static int enter_mounted(struct export *export, const struct export_dir *dir,
			 const struct export_item *item, struct export_dir *child)
{
	enum { INTO = O_PATH | O_DIRECTORY | O_NOFOLLOW };

	child->fd = directory_open_file(dir->fd, item->name, INTO);
	return child->fd < 0 ? export_fail(export, "open directory", item->name, child->fd, NULL)
			     : 0;
}

static void leave_mounted(struct export_dir *dir)
{
	close(dir->fd);
}

const struct export_ops export_mount = {
	.open = open_mounted,
	.close = close_mounted,
	.facts = find_facts,
	.list = list_mounted,
	.list_end = end_list,
	.look = look_mounted,
	.remove = remove_mounted,
	.make = make_mounted,
	.enter = enter_mounted,
	.leave = leave_mounted,
};
