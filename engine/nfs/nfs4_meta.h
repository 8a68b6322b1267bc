/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4_meta.h - metadata operations as compounds (RFC 8881, 18): what follows SEQUENCE. A file is
 * created, or opened, by OPEN and CLOSE in one compound, so that no state stays at the server;
 * a delegation that it gives all the same goes back by another.
 */
#pragma once

#include "nfs/meta_message.h"
#include "nfs/nfs4.h"

/* The operation that it is about, as people are told. */
enum nfs4_operation nfs4_meta_operation(enum meta_op op);

void nfs4_put_meta(struct nfs4_compound *compound, const struct meta_arguments *arguments);

struct nfs4_meta_result {
	struct meta_result all;
	bool carried_out; /* the operation itself: what failed, if anything, is behind it */
	bool delegated;	  /* the server gave a delegation, against the wish: … */
	struct nfs4_stateid delegation; /* … this one */
};

/* Reads the results behind SEQUENCE's: the first status that is not 0. `root`: of a compound whose
 * directory was named by no handle. */
uint32_t nfs4_get_meta(struct nfs4_results *results, enum meta_op op, bool root,
		       struct nfs4_meta_result *result);

/* The same for a compound that returns a delegation of the file `name`, found by LOOKUP. */
void nfs4_put_return(struct nfs4_compound *compound, const struct nfs_handle *directory,
		     const char *name, const struct nfs4_stateid *delegation);
uint32_t nfs4_get_return(struct nfs4_results *results);
