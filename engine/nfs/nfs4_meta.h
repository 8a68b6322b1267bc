/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4_meta.h - metadata operations as compounds (RFC 8881, 18): what follows SEQUENCE. A file is
 * created, or opened, by OPEN and CLOSE in one compound, so that no state stays at the server. For
 * one that refuses such a CLOSE it goes by another, and so does a delegation back that was given
 * all the same.
 */
#pragma once

#include "nfs/meta.h"
#include "nfs/nfs4.h"

/* The operation that it is about, as people are told. */
enum nfs4_operation nfs4_meta_operation(enum meta_op op);

void nfs4_put_meta(struct nfs4_compound *compound, const struct meta_arguments *arguments);

struct nfs4_meta_result {
	struct meta_result all;
	bool carried_out; /* the operation itself: what failed, if anything, is behind it */
	uint32_t close;	  /* the status of its CLOSE, which is nobody's fault but the server's */
	struct nfs4_open_result opened; /* META_OPEN, META_CREATE */
};

/* Reads the results behind SEQUENCE's: the first status that is not 0. `root`: of a compound whose
 * directory was named by no handle; `closes`: that had a CLOSE. */
uint32_t nfs4_get_meta(struct nfs4_results *results, enum meta_op op, bool root, bool closes,
		       struct nfs4_meta_result *result);

/* The same for a compound that gives back, by CLOSE or DELEGRETURN, what the server keeps of the
 * file `name`, found by LOOKUP. */
void nfs4_put_return(struct nfs4_compound *compound, const struct nfs_handle *directory,
		     const char *name, enum nfs4_operation operation,
		     const struct nfs4_stateid *stateid);
uint32_t nfs4_get_return(struct nfs4_results *results, enum nfs4_operation operation);
