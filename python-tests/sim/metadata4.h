/* SPDX-License-Identifier: GPL-2.0-only */
/* metadata4.h - the simulated server's names and metadata operations of NFSv4.1 (RFC 8881, 18). */
#pragma once

#include "namespace.h"
#include "nfs/nfs4_meta.h"
#include "wire/xdr.h"

/* Handles that are no object's, but objects all the same. */
enum { HANDLE_ROOT, HANDLE_DIRECTORY, HANDLE_FILE /* the first */ };

/* Of one compound. */
struct metadata4 {
	object_t current, saved;
};

/* The number of the current file; 0 where it is none of the server's. */
uint32_t metadata4_file(const struct metadata4 *handles);

/* True where the operation is one of these. */
bool metadata4_serves(enum nfs4_operation operation);

/* Carries it out, and returns its status; results are written where that is 0. */
uint32_t metadata4_answer(enum nfs4_operation operation, struct metadata4 *handles,
			  struct xdr_in *in, struct xdr_out *out);

/* OPEN's: goes to the file of that name in the current directory, or makes it. */
uint32_t metadata4_open(struct metadata4 *handles, bool create, struct xdr_in *name);
