/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * names_walk.h - from the export to a name in it, one directory after the other. No symbolic link
 * is followed. 0 or a negative errno, with names->error set.
 */
#pragma once

#include "nfs/names_client.h"

/* Goes from the directory *at to `name` in it; with `make` a directory that is missing is made. */
typedef int names_descend(struct names *names, struct nfs_handle *at, const char *name, bool make);

/*
 * Descends from *at all components of `path` but the last, which is *last, in names->room: NULL
 * where it has none; after an error the one that failed.
 */
int names_walk(struct names *names, names_descend *descend, struct nfs_handle *at, const char *path,
	       bool make, char **last);

/* The same, and the last one too; without any it stays where it is. */
int names_walk_all(struct names *names, names_descend *descend, struct nfs_handle *at,
		   const char *path, bool make, char **last);

/* From the export to the directory that holds `name`, and its name there. -EINVAL: it has none. */
int names_find(struct names *names, names_descend *descend, const char *name, bool make,
	       struct nfs_handle *directory, const char **last);

/* -EISDIR or -EINVAL for what is no regular file: its ftype3 or nfs_ftype4. */
int names_check_file(struct names *names, uint32_t type);
