/* SPDX-License-Identifier: GPL-2.0-only */
/* export_mount.h - what export.c asks of a kernel mount, or of any directory: by plain system
 * calls. 0 or a negative errno. */
#pragma once

#include "export.h"

int mount_find_facts(int directory, struct export_facts *facts);

/* As export_list() has it. */
int mount_list(int directory, struct export_listing *listing, struct export_items *items);

/* LOOKUP, MKDIR, REMOVE and RMDIR. -EINTR is stop()'s; other errors are the items'. */
int mount_run(int directory, const struct names_batch *batch, bool (*stop)(void));

/* The directory above `child`; -ESTALE where it is not `identity` any more. */
int mount_back(int child, const struct meta_identity *identity, int *directory);
