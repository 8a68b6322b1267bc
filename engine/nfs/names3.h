/* SPDX-License-Identifier: GPL-2.0-only */
/* names3.h - NFSv3's name space: MOUNT, LOOKUP, CREATE, MKDIR, REMOVE, GETATTR and FSINFO. What
 * waits for the server does so as names.h says. */
#ifndef NFSMULTI_NAMES3_H
#define NFSMULTI_NAMES3_H

#include "nfs/handle.h"
#include "nfs/names.h"

extern const struct names_ops names_nfs3;

/* Finds a file's handle. */
int names3_lookup(struct names *names, const char *name, struct nfs3_handle *handle);

/* Finds a directory's; with `make` it and those above are made where they are missing. */
int names3_directory(struct names *names, const char *name, bool make, struct nfs3_handle *handle);

/* FSINFO's rtmax and wtmax, asked for by the handle of any object of the export (RFC 1813, 3.3.19).
 */
struct nfs3_limits {
	uint32_t read_max, write_max; /* bytes */
};
int names3_limits(struct names *names, const struct nfs3_handle *handle,
		  struct nfs3_limits *limits);

#endif
