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

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

/* The next names, one behind the other, and how many bytes they take. */
static int read_names(DIR *stream, struct export_items *items, size_t *bytes)
{
	char *at = items->names;
	const struct dirent *entry;

	errno = 0;
	while (items->count < PAGE_NAMES && (entry = readdir(stream))) {
		if (is_dots(entry->d_name))
			continue;
		items->count++;
		at = stpcpy(at, entry->d_name) + 1;
	}
	*bytes = (size_t)(at - items->names);
	return items->count < PAGE_NAMES ? -errno : 0;
}

/* Opened for each page: what goes down a deep tree holds no descriptor of a listing. */
static int take_names(const struct export_dir *dir, struct export_listing *listing,
		      struct export_items *items)
{
	int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), error;
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	size_t bytes;

	if (!stream) {
		error = -errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	if (listing->mount)
		seekdir(stream, listing->mount);
	error = read_names(stream, items, &bytes);
	listing->mount = telldir(stream);
	listing->end = items->count < PAGE_NAMES;
	closedir(stream);
	items->names = realloc(items->names, bytes ?: 1) ?: items->names; /* it shrinks */
	return error;
}

static int list_mounted(struct export *export, const struct export_dir *dir,
			struct export_listing *listing, struct export_items *items)
{
	char *at;
	int error = -ENOMEM;

	items->names = malloc(PAGE_NAMES * (EXPORT_NAME_MAX + 1));
	if (items->names)
		error = take_names(dir, listing, items);
	items->items = calloc(items->count ?: 1, sizeof(*items->items));
	if (!items->items)
		error = -ENOMEM;
	at = items->names;
	for (uint32_t i = 0; !error && i < items->count; i++, at += strlen(at) + 1)
		items->items[i].name = at;
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
			 const struct export_item *item, bool across, struct export_dir *child)
{
	child->fd = directory_enter(dir->fd, item->name, across);
	if (child->fd >= 0 || child->fd == -EXDEV)
		return min_of(child->fd, 0);
	return export_fail(export, "open directory", item->name, child->fd, NULL);
}

static void leave_mounted(struct export_dir *dir)
{
	if (dir->fd >= 0)
		close(dir->fd);
	dir->fd = -1;
}

/* What has been moved has another directory above it: nothing goes on there. */
static int back_mounted(struct export *export, const struct export_dir *child,
			const struct meta_identity *identity, struct export_dir *dir)
{
	struct stat status;
	int error;

	if (dir->fd >= 0)
		return 0;
	dir->fd = openat(child->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir->fd < 0 || fstat(dir->fd, &status))
		error = -errno;
	else
		error = status.st_dev == identity->fsid[0] && status.st_ino == identity->fileid
				? 0
				: -ESTALE;
	return error ? export_fail(export, "go back to", "the directory above", error, NULL) : 0;
}

const struct export_ops export_mount = {
	.open = open_mounted,
	.close = close_mounted,
	.facts = find_facts,
	.list = list_mounted,
	.look = look_mounted,
	.remove = remove_mounted,
	.make = make_mounted,
	.enter = enter_mounted,
	.leave = leave_mounted,
	.back = back_mounted,
};
