/* SPDX-License-Identifier: GPL-2.0-only */
#include "export.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum { PAGE_NAMES = 1024, NAME_BYTES = 256 };

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

int mount_find_facts(int directory, struct export_facts *facts)
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

/* Reads the next names into items->names, one after the other; *bytes: their size. */
static int read_names(DIR *stream, struct export_items *items, size_t *bytes)
{
	char *at = items->names;
	const struct dirent *entry;

	errno = 0;
	while (items->count < PAGE_NAMES && (entry = readdir(stream))) {
		if (is_dots(entry->d_name, strlen(entry->d_name)))
			continue;
		items->count++;
		at = stpcpy(at, entry->d_name) + 1;
	}
	*bytes = (size_t)(at - items->names);
	return items->count < PAGE_NAMES ? -errno : 0;
}

/* Opens the directory for each page: else listings of a deep tree would hold many descriptors. */
static int take_names(int directory, struct export_listing *listing, struct export_items *items)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), error;
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
	items->names = realloc(items->names, bytes ?: 1) ?: items->names; /* smaller */
	return error;
}

int mount_list(int directory, struct export_listing *listing, struct export_items *items)
{
	char *at;
	int error = -ENOMEM;

	items->names = malloc(PAGE_NAMES * NAME_BYTES);
	if (items->names)
		error = take_names(directory, listing, items);
	items->items = calloc(items->count ?: 1, sizeof(*items->items));
	if (!items->items)
		error = -ENOMEM;
	at = items->names;
	for (uint32_t i = 0; !error && i < items->count; i++, at += strlen(at) + 1)
		items->items[i].name = at;
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

int mount_run(int directory, const struct names_batch *batch, bool (*stop)(void))
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

/* -ESTALE: the child was moved meanwhile, so that the directory above it is not `identity`. */
int mount_back(int child, const struct meta_identity *identity, int *directory)
{
	struct stat status;

	*directory = openat(child, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*directory < 0 || fstat(*directory, &status))
		return -errno;
	return status.st_dev == identity->fsid[0] && status.st_ino == identity->fileid ? 0
										       : -ESTALE;
}
