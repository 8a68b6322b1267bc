/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs3_names.h - the procedures of the name space (RFC 1813, 3.3): calls encoded, and of their
 * results decoded what names.h asks for. No socket, no state.
 */
#ifndef NFSMULTI_NFS3_NAMES_H
#define NFSMULTI_NFS3_NAMES_H

#include "nfs/handle.h"
#include "rpc/message.h"

#define NFS3_NAME_MAX 255 /* ours: with it, every call fits into RPC_HEAD_MAX */

enum nfs3_name_procedure {
	NFS3_GETATTR = 1, /* 3.3.1 */
	NFS3_LOOKUP = 3,  /* 3.3.3 */
	NFS3_CREATE = 8,  /* 3.3.8, as GUARDED */
	NFS3_MKDIR = 9,	  /* 3.3.9 */
	NFS3_REMOVE = 12, /* 3.3.12 */
	NFS3_FSINFO = 19, /* 3.3.19 */
};

struct nfs3_name_call {
	enum nfs3_name_procedure procedure;
	const struct nfs3_handle *object; /* of GETATTR and FSINFO; the directory of the others */
	const char *name;		  /* in that directory, at most NFS3_NAME_MAX bytes */
	uint32_t mode;			  /* CREATE, MKDIR: permissions */
};

void nfs3_encode_name_call(struct xdr_out *out, uint32_t xid, const struct rpc_cred *cred,
			   const struct nfs3_name_call *call);

/* ftype3 (RFC 1813, 2.6) */
enum nfs3_type { NFS3_REGULAR = 1, NFS3_DIRECTORY = 2, NFS3_SYMLINK = 5 };

struct nfs3_name_result {
	uint32_t status;	   /* nfsstat3; the rest is valid for 0 alone */
	struct nfs3_handle handle; /* LOOKUP */
	bool attributed;	   /* GETATTR, LOOKUP: type and size are valid */
	uint32_t type;
	uint64_t size;		      /* bytes */
	uint32_t read_max, write_max; /* FSINFO: rtmax and wtmax, bytes */
};

/*
 * Reads a procedure's results behind the RPC reply header, as far as they are of use. False: they
 * are cut off, or no results of that procedure.
 */
bool nfs3_decode_name(struct xdr_in *in, enum nfs3_name_procedure procedure,
		      struct nfs3_name_result *result);

const char *nfs3_name_procedure_name(enum nfs3_name_procedure procedure);

#endif
