/* SPDX-License-Identifier: GPL-2.0-only */
/* below_mount.h - which mount a file lies in. */
#pragma once

#include "pool.h"

/*
 * The rest of `file` inside the pool's longest mount that holds it, by whole components ("" where
 * `file` is the mount itself). NULL where none does.
 */
const char *pool_below_mount(const struct pool *pool, const char *file);
