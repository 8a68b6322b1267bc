/* SPDX-License-Identifier: GPL-2.0-only */
/* mount3.h - MNT of the MOUNT protocol, version 3 (RFC 1813, 5.2.1), over TCP by libnfs. */
#ifndef NFSMULTI_MOUNT3_H
#define NFSMULTI_MOUNT3_H

#include "nfs/names.h"

/*
 * Asks for the handle of config->export. Waits as names.h says; 0 or a negative errno, with the
 * reason in `why`. MOUNT's port is all that it connects to, besides rpcbind where that has to tell.
 */
int mount3_root(const struct names_config *config, struct nfs3_handle *root, char *why,
		size_t why_size);

#endif
