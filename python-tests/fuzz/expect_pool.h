/* SPDX-License-Identifier: GPL-2.0-only */
/* expect_pool.h - what holds for each pool that was read from `text`, or found in it (pool.h). */
#ifndef NFSMULTI_FUZZ_EXPECT_POOL_H
#define NFSMULTI_FUZZ_EXPECT_POOL_H

#include <string.h>

#include "fuzz.h"
#include "pool/pool.h"

static inline void expect_pool(const struct pool *pool, const char *text)
{
	expect(pool->count && pool->count <= POOL_PATHS_MAX);
	for (unsigned int i = 0; i < pool->count; i++) {
		const struct pool_path *path = &pool->paths[i];

		expect(path->label && *path->label);
		expect(path->kind == PATH_MOUNT ? *path->dir == '/' : *path->export == '/');
		expect(!path->dir == (path->kind != PATH_MOUNT) && !path->host == !path->export);
		expect(!path->host == (path->kind == PATH_MOUNT));
		expect(path->column >= 1 && path->column <= strlen(text));
	}
}

#endif
