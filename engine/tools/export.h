/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * export.h - a path's limits and space, and its directories with all entries, whoever made them.
 * Uses nfs/names.h for NFS from user space, and system calls for a kernel mount (mount_…() below).
 *
 * All functions wait for the server: until it answers, until path_job's stop(), or, if it does not
 * answer, as long as one operation on names may take. They return 0 or a negative errno, with words
 * in export->error. No symbolic link is followed, and nothing leads out of the path.
 */
#pragma once

#include <string.h>

#include "group/path.h"
#include "nfs/names.h"

/* A directory: over NFS its handle, on a mount its descriptor (else -1). */
struct export_dir {
	struct nfs_handle handle;
	int fd;
};

struct export_items {
	struct names_item *items;
	uint32_t count;
	char *names; /* the memory of the items' names */
};

struct export_facts {
	struct meta_limits limits; /* 0: no such limit */
	uint32_t access;	   /* of enum meta_access; META_ACCESS_UNTOLD: not returned */
	struct meta_room room;	   /* META_UNTOLD: not returned */
};

/* The position of a directory's listing; all 0 at the beginning. Needs no freeing. */
struct export_listing {
	struct listing nfs;
	long mount; /* telldir(3) */
	bool end;
};

struct export
{
	struct path *path; /* stays the caller's, and open */
	struct export_dir root;
	char error[512];
};

/* Needs no closing. */
void export_open(struct export *export, struct path *path);

int export_find_facts(struct export *export, struct export_facts *facts);

/* Sets export->error to what failed, for which name, and why. Returns `error`. */
int export_fail(struct export *export, const char *what, const char *name, int error,
		const char *status);

/* True for "." and "..", which listings leave out, and names must not contain. */
static inline bool is_dots(const char *name, size_t length)
{
	return length && length <= 2 && !memcmp(name, "..", length);
}

/* Lists the next names of a directory, without "." and ".."; listing->end: these are the last.
 * `items` begins with zeros; the caller frees them by export_items_free(). */
int export_list(struct export *export, const struct export_dir *dir, struct export_listing *listing,
		struct export_items *items);
void export_items_free(struct export_items *items);

/* Finds what each item is. An item that fails has its `error`; the others go on. */
int export_look(struct export *export, const struct export_dir *dir, struct names_item *items,
		uint32_t count);

/* Removes the items that have no error: the directories, or, without `directories`, the others. */
int export_remove(struct export *export, const struct export_dir *dir, struct names_item *items,
		  uint32_t count, bool directories);

/* Makes a directory; -EEXIST where its name is taken. */
int export_make(struct export *export, const struct export_dir *dir, char *name);

/* Opens `item`, a directory that export_look() has found; export_leave() closes it. A mount point
 * gives -EXDEV, without words, unless `across`; over NFS it is no error: see item->identity. */
int export_enter(struct export *export, const struct export_dir *dir, const struct names_item *item,
		 bool across, struct export_dir *child);
/* Goes from `child` up to `dir`, which has `identity`, and opens `dir` again if it was closed. */
int export_back(struct export *export, const struct export_dir *child,
		const struct meta_identity *identity, struct export_dir *dir);
/* Closes a descriptor, unless it is the root's. */
void export_leave(const struct export *export, struct export_dir *dir);

/* --- a kernel mount, or any directory, by plain system calls: export_mount.c. 0 or -errno --- */

int mount_find_facts(int directory, struct export_facts *facts);

/* export_list() of a mount. */
int mount_list(int directory, struct export_listing *listing, struct export_items *items);

/* LOOKUP, MKDIR, REMOVE and RMDIR. -EINTR: stop() was true; other errors are in the items. */
int mount_run(int directory, const struct names_batch *batch, bool (*stop)(void));

/* The directory above `child`; -ESTALE where it is not `identity` any more. */
int mount_back(int child, const struct meta_identity *identity, int *directory);

/* --- by name: export_tree.c. Components are neither empty, "." nor ".." --- */

enum { TREE_UNMARKED = 1 };

struct tree_count {
	uint64_t entries;
	uint64_t bytes; /* of regular files */
};

/* False: `name` is too long, or a component is empty, too long, "." or "..". */
bool tree_name_is_sound(const char *name);

/* Finds what `name` is. -ENOENT: `name` (without words) or a directory above it is missing. */
int tree_find(struct export *export, const char *name, struct names_item *found);

/* Makes directory `name` in a directory that exists; -EEXIST: `name` is taken. */
int tree_make(struct export *export, const char *name);

/* Calls `each` for all that lies in directory `name`; "" is the export's root. */
int tree_list(struct export *export, const char *name, void (*each)(const struct names_item *item));

/*
 * Removes directory `name` and all below it; counts what was removed, `name` as well.
 *
 * With a `mark`, `name` must have a directory called `mark`, which is removed last, just before
 * `name`; if it has none, removes nothing, and returns TREE_UNMARKED (without words). With "",
 * `name` must be empty. With NULL, removes everything in `name`, whoever made it.
 */
int tree_remove(struct export *export, const char *name, char *mark, struct tree_count *count);
