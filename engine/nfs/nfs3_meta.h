/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs3_meta.h - NFSv3's procedures for metadata (RFC 1813, 3.3.1 to 3.3.4, 3.3.8 to 3.3.10, 3.3.12
 * to 3.3.16): arguments encoded, results decoded. No socket, no state.
 */
#ifndef NFSMULTI_NFS3_META_H
#define NFSMULTI_NFS3_META_H

#include "conn/meta.h"
#include "nfs/entries.h"
#include "nfs/nfs3.h"
#include "nfs/readdir.h"

/* Strings are bytes with a length; none is kept. */
struct nfs3_name {
	const char *bytes;
	uint32_t length;
};

struct nfs3_meta_call {
	enum meta_op op;       /* not META_OPEN, which NFSv3 has not */
	const uint8_t *handle; /* the entry's where meta_by_handle(), else its directory's */
	uint32_t handle_length;
	struct nfs3_name name;		      /* in the directory */
	struct nfs3_name other;		      /* META_RENAME, META_LINK: the new one, in … */
	const struct entry_handle *directory; /* … the same directory */
	const struct listing *listing;	      /* META_READDIR: it goes on there … */
	uint32_t bytes;			      /* … with results of at most so many */
	bool exclusive;			      /* META_CREATE: by a verifier … */
	uint64_t verifier; /* … which no other create has; and without attributes */
	bool made;	   /* META_SETATTR: of a file that was made so */
};

enum nfs3_procedure nfs3_meta_procedure(enum meta_op op);

/* The arguments behind the RPC call header, at most 248 bytes with names of 32. */
void nfs3_encode_meta(struct xdr_out *out, const struct nfs3_meta_call *call);

struct nfs3_meta_result {
	uint32_t status;       /* nfsstat3 */
	const uint8_t *handle; /* LOOKUP, CREATE, MKDIR, SYMLINK: in the message, or NULL: none */
	uint32_t handle_length;
	struct meta_kind kind;	  /* GETATTR; LOOKUP, where the server tells it */
	struct readdir_page page; /* META_READDIR */
};

/*
 * Reads the results behind the RPC reply header. in->bad: more bytes are needed. False: the results
 * contradict themselves.
 */
bool nfs3_decode_meta(struct xdr_in *in, enum meta_op op, struct nfs3_meta_result *result);

#endif
