/* SPDX-License-Identifier: GPL-2.0-only */
/* path_config.h - what a pool says of a path, and what its user says of all, in the terms of
 * path.h.
 */
#pragma once

#include "group/path.h"
#include "pool/pool.h"

struct path_terms {
	struct path_args
		args; /* where a path names none of its own; `set` and `family` count not */
	/* path_config's: */
	enum tls_ktls ktls;
	bool stateless;
	bool trunks;
	bool stamps;   /* replies are to have the kernel's stamps */
	bool discards; /* data of READs need not be moved */
	void (*log)(const char *format, ...) __attribute__((format(printf, 1, 2)));
};

/* `path` has its address. 0, or a negative errno with the reason logged and nothing to free. */
int path_config_make(struct path_config *config, const struct pool_path *path,
		     const struct path_terms *terms);

/*
 * Refuses options of TLS or Kerberos that no path uses, or not the path that they are given for: it
 * would go without that security unawares; stamps of paths that have none; and `discards` on paths
 * whose data must be moved. 0, or a negative errno, logged.
 */
int path_config_check(const struct path_terms *terms, const struct pool *pool);
