/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * export.h - a path's limits and space, and its directories with all entries, whoever made them.
 * Uses nfs/names.h for NFS from user space, and system calls for a kernel mount.
 *
 * All functions wait for the server: until it answers, until path_job's stop(), or, if it does not
 * answer, as long as one operation on names may take. They return 0 or a negative errno, with words
 * in export->error. No symbolic link is followed, and nothing leads out of the path.
 */
#pragma once

#include "group/path.h"
#include "nfs/names.h"

/* A directory: over NFS its handle, on a mount its descriptor (else -1). */
struct export_dir {
	struct nfs_handle handle;
	int fd;
};

struct export_facts {
	struct meta_limits limits; /* 0: no such limit */
	uint32_t access;	   /* of enum meta_access; META_ACCESS_UNTOLD: not returned */
	struct meta_room room;	   /* META_UNTOLD: not returned */
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

/* --- by name, which is sound; it is changed during the call --- */

enum { TREE_UNMARKED = 1 };

struct tree_count {
	uint64_t entries;
	uint64_t bytes; /* of regular files */
};

/* False: `name` is too long, or a component is empty, too long, "." or "..". */
bool tree_name_is_sound(const char *name);

/* Finds what `name` is. -ENOENT: `name` (without words) or a directory above it is missing. */
int tree_find(struct export *export, char *name, struct names_item *found);

/* Makes directory `name` in a directory that exists; -EEXIST: `name` is taken. */
int tree_make(struct export *export, char *name);

/* Calls `each` for all that lies in directory `name`; "" is the export's root. */
int tree_list(struct export *export, char *name, void (*each)(const struct names_item *item));

/*
 * Removes directory `name` and all below it; counts what was removed, `name` as well.
 *
 * With a `mark`, `name` must have a directory called `mark`, which is removed last, just before
 * `name`; if it has none, removes nothing, and returns TREE_UNMARKED (without words). With "",
 * `name` must be empty. With NULL, removes everything in `name`, whoever made it.
 */
int tree_remove(struct export *export, char *name, char *mark, struct tree_count *count);
