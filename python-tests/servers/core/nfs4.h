/* SPDX-License-Identifier: GPL-2.0-only */
/* nfs4.h - the numbers of NFSv4.1 (RFC 8881) that servers know beside the engine's. */
#pragma once

#include "core/call.h"
#include "nfs/nfs4_meta.h"

enum { NFS4_MINOR_MIN = 1, NFS4_MINOR_MAX = 2 };
enum { NFS4_FIRST = 3, NFS4_LAST = 75 }; /* of version 4.2, RFC 7862 and RFC 8276 */
enum { NFS4_ATTR_SUPPORTED_ATTRS = 0, NFS4_ATTR_FH_EXPIRE_TYPE = 2 };

/* nfsstat4 */
enum {
	NFS4ERR_ISDIR = 21,
	NFS4ERR_INVAL = 22,
	NFS4ERR_NOTSUPP = 10004,
	NFS4ERR_BADTYPE = 10007,
	NFS4ERR_NOFILEHANDLE = 10020,
	NFS4ERR_ATTRNOTSUPP = 10032,
	NFS4ERR_NO_GRACE = 10033,
	NFS4ERR_SEQUENCE_POS = 10064,
	NFS4ERR_REQ_TOO_BIG = 10065,
	NFS4ERR_REP_TOO_BIG = 10066,
	NFS4ERR_OP_NOT_IN_SESSION = 10071,
	NFS4ERR_CLIENTID_BUSY = 10074,
	NFS4ERR_NOT_ONLY_OP = 10081,
};

enum { FH4_PERSISTENT = 0 };
enum { OPEN4_CREATE = 1 };
enum { GUARDED4 = 1, EXCLUSIVE4 = 2, EXCLUSIVE4_1 = 3 };
enum { OPEN_DELEGATE_NONE = 0, OPEN_DELEGATE_READ = 1 };
enum { EXCHGID4_FLAG_USE_NON_PNFS = 0x10000, SP4_NONE = 0 };
enum { CDFC4_BACK_OR_BOTH = 7, CDFS4_BOTH = 3 };

/* --- attributes (RFC 8881, 5): a set of them is a number, whose bit N is attribute N --- */

static inline uint64_t attribute(uint32_t number)
{
	return 1ull << number;
}

/* All that can be served: for struct limits. */
uint64_t attributes_all(void);
