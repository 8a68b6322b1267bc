/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * status.h - turns nfsstat3 (RFC 1813, 2.6) and nfsstat4 (RFC 8881, 15.1) into errnos and names,
 * and the numbers of security flavors into values of enum path_sec.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who reported an error, which the errno alone does not tell. */
enum answer {
	ANSWER_NONE,   /* neither of the others; nfs/names.h uses it for RPC's errors, too */
	ANSWER_RPC,    /* the server's RPC, instead of results (RFC 5531, 9) */
	ANSWER_STATUS, /* NFS, or MOUNT */
};

/*
 * All statuses but 0: value, errno as Linux's NFS client returns it (EAGAIN where the server asks
 * to wait), and name. Some NFSv3 servers also return GRACE while clients reclaim locks (RFC 7530,
 * 13.1.9).
 */
#define NFS_STATUSES(BOTH, V3, V4)                      \
	BOTH(1, EPERM, PERM)                            \
	BOTH(2, ENOENT, NOENT)                          \
	BOTH(5, EIO, IO)                                \
	BOTH(6, ENXIO, NXIO)                            \
	V3(13, EACCES, ACCES)                           \
	V4(13, EACCES, ACCESS)                          \
	BOTH(17, EEXIST, EXIST)                         \
	BOTH(18, EXDEV, XDEV)                           \
	V3(19, ENODEV, NODEV)                           \
	BOTH(20, ENOTDIR, NOTDIR)                       \
	BOTH(21, EISDIR, ISDIR)                         \
	BOTH(22, EINVAL, INVAL)                         \
	BOTH(27, EFBIG, FBIG)                           \
	BOTH(28, ENOSPC, NOSPC)                         \
	BOTH(30, EROFS, ROFS)                           \
	BOTH(31, EMLINK, MLINK)                         \
	BOTH(63, ENAMETOOLONG, NAMETOOLONG)             \
	BOTH(66, ENOTEMPTY, NOTEMPTY)                   \
	BOTH(69, EDQUOT, DQUOT)                         \
	BOTH(70, ESTALE, STALE)                         \
	V3(71, EREMOTE, REMOTE)                         \
	BOTH(10001, EBADF, BADHANDLE)                   \
	V3(10002, EIO, NOT_SYNC)                        \
	BOTH(10003, EIO, BAD_COOKIE)                    \
	BOTH(10004, EOPNOTSUPP, NOTSUPP)                \
	BOTH(10005, EIO, TOOSMALL)                      \
	BOTH(10006, EREMOTEIO, SERVERFAULT)             \
	BOTH(10007, EIO, BADTYPE)                       \
	V3(10008, EAGAIN, JUKEBOX)                      \
	V4(10008, EAGAIN, DELAY)                        \
	V4(10009, EIO, SAME)                            \
	V4(10010, EIO, DENIED)                          \
	V4(10011, EIO, EXPIRED)                         \
	V4(10012, EAGAIN, LOCKED)                       \
	V4(10013, EAGAIN, GRACE)                        \
	V4(10014, ESTALE, FHEXPIRED)                    \
	V4(10015, EACCES, SHARE_DENIED)                 \
	V4(10016, EPERM, WRONGSEC)                      \
	V4(10017, EIO, CLID_INUSE)                      \
	V4(10018, EREMOTEIO, RESOURCE)                  \
	V4(10019, EIO, MOVED)                           \
	V4(10020, EIO, NOFILEHANDLE)                    \
	V4(10021, EPROTONOSUPPORT, MINOR_VERS_MISMATCH) \
	V4(10022, EIO, STALE_CLIENTID)                  \
	V4(10023, EIO, STALE_STATEID)                   \
	V4(10024, EIO, OLD_STATEID)                     \
	V4(10025, EIO, BAD_STATEID)                     \
	V4(10026, EIO, BAD_SEQID)                       \
	V4(10027, EIO, NOT_SAME)                        \
	V4(10028, EIO, LOCK_RANGE)                      \
	V4(10029, ELOOP, SYMLINK)                       \
	V4(10030, EIO, RESTOREFH)                       \
	V4(10031, EIO, LEASE_MOVED)                     \
	V4(10032, EIO, ATTRNOTSUPP)                     \
	V4(10033, EIO, NO_GRACE)                        \
	V4(10034, EIO, RECLAIM_BAD)                     \
	V4(10035, EIO, RECLAIM_CONFLICT)                \
	V4(10036, EIO, BADXDR)                          \
	V4(10037, EIO, LOCKS_HELD)                      \
	V4(10038, EIO, OPENMODE)                        \
	V4(10039, EINVAL, BADOWNER)                     \
	V4(10040, EIO, BADCHAR)                         \
	V4(10041, EINVAL, BADNAME)                      \
	V4(10042, EIO, BAD_RANGE)                       \
	V4(10043, EIO, LOCK_NOTSUPP)                    \
	V4(10044, EOPNOTSUPP, OP_ILLEGAL)               \
	V4(10045, EDEADLK, DEADLOCK)                    \
	V4(10046, EBUSY, FILE_OPEN)                     \
	V4(10047, EIO, ADMIN_REVOKED)                   \
	V4(10048, EIO, CB_PATH_DOWN)                    \
	V4(10049, EIO, BADIOMODE)                       \
	V4(10050, EIO, BADLAYOUT)                       \
	V4(10051, EIO, BAD_SESSION_DIGEST)              \
	V4(10052, EIO, BADSESSION)                      \
	V4(10053, EIO, BADSLOT)                         \
	V4(10054, EIO, COMPLETE_ALREADY)                \
	V4(10055, EIO, CONN_NOT_BOUND_TO_SESSION)       \
	V4(10056, EIO, DELEG_ALREADY_WANTED)            \
	V4(10057, EIO, BACK_CHAN_BUSY)                  \
	V4(10058, EREMOTEIO, LAYOUTTRYLATER)            \
	V4(10059, EIO, LAYOUTUNAVAILABLE)               \
	V4(10060, EIO, NOMATCHING_LAYOUT)               \
	V4(10061, EREMOTEIO, RECALLCONFLICT)            \
	V4(10062, EIO, UNKNOWN_LAYOUTTYPE)              \
	V4(10063, EIO, SEQ_MISORDERED)                  \
	V4(10064, EIO, SEQUENCE_POS)                    \
	V4(10065, EIO, REQ_TOO_BIG)                     \
	V4(10066, EIO, REP_TOO_BIG)                     \
	V4(10067, EIO, REP_TOO_BIG_TO_CACHE)            \
	V4(10068, EIO, RETRY_UNCACHED_REP)              \
	V4(10069, EIO, UNSAFE_COMPOUND)                 \
	V4(10070, EIO, TOO_MANY_OPS)                    \
	V4(10071, EIO, OP_NOT_IN_SESSION)               \
	V4(10072, EIO, HASH_ALG_UNSUPP)                 \
	V4(10074, EIO, CLIENTID_BUSY)                   \
	V4(10075, EIO, PNFS_IO_HOLE)                    \
	V4(10076, EIO, SEQ_FALSE_RETRY)                 \
	V4(10077, EIO, BAD_HIGH_SLOT)                   \
	V4(10078, EIO, DEADSESSION)                     \
	V4(10079, EIO, ENCR_ALG_UNSUPP)                 \
	V4(10080, EIO, PNFS_NO_LAYOUT)                  \
	V4(10081, EIO, NOT_ONLY_OP)                     \
	V4(10082, EPERM, WRONG_CRED)                    \
	V4(10083, EIO, WRONG_TYPE)                      \
	V4(10084, EIO, DIRDELEG_UNAVAIL)                \
	V4(10085, EIO, REJECT_DELEG)                    \
	V4(10086, EREMOTEIO, RETURNCONFLICT)            \
	V4(10087, EIO, DELEG_REVOKED)

#define NFS3_STATUS(value, error, name) NFS3ERR_##name = (value),
#define NFS4_STATUS(value, error, name) NFS4ERR_##name = (value),
#define NFS_NONE(value, error, name)

enum nfs3_status { NFS3_OK = 0, NFS_STATUSES(NFS3_STATUS, NFS3_STATUS, NFS_NONE) };
enum nfs4_status { NFS4_OK = 0, NFS_STATUSES(NFS4_STATUS, NFS_NONE, NFS4_STATUS) };

struct nfs_status {
	uint32_t value;
	int error; /* 0 for NFS3_OK and NFS4_OK, EIO for a value that the RFC lacks */
	const char *name;
};
const struct nfs_status *nfs3_status(uint32_t value);
const struct nfs_status *nfs4_status(uint32_t value);

/* True for JUKEBOX and GRACE, after which the call is sent again later. */
bool nfs3_asks_to_wait(uint32_t status);

/* --- the security flavors that a server lists for an export --- */

/* The flavors that a job can use. */
struct flavors {
	uint32_t known; /* bit N: the enum path_sec of that value */
	bool none;	/* AUTH_NONE, which clients read as "any flavor" */
};

/* Adds a flavor by its number in MOUNT: RPC's (RFC 5531, 8.2), or a pseudo flavor (RFC 2623). */
void flavors_add(struct flavors *flavors, uint32_t number);

/* The pseudo flavor of RPCSEC_GSS's mechanism `oid` (without ASN.1's tag and length) and `service`;
 * RPCSEC_GSS's own number where a job cannot use them. */
uint32_t flavors_pseudo(const void *oid, size_t length, uint32_t service);
