/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * export.h - what there is on a path: its limits and its room, and directories with what lies in
 * them, whoever has made that. NFS from user space is asked as nfs/names.h says, a kernel mount by
 * system calls (export_mount.h).
 *
 * All functions wait: for a server until its answer, path_job's stop(), or as long as one operation
 * on names may take without any answer. They return 0 or a negative errno; the words for it are in
 * export->error. No symbolic link is followed, and nothing leads out of the path.
 */
#pragma once

#include "group/path.h"
#include "nfs/names.h"

/* A directory. A mount has a descriptor for it, else -1; NFS a handle. */
struct export_dir {
	struct nfs_handle handle;
	int fd;
};

struct export_items {
	struct names_item *items;
	uint32_t count;
	char *names; /* the memory of theirs */
};

struct export_facts {
	struct meta_limits limits; /* 0: it has none */
	struct meta_identity identity;
	uint32_t access; /* of enum meta_access; what is not told of it and of `room` is untold */
	struct meta_room room;
};

/* How far the listing of a directory has come; of zeros: at its beginning. It holds nothing. */
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

/* There is nothing to close. */
void export_open(struct export *export, struct path *path);

/* Whether its connection comes from a port below 1024; false for a mount. */
bool export_reserved_port(const struct export *export);

int export_find_facts(struct export *export, struct export_facts *facts);

/* Puts `error` into words: what, of which name, and why. Returns error. */
int export_fail(struct export *export, const char *what, const char *name, int error,
		const char *status);

/* --- directories --- */

/* The next names of a directory, without "." and "..": some, or listing->end. `items`, which
 * begins with zeros, is the caller's then, for export_items_free(). */
int export_list(struct export *export, const struct export_dir *dir, struct export_listing *listing,
		struct export_items *items);
void export_items_free(struct export_items *items);

/* Finds what each item is, also where others fail: items[i].error. */
int export_look(struct export *export, const struct export_dir *dir, struct names_item *items,
		uint32_t count);

/* Removes those of the items that have no error and are, or are no, directories. */
int export_remove(struct export *export, const struct export_dir *dir, struct names_item *items,
		  uint32_t count, bool directories);

/* A new directory; -EEXIST where its name is taken. */
int export_make(struct export *export, const struct export_dir *dir, char *name);

/* The directory that an item is, which was looked up; to be left. Only `across` mounts, else
 * -EXDEV, without words; an item's identity tells another file system. */
int export_enter(struct export *export, const struct export_dir *dir, const struct names_item *item,
		 bool across, struct export_dir *child);
/* From `child` back to `dir`, which may have been left and is `identity`. */
int export_back(struct export *export, const struct export_dir *child,
		const struct meta_identity *identity, struct export_dir *dir);
/* Lets a descriptor go. */
void export_leave(struct export_dir *dir);

/* --- by name: export_tree.c. Components are neither empty, "." nor ".." --- */

enum { TREE_UNMARKED = 1 };

struct tree_count {
	uint64_t entries;
	uint64_t bytes; /* of regular files */
};

/* False: `name` is none that may be removed. */
bool tree_name_is_sound(const char *name);

/* Finds what `name` is: -ENOENT (without words), or where something above it is no directory. */
int tree_find(struct export *export, const char *name, struct names_item *found);

/* Makes directory `name`, in one that is there; -EEXIST: there is something already. */
int tree_make(struct export *export, const char *name);

/* Calls `each` for all that lies in directory `name`; "" is the export's root. */
int tree_list(struct export *export, const char *name, void (*each)(const struct names_item *item));

/* Counts what lies below directory `name`. */
int tree_usage(struct export *export, const char *name, struct tree_count *count);

/*
 * Removes directory `name` and all below it; counts what was removed, `name` as well.
 *
 * With a `mark` only where `name` holds a directory of that name, which goes last, with `name`
 * itself: TREE_UNMARKED (without words) where it holds none, and nothing is removed. "": only where
 * `name` is empty. NULL: whatever it holds, and whoever has made it.
 */
int tree_remove(struct export *export, const char *name, char *mark, struct tree_count *count);
