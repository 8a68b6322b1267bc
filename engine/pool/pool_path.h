/* SPDX-License-Identifier: GPL-2.0-only */
/* pool_path.h - what a struct pool_path owns. */
#pragma once

#include "pool.h"

/* Each returns 0 or -ENOMEM; on failure nothing is left to free but what was there before. */
int path_copy(const struct pool_path *from, struct pool_path *to);
int path_set_label(struct pool_path *path, const char *host); /* `host` is shown for an NFS path */
int pool_append(struct pool *pool, const struct pool_path *path); /* owns what `path` owned */

void path_free(struct pool_path *path);
