/* SPDX-License-Identifier: GPL-2.0-only */
/* names4.h - NFSv4.1's name space, over a session of the path's client: no MOUNT, no rpcbind. What
 * waits for the server does so as names.h says. */
#pragma once

#include "nfs/entries.h"
#include "nfs/names.h"

extern const struct names_ops names_nfs4;

/* struct nfs_version's. */
int names4_open_directory(struct names *names, const char *name, bool make,
			  struct nfs_handle *found);

/* struct nfs_version's, for a struct nfs4_file. */
int names4_open_file(struct names *names, uint32_t number, const char *name, bool writes,
		     void **file);
void names4_close_file(struct names *names, void *file);
int names4_limits(struct names *names, const void *file, uint32_t *read_max, uint32_t *write_max);
