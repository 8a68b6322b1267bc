/* SPDX-License-Identifier: GPL-2.0-only */
/* names3.h - NFSv3's name space: LOOKUP, CREATE, MKDIR, REMOVE, GETATTR and FSINFO. What waits for
 * the server does so as names.h says. */
#pragma once

#include "nfs/handle.h"
#include "nfs/names.h"

extern const struct names_ops names_nfs3;

/* struct nfs_version's; without `make` it finds files as well. */
int names3_open_directory(struct names *names, const char *name, bool make,
			  struct nfs_handle *found);

/* struct nfs_version's: FSINFO's rtmax and wtmax, asked for by a file's handle (RFC 1813, 3.3.19).
 */
int names3_limits(struct names *names, const void *file, uint32_t *read_max, uint32_t *write_max);
