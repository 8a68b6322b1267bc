/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4_template.h - the compounds that move a file's data, encoded once: SEQUENCE, PUTFH, and READ,
 * WRITE or COMMIT (RFC 8881, 18.46, 18.19, 18.22, 18.32, 18.3). A call is a copy of one, into which
 * is stored what differs from call to call.
 */
#pragma once

#include "nfs/nfs4.h"

enum { NFS4_TEMPLATE_MAX = 92 + NFS4_FHSIZE }; /* bytes of the longest, WRITE's */

struct nfs4_template {
	enum nfs4_operation operation; /* the last: NFS4_READ, NFS4_WRITE or NFS4_COMMIT */
	uint32_t length;
	uint8_t bytes[NFS4_TEMPLATE_MAX];
};

/* What differs: offset and length are in bytes; COMMIT has none of these, READ no `stable`. */
struct nfs4_range {
	uint64_t offset;
	uint32_t length, stable;
	const uint8_t *stateid; /* in place of that of the OPEN; NULL: that one */
};

/* A READ, WRITE or COMMIT of this file, by the state of this OPEN. */
void nfs4_template_make(struct nfs4_template *template, enum nfs4_operation operation,
			uint32_t minor, const struct nfs_handle *handle,
			const struct nfs4_stateid *stateid);

/* Writes a call; sequence->cache is taken as false. A WRITE's data follows. */
void nfs4_template_put(const struct nfs4_template *template, struct xdr_out *out,
		       const struct nfs4_sequence *sequence, const struct nfs4_range *range);
