/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * files.h - the sink's files (core/files.h), which exist in name only: a name, a kind and a size.
 * Their data is nowhere.
 *
 * Any name that is looked up exists, so that read jobs need no layout; a handle that was not made
 * here stands for a file that is there from the start, so that clients without MOUNT and LOOKUP are
 * served too. The export is the root, and "export" in the root. Safe for use by several threads.
 */
#pragma once

#include <stdint.h>

/* `size`: what a file has that was not created but looked up. */
void files_init(uint64_t size);
