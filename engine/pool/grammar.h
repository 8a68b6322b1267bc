/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * grammar.h - what the files of this folder share beside pool.h: the parts of a pool's text (list,
 * host, arguments), the strings of a path, and the mount that a file lies in.
 *
 * Each function that reads leaves the scanner behind what it read, and returns 0, or -EINVAL or
 * -ENOMEM with the scanner's error filled.
 */
#pragma once

#include "scanner.h"
#include "pool.h"

/* path { "," path }, to the scanner's end. *pool is empty on failure. */
int list_read(struct scanner *list, struct pool *pool);

/* A host: `before`, then, where it has a range, each number from `first` to `last`, and `after`. */
struct host {
	struct span before, after;
	bool ranged;
	uint32_t first, last;
	int digits; /* the number's least width: that of `first` as written */
};

/* Stops behind the host: at ':' or the scanner's end. */
int host_read(struct scanner *authority, struct host *host);
unsigned int host_count(const struct host *host); /* saturates above POOL_PATHS_MAX */
/* The host with number first + index, for the caller to free. */
int host_name(const struct scanner *scanner, const struct host *host, unsigned int index,
	      char **name);

/* An IPv4 address, or an IPv6 address that may end in %zone. */
bool address_is_valid(struct span address);

/* arg { "&" arg }: stops at ',' or the scanner's end. */
int arguments_read(struct scanner *list, struct pool_path *path);

/* Refuses ".." as a component of `name`, which is `what`: "a file name". */
int check_components(struct scanner name, const char *what);

/* 0 or -ENOMEM; on failure there is nothing to free but what was there before. */
int path_copy(const struct pool_path *from, struct pool_path *to);
int path_set_label(struct pool_path *path, const char *host); /* `host` is shown for an NFS path */
int pool_append(struct pool *pool, const struct pool_path *path); /* takes over path's strings */
void path_free(struct pool_path *path);

/*
 * The rest of `file` below the pool's longest mount that holds it, by whole components ("" where
 * `file` is the mount itself). NULL: no mount holds it.
 */
const char *pool_below_mount(const struct pool *pool, const char *file);
