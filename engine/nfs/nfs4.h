/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4.h - the operations of NFSv4.1 that a load needs, as compounds (RFC 8881, 16.2 and 18):
 * arguments encoded, results decoded. NFSv4.2's compounds are the same with another minor version
 * (RFC 7862). No socket, no state.
 */
#pragma once

#include "nfs/meta.h"
#include "nfs/status.h"

enum { NFS_V4 = 4 };
enum nfs4_procedure { NFS4_NULL = 0, NFS4_COMPOUND = 1 };

enum {
	NFS4_SESSIONID = 16,
	NFS4_STATEID = 16,
	NFS4_VERIFIER = 8,
	NFS4_OPAQUE_MAX = 1024, /* RFC 8881, 3.1: NFS4_OPAQUE_LIMIT */
	NFS4_NAME_MAX = 255,	/* ours */
	/* Of SEQUENCE, PUTFH and READ, up to its data: status, tag and count; three results. */
	NFS4_READ_HEAD = 3 * 4 + (2 * 4 + NFS4_SESSIONID + 5 * 4) + 2 * 4 + 4 * 4,
};

/* RFC 8881, 18 */
enum nfs4_operation {
	NFS4_ACCESS = 3,
	NFS4_CLOSE = 4,
	NFS4_COMMIT = 5,
	NFS4_CREATE = 6,
	NFS4_DELEGRETURN = 8,
	NFS4_GETATTR = 9,
	NFS4_GETFH = 10,
	NFS4_LINK = 11,
	NFS4_LOOKUP = 15,
	NFS4_OPEN = 18,
	NFS4_PUTFH = 22,
	NFS4_PUTROOTFH = 24,
	NFS4_READ = 25,
	NFS4_READDIR = 26,
	NFS4_REMOVE = 28,
	NFS4_RENAME = 29,
	NFS4_SAVEFH = 32,
	NFS4_SECINFO = 33,
	NFS4_SETATTR = 34,
	NFS4_WRITE = 38,
	NFS4_BIND_CONN_TO_SESSION = 41,
	NFS4_EXCHANGE_ID = 42,
	NFS4_CREATE_SESSION = 43,
	NFS4_DESTROY_SESSION = 44,
	NFS4_SECINFO_NO_NAME = 52,
	NFS4_SEQUENCE = 53,
	NFS4_DESTROY_CLIENTID = 57,
	NFS4_RECLAIM_COMPLETE = 58,
	NFS4_ILLEGAL = 10044,
};

/* "READ"; "?" for a number that is not in the list. */
const char *nfs4_operation_name(enum nfs4_operation operation);

/* A stateid as it goes over the wire; of zeros: the anonymous one (RFC 8881, 8.2.3). */
struct nfs4_stateid {
	uint8_t bytes[NFS4_STATEID];
};

/* --- arguments --- */

/*
 * A compound under construction, behind the RPC header. Each put adds one operation; out->bad says
 * whether there was room for all of them.
 */
struct nfs4_compound {
	struct xdr_out *out;
	uint8_t *count_at; /* where the number of operations stands */
	uint32_t count;
};

void nfs4_begin(struct nfs4_compound *compound, struct xdr_out *out, uint32_t minor);

/* 18.46. `cache`: the reply is to be kept whole, for the case that the call comes again. */
struct nfs4_sequence {
	uint8_t session[NFS4_SESSIONID];
	uint32_t sequence, slot, highest_slot;
	bool cache;
};
void nfs4_put_sequence(struct nfs4_compound *compound, const struct nfs4_sequence *sequence);

/* 18.19; the root, 18.21, for a handle of length 0. */
void nfs4_put_handle(struct nfs4_compound *compound, const struct nfs_handle *handle);
/* 18.29: of `name` in the current directory; 18.45, for NULL: of that itself. Neither leaves a
 * current handle. */
void nfs4_put_secinfo(struct nfs4_compound *compound, const char *name);
/* 18.13, 18.8 */
void nfs4_put_lookup(struct nfs4_compound *compound, const char *name);
void nfs4_put_getfh(struct nfs4_compound *compound);

/* 5.6 and 5.7: the attributes that are asked for. */
enum nfs4_attribute {
	NFS4_ATTR_TYPE = 1,
	NFS4_ATTR_CHANGE = 3,
	NFS4_ATTR_SIZE = 4,
	NFS4_ATTR_FSID = 8,
	NFS4_ATTR_LEASE_TIME = 10,
	NFS4_ATTR_FILEID = 20,
	NFS4_ATTR_FILES_AVAIL = 21,
	NFS4_ATTR_FILES_FREE = 22,
	NFS4_ATTR_FILES_TOTAL = 23,
	NFS4_ATTR_MAXREAD = 30,
	NFS4_ATTR_MAXWRITE = 31,
	NFS4_ATTR_MODE = 33,
	NFS4_ATTR_NUMLINKS = 35,
	NFS4_ATTR_OWNER = 36,
	NFS4_ATTR_OWNER_GROUP = 37,
	NFS4_ATTR_RAWDEV = 41,
	NFS4_ATTR_SPACE_AVAIL = 42,
	NFS4_ATTR_SPACE_FREE = 43,
	NFS4_ATTR_SPACE_TOTAL = 44,
	NFS4_ATTR_SPACE_USED = 45,
	NFS4_ATTR_TIME_ACCESS = 47,
	NFS4_ATTR_TIME_METADATA = 52,
	NFS4_ATTR_TIME_MODIFY = 53,
};

/* 18.7 */
enum nfs4_getattr {
	NFS4_GETATTR_FILE,   /* type and size */
	NFS4_GETATTR_LIMITS, /* also the lease, and what one READ and one WRITE may carry */
	NFS4_GETATTR_STAT,   /* what stat(2) tells, and a client keeps */
	NFS4_GETATTR_ROOM,   /* how much there is in the file system */
};
void nfs4_put_getattr(struct nfs4_compound *compound, enum nfs4_getattr what);

/* 18.22, 18.32, 18.3. WRITE's data is bulk and follows: `length` bytes and their pad. */
void nfs4_put_read(struct nfs4_compound *compound, const struct nfs4_stateid *stateid,
		   uint64_t offset, uint32_t length);
void nfs4_put_write(struct nfs4_compound *compound, const struct nfs4_stateid *stateid,
		    uint64_t offset, uint32_t length, uint32_t stable);
/* The whole file: offset 0, count 0. */
void nfs4_put_commit(struct nfs4_compound *compound);

/* 18.16 */
enum nfs4_access { NFS4_ACCESS_READ = 1, NFS4_ACCESS_WRITE = 2, NFS4_ACCESS_BOTH = 3 };
enum nfs4_claim {
	NFS4_CLAIM_NULL = 0,	 /* by name, in the directory that is the current handle */
	NFS4_CLAIM_PREVIOUS = 1, /* in the grace period: again, by the file's own handle */
	NFS4_CLAIM_FH = 4,	 /* by the file's own handle */
};
struct nfs4_open {
	uint64_t client;
	const void *owner;
	uint32_t owner_length;
	enum nfs4_access access; /* no delegation is wanted, and nobody is denied anything */
	bool create;		 /* CLAIM_NULL: a new file (GUARDED4) with `mode` */
	uint32_t mode;
	enum nfs4_claim claim;
	const char *name; /* CLAIM_NULL */
};
void nfs4_put_open(struct nfs4_compound *compound, const struct nfs4_open *open);
/* 18.2, 18.6 */
void nfs4_put_close(struct nfs4_compound *compound, const struct nfs4_stateid *stateid);
void nfs4_put_delegreturn(struct nfs4_compound *compound, const struct nfs4_stateid *stateid);

/* 18.4: a directory; a symbolic link. 18.25 */
void nfs4_put_mkdir(struct nfs4_compound *compound, const char *name, uint32_t mode);
void nfs4_put_symlink(struct nfs4_compound *compound, const char *name, const char *target);
void nfs4_put_remove(struct nfs4_compound *compound, const char *name);
/* 18.26, within the current directory, which is saved first (18.28) */
void nfs4_put_rename(struct nfs4_compound *compound, const char *name, const char *other);

/* 18.9: of the current file, which is saved first, in another directory. */
void nfs4_put_link(struct nfs4_compound *compound, const struct nfs_handle *directory,
		   const char *name);
/* 18.23: names alone, from where the listing is, in results of at most so many bytes. */
void nfs4_put_readdir(struct nfs4_compound *compound, const struct listing *listing,
		      uint32_t bytes);

/* 18.1: asks for all rights. 18.30: sets the time of modification to the server's clock. */
void nfs4_put_access(struct nfs4_compound *compound);
void nfs4_put_touch(struct nfs4_compound *compound);

/* 18.35: without pNFS, state protection or an implementation's name. */
void nfs4_put_exchange_id(struct nfs4_compound *compound, const uint8_t verifier[NFS4_VERIFIER],
			  const void *owner, uint32_t owner_length);

/* 18.36. Sizes are bytes of a whole message, with its RPC header. */
struct nfs4_channel {
	uint32_t request_max, response_max, cached_max, operations_max, slots;
};
/* The back channel is asked for by what servers insist on, and not used; no callback security. */
void nfs4_put_create_session(struct nfs4_compound *compound, uint64_t client, uint32_t sequence,
			     const struct nfs4_channel *fore);
/* 18.34: for the fore channel. */
void nfs4_put_bind_conn_to_session(struct nfs4_compound *compound,
				   const uint8_t session[NFS4_SESSIONID]);
/* 18.51: of all file systems. 18.37, 18.50 */
void nfs4_put_reclaim_complete(struct nfs4_compound *compound);
void nfs4_put_destroy_session(struct nfs4_compound *compound,
			      const uint8_t session[NFS4_SESSIONID]);
void nfs4_put_destroy_clientid(struct nfs4_compound *compound, uint64_t client);

/* --- results --- */

/*
 * The results of a compound, read one after the other in the order of its operations. in->bad: more
 * bytes are needed, and nothing that was read is valid. `broken`: the reply contradicts the call or
 * itself, and stays so.
 */
struct nfs4_results {
	struct xdr_in *in;
	uint32_t status; /* of the whole compound: that of its last result */
	uint32_t left;	 /* results not read yet; none behind one that failed */
	bool broken;
};

void nfs4_read_results(struct nfs4_results *results, struct xdr_in *in);

/*
 * Goes on to the next result, which is to be `operation`'s: its status (nfsstat4). After 0 its body
 * is to be read with the function below, where there is one; after another value nothing follows.
 * Where the results end before it, as those of a compound that the server refused as a whole, it is
 * the compound's status.
 */
uint32_t nfs4_next_result(struct nfs4_results *results, enum nfs4_operation operation);

/* The same, and over the body: of an operation whose results nobody wants. */
uint32_t nfs4_skip_result(struct nfs4_results *results, enum nfs4_operation operation);

/* True where all is well: every result was read, and none contradicts. */
static inline bool nfs4_results_sound(const struct nfs4_results *results)
{
	return !results->broken && !results->left;
}

/* Of what it says, what is looked at. */
struct nfs4_sequence_result {
	uint32_t sequence, slot, highest_slot, target_highest_slot;
};
void nfs4_get_sequence(struct nfs4_results *results, struct nfs4_sequence_result *sequence);

void nfs4_get_handle(struct nfs4_results *results, struct nfs_handle *handle);

void nfs4_get_secinfo(struct nfs4_results *results, struct flavors *flavors);

enum nfs4_type { NFS4_REGULAR = 1, NFS4_DIRECTORY = 2, NFS4_SYMLINK = 5 }; /* 3.3.13 */
/* Of all that was asked for, what is looked at. */
struct nfs4_attributes {
	uint32_t type;
	uint64_t size;
	uint32_t lease_time;	      /* seconds; this and the next: 0 where not told */
	uint64_t read_max, write_max; /* bytes */
	uint64_t fsid[2], fileid;     /* 0 where not told */
	uint64_t told;		      /* bits of the attributes that the server has told */
	uint64_t space[3];	      /* available, free, total: the order of their numbers */
	uint64_t files[3];	      /* available, free, total */
};
void nfs4_get_attributes(struct nfs4_results *results, struct nfs4_attributes *attributes);

/* ACCESS: what is granted, of what the server can tell. */
uint32_t nfs4_get_access(struct nfs4_results *results);

/* READ up to its data; WRITE; COMMIT. */
struct nfs4_data_result {
	uint32_t count;
	bool eof;
	uint32_t committed; /* stable_how4 */
	uint8_t verifier[NFS4_VERIFIER];
};
void nfs4_get_read(struct nfs4_results *results, struct nfs4_data_result *read);
void nfs4_get_write(struct nfs4_results *results, struct nfs4_data_result *write);
void nfs4_get_commit(struct nfs4_results *results, struct nfs4_data_result *commit);

/* `delegated`: the server gave a delegation all the same, which is to be returned. */
struct nfs4_open_result {
	struct nfs4_stateid stateid;
	bool delegated;
	struct nfs4_stateid delegation;
};
void nfs4_get_open(struct nfs4_results *results, struct nfs4_open_result *open);
void nfs4_get_readdir(struct nfs4_results *results, struct readdir_page *page);

/* Who a server is: two addresses of one and the same server say the same (RFC 8881, 2.10.5). */
struct nfs4_server {
	uint64_t minor;
	uint32_t major_length, scope_length;
	uint8_t major[NFS4_OPAQUE_MAX], scope[NFS4_OPAQUE_MAX];
};
enum { NFS4_CONFIRMED = 0x80000000u }; /* EXCHGID4_FLAG_CONFIRMED_R */
struct nfs4_exchange_result {
	uint64_t client;
	uint32_t sequence; /* of the next CREATE_SESSION */
	uint32_t flags;
	struct nfs4_server server;
};
void nfs4_get_exchange_id(struct nfs4_results *results, struct nfs4_exchange_result *exchange);

struct nfs4_session_result {
	uint8_t session[NFS4_SESSIONID];
	struct nfs4_channel fore; /* as granted */
};
void nfs4_get_create_session(struct nfs4_results *results, struct nfs4_session_result *session);

/* --- nfsstat4 (RFC 8881, 15.1) --- */

/* The values that a client acts on; status.h has the others. */
enum nfs4_status {
	NFS4_OK = 0,
	NFS4ERR_NOENT = 2,
	NFS4ERR_EXIST = 17,
	NFS4ERR_NOSPC = 28,
	NFS4ERR_STALE = 70,
	NFS4ERR_BAD_COOKIE = 10003,
	NFS4ERR_TOOSMALL = 10005,
	NFS4ERR_DELAY = 10008,
	NFS4ERR_EXPIRED = 10011,
	NFS4ERR_GRACE = 10013,
	NFS4ERR_WRONGSEC = 10016,
	NFS4ERR_FHEXPIRED = 10014,
	NFS4ERR_MINOR_VERS_MISMATCH = 10021,
	NFS4ERR_STALE_CLIENTID = 10022,
	NFS4ERR_STALE_STATEID = 10023,
	NFS4ERR_OLD_STATEID = 10024,
	NFS4ERR_BAD_STATEID = 10025,
	NFS4ERR_NOT_SAME = 10027,
	NFS4ERR_OP_ILLEGAL = 10044,
	NFS4ERR_ADMIN_REVOKED = 10047,
	NFS4ERR_BADSESSION = 10052,
	NFS4ERR_BADSLOT = 10053,
	NFS4ERR_COMPLETE_ALREADY = 10054,
	NFS4ERR_CONN_NOT_BOUND_TO_SESSION = 10055,
	NFS4ERR_SEQ_MISORDERED = 10063,
	NFS4ERR_RETRY_UNCACHED_REP = 10068,
	NFS4ERR_SEQ_FALSE_RETRY = 10076,
	NFS4ERR_BAD_HIGH_SLOT = 10077,
	NFS4ERR_DEADSESSION = 10078,
	NFS4ERR_DELEG_REVOKED = 10087,
};
