/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * export_tree.h - directories of an export by their names, and all that lies below one.
 *
 * Names are relative to the export, of components that are neither empty, "." nor "..". Functions
 * return 0 or a negative errno; export->error has the words.
 */
#pragma once

#include "group/export.h"

enum { TREE_UNMARKED = 1 };

struct tree_count {
	uint64_t entries;
	uint64_t bytes; /* of regular files */
};

/* False: `name` is none that may be removed. */
bool tree_name_is_sound(const char *name);

/* Finds what `name` is: -ENOENT (without words), or where something above it is no directory. */
int tree_find(struct export *export, const char *name, struct export_item *found);

/* Makes directory `name`, in one that is there; -EEXIST: there is something already. */
int tree_make(struct export *export, const char *name);

/* Calls `each` for all that lies in directory `name`; "" is the export's root. */
int tree_list(struct export *export, const char *name,
	      void (*each)(const struct export_item *item));

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
