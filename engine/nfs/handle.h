/* SPDX-License-Identifier: GPL-2.0-only */
/* handle.h - a file handle of NFSv3 (RFC 1813, 2.4) or NFSv4 (RFC 8881, 3.1). */
#pragma once

#include <stdint.h>

/* Bytes at most. */
#define NFS3_FHSIZE 64
#define NFS4_FHSIZE 128

struct nfs_handle {
	uint32_t length; /* 0: none; in NFSv4 the root of the server's pseudo file system */
	uint8_t bytes[NFS4_FHSIZE];
};
