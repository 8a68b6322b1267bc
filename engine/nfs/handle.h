/* SPDX-License-Identifier: GPL-2.0-only */
/* handle.h - an NFSv3 file handle (RFC 1813, 2.4), apart from the codec because names.c needs it
 * alone. */
#ifndef NFSMULTI_NFS_HANDLE_H
#define NFSMULTI_NFS_HANDLE_H

#include <stdint.h>

#define NFS3_FHSIZE 64

struct nfs3_handle {
	uint32_t length; /* 0: no handle */
	uint8_t bytes[NFS3_FHSIZE];
};

#endif
