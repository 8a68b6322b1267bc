/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4_meta.h - encodes NFSv4.1's operations on names and files (RFC 8881, 18), decodes the results
 * that we use, and builds the compounds of metadata operations. No sockets, no state.
 */
#pragma once

#include "nfs/nfs4.h"
#include "nfs/status.h"

/* SECINFO of `name` in the current directory (18.29); NULL: SECINFO_NO_NAME of that directory
 * (18.45). Neither leaves a current handle. */
void nfs4_put_secinfo(struct nfs4_compound *compound, const char *name);
void nfs4_get_secinfo(struct xdr_in *in, struct flavors *flavors);

/*
 * 5.6 to 5.8: the attributes that we request, in the order in which replies have their values:
 * name, number, bytes of the value (0: a string), and in nfs4_meta.c's own words where it stores it
 * and which of its GETATTRs ask for it.
 */
#define NFS4_ATTRIBUTES(X)                                    \
	X(TYPE, 1, 4, IN(kind.type), ALL)                     \
	X(CHANGE, 3, 8, NOWHERE, STAT)                        \
	X(SIZE, 4, 8, IN(kind.size), ALL)                     \
	X(FSID, 8, 16, IN(identity.fsid), STAT)               \
	X(LEASE_TIME, 10, 4, IN(limits.lease_time), LIMITS)   \
	X(FILEID, 20, 8, IN(identity.fileid), STAT)           \
	X(FILES_AVAIL, 21, 8, IN(room.files_available), ROOM) \
	X(FILES_FREE, 22, 8, IN(room.files_free), ROOM)       \
	X(FILES_TOTAL, 23, 8, IN(room.files_total), ROOM)     \
	X(MAXREAD, 30, 8, IN(limits.read_max), LIMITS)        \
	X(MAXWRITE, 31, 8, IN(limits.write_max), LIMITS)      \
	X(MODE, 33, 4, NOWHERE, STAT)                         \
	X(NUMLINKS, 35, 4, NOWHERE, STAT)                     \
	X(OWNER, 36, 0, NOWHERE, STAT)                        \
	X(OWNER_GROUP, 37, 0, NOWHERE, STAT)                  \
	X(RAWDEV, 41, 8, NOWHERE, STAT)                       \
	X(SPACE_AVAIL, 42, 8, IN(room.bytes_available), ROOM) \
	X(SPACE_FREE, 43, 8, IN(room.bytes_free), ROOM)       \
	X(SPACE_TOTAL, 44, 8, IN(room.bytes_total), ROOM)     \
	X(SPACE_USED, 45, 8, NOWHERE, STAT)                   \
	X(TIME_ACCESS, 47, 12, NOWHERE, STAT)                 \
	X(TIME_METADATA, 52, 12, NOWHERE, STAT)               \
	X(TIME_MODIFY, 53, 12, NOWHERE, STAT)

#define NFS4_ATTRIBUTE(name, number, size, at, asked) NFS4_ATTR_##name = (number),

enum nfs4_attribute { NFS4_ATTRIBUTES(NFS4_ATTRIBUTE) NFS4_ATTR_TIME_MODIFY_SET = 54 };

void nfs4_get_attributes(struct xdr_in *in, struct meta_attributes *attributes);

/* 18.16 */
enum nfs4_access { NFS4_ACCESS_READ = 1, NFS4_ACCESS_WRITE = 2, NFS4_ACCESS_BOTH = 3 };
enum nfs4_claim {
	NFS4_CLAIM_NULL = 0,	 /* by name, in the current directory */
	NFS4_CLAIM_PREVIOUS = 1, /* reclaim in the grace period, by the file's handle */
	NFS4_CLAIM_FH = 4,	 /* by the file's handle */
};
struct nfs4_open {
	uint64_t client;
	const void *owner;
	uint32_t owner_length;
	enum nfs4_access access; /* with WANT_NO_DELEG, and without deny modes */
	bool create;		 /* CLAIM_NULL: a new file (GUARDED4) with FILE_MODE */
	enum nfs4_claim claim;
	const char *name; /* CLAIM_NULL */
};
/* `delegated`: the server gave a delegation against our wish; it must be returned. */
struct nfs4_open_result {
	struct nfs4_stateid stateid;
	bool delegated;
	struct nfs4_stateid delegation;
};
void nfs4_put_open(struct nfs4_compound *compound, const struct nfs4_open *open);
void nfs4_get_open(struct xdr_in *in, struct nfs4_open_result *open);

/* CLOSE (18.2) or DELEGRETURN (18.6). */
void nfs4_put_give_back(struct nfs4_compound *compound, enum nfs4_operation operation,
			const struct nfs4_stateid *stateid);

/* 18.1: the rights that the server grants, of those that it supports. */
uint32_t nfs4_get_access(struct xdr_in *in);

/*
 * --- metadata operations: what follows SEQUENCE ---
 *
 * A compound creates or opens a file by OPEN and CLOSE together, so that no state stays at the
 * server. If the server refuses such a CLOSE, another compound sends it again. Another compound
 * also returns a delegation, if the server gives one against our wish.
 */

/* The NFSv4 operation that carries out `op`; error messages name it. */
enum nfs4_operation nfs4_meta_operation(enum meta_op op);

void nfs4_put_meta(struct nfs4_compound *compound, const struct meta_arguments *arguments);

struct nfs4_meta_result {
	struct meta_result all;
	bool carried_out; /* `op` itself succeeded: an error is a later operation's */
	uint32_t close;	  /* the status of the CLOSE; an error is the server's fault */
	struct nfs4_open_result opened; /* META_OPEN, META_CREATE */
};

/* Reads the results after SEQUENCE's; returns the first status that is not 0, except CLOSE's.
 * `root`: the compound began with PUTROOTFH, not PUTFH; `closes`: it had a CLOSE. */
uint32_t nfs4_get_meta(struct nfs4_results *results, enum meta_op op, bool root, bool closes,
		       struct nfs4_meta_result *result);
