/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * names.h - which mount a file lies in.
 */
#ifndef NFSMULTI_NAMES_H
#define NFSMULTI_NAMES_H

#include "pool.h"

/*
 * The rest of `file` inside the pool's longest mount that holds it, by whole components ("" where
 * `file` is the mount itself). NULL where none does.
 */
const char *names_below_mount(const struct pool *pool, const char *file);

#endif
