/* SPDX-License-Identifier: GPL-2.0-only */
/* path_config.h - what a pool says of a path, and what its user says of all, in the terms of
 * path.h.
 */
#pragma once

#include "group/path.h"
#include "pool/pool.h"

typedef void path_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* `path` has its address. 0, or a negative errno with the reason logged and nothing to free. */
int path_config_make(struct path_config *config, const struct pool_path *path,
		     const struct terms *job, path_log *log);

/*
 * Refuses options of TLS or Kerberos that no path uses, or not the path that they are given for: it
 * would go without that security unawares; and those of TCP in clear alone on other paths. 0, or
 * a negative errno, logged.
 */
int path_config_check(const struct terms *job, const struct pool *pool, path_log *log);
