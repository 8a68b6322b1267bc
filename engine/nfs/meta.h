/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * meta.h - what NFSv3 and NFSv4 share (a comment says what only one of them has): a handle, the
 * results of READ, WRITE and COMMIT, and metadata operations with their arguments and results. An
 * operation works on one entry of a directory (nfs/entries.h).
 */
#pragma once

#include "nfs/readdir.h"
#include "terms/terms.h"

/* A file handle: RFC 1813, 2.4; RFC 8881, 3.1. */
#define NFS3_FHSIZE 64
#define NFS4_FHSIZE 128
struct nfs_handle {
	uint32_t length; /* 0: none; in NFSv4 the root of the server's pseudo file system */
	uint8_t bytes[NFS4_FHSIZE];
};

static inline bool nfs_handle_same(const struct nfs_handle *a, const struct nfs_handle *b)
{
	return a->length == b->length && !memcmp(a->bytes, b->bytes, a->length);
}

/* A handle of at most `max` bytes. None has length 0, which would mean the root. */
void nfs_handle_get(struct xdr_in *in, uint32_t max, struct nfs_handle *handle);

/*
 * READ, up to its data; WRITE; COMMIT (RFC 1813, 3.3.6, 3.3.7, 3.3.21; RFC 8881, 18.22, 18.32,
 * 18.3). Members that an operation does not return are 0.
 */
struct io_result {
	uint32_t count;		  /* READ, WRITE: bytes */
	bool eof;		  /* READ */
	enum io_stable committed; /* WRITE */
	uint8_t verifier[8];	  /* WRITE, COMMIT */
};

/* The same results in both versions: nfs3.c's. */
void io_result_get_write(struct xdr_in *in, struct io_result *result);
void io_result_get_commit(struct xdr_in *in, struct io_result *result);

/* Bytes of a name, with the NUL: of any component of a path, and of a job's entry. */
enum { COMPONENT_MAX = 256, ENTRY_NAME_MAX = 32 };

enum { META_OPS = META_RMDIR + 1 }; /* that a job may have: each is about an entry */

/* The operation's word in options: "getattr". */
static inline const char *meta_name(enum meta_op op)
{
	const struct term *term = op < META_CREATE ? TERM(meta_read) : TERM(meta_write);

	return term_value(term, op)->word;
}

/* What an entry is: its ftype3 (RFC 1813, 2.6), which nfs_ftype4 has too, and its size. */
enum meta_type {
	META_TYPE_FILE = 1,
	META_TYPE_DIRECTORY = 2,
	META_TYPE_SYMLINK = 5,
	META_TYPE_OTHER = 7
};
struct meta_kind {
	uint32_t type; /* 0: not returned */
	uint64_t size; /* bytes; meaningless for a directory */
};

/* Which file it is: two names of one file system with the same numbers are one file. */
struct meta_identity {
	uint64_t fsid[2]; /* NFSv3 has one number */
	uint64_t fileid;
};

/* Bytes of one READ and of one WRITE at most. */
struct meta_limits {
	uint64_t read_max, write_max;
	uint32_t lease_time; /* NFSv4: seconds */
};

/* The space of a file system, as seen by the calling user. */
#define META_UNTOLD UINT64_MAX
struct meta_room {
	uint64_t bytes_total, bytes_free, bytes_available; /* available to the caller */
	uint64_t files_total, files_free, files_available;
};

/* What a reply has of a file's attributes: 0 what is not returned, and META_UNTOLD of `room`. */
struct meta_attributes {
	struct meta_kind kind;
	struct meta_identity identity;
	struct meta_room room;
	struct meta_limits limits;
};

/* What the caller may do (RFC 1813, 3.3.4; RFC 8881, 18.1): a server's advice. */
enum meta_access {
	META_ACCESS_READ = 1,
	META_ACCESS_LOOKUP = 2,
	META_ACCESS_MODIFY = 4,
	META_ACCESS_EXTEND = 8,
	META_ACCESS_DELETE = 16,
	META_ACCESS_UNTOLD = 1 << 30, /* ours */
};

/* The target of the symbolic links that META_SYMLINK makes. */
#define META_SYMLINK_TARGET "nowhere"

/* The operation creates the entry: the name must not exist yet. */
static inline bool meta_makes(enum meta_op op)
{
	return op == META_CREATE || op == META_MKDIR || op == META_SYMLINK;
}

static inline bool meta_removes(enum meta_op op)
{
	return op == META_REMOVE || op == META_RMDIR;
}

/* The operation must not be carried out twice. */
static inline bool meta_changes(enum meta_op op)
{
	return meta_makes(op) || meta_removes(op) || op == META_SETATTR || op == META_RENAME ||
	       op == META_LINK;
}

/* The operation needs the entry's handle, looked up before; others use its directory and name
 * (META_READDIR: no name). */
static inline bool meta_by_handle(enum meta_op op)
{
	return op == META_GETATTR || op == META_ACCESS || op == META_SETATTR || op == META_LINK ||
	       op == META_FSSTAT || op == META_FSINFO;
}

/* Where the entry's first name does not exist, the operation is sent with the other name. */
static inline bool meta_takes_other(enum meta_op op)
{
	return op == META_RENAME || meta_removes(op);
}

/* --- messages --- */

struct meta_arguments {
	enum meta_op op;
	struct nfs_handle handle;	    /* where meta_by_handle(): the entry's */
	const struct nfs_handle *directory; /* that holds it */
	char name[COMPONENT_MAX];	    /* in `directory`, unless meta_by_handle() */
	char other[ENTRY_NAME_MAX];	    /* META_RENAME, META_LINK: the new one */
	const struct listing *listing;	    /* META_READDIR: the listing that it continues */
	uint32_t bytes;			    /* META_READDIR: most bytes of results */

	/* NFSv3 */
	bool exclusive;	   /* META_CREATE: with a verifier, without attributes */
	uint64_t verifier; /* of `exclusive`: unique to this create */
	bool made;	   /* META_SETATTR: of a file that an exclusive create made */

	/* NFSv4: META_OPEN, META_CREATE. */
	uint64_t client;       /* the client ID */
	const void *owner;     /* open-owner, one for each call; READDIR, NFSv3 too: for listed() */
	uint32_t owner_length; /* bytes */
	bool closes;	       /* CLOSE is to follow */
};

struct meta_result {
	struct nfs_handle found;  /* of the object looked up or made; length 0: not returned */
	struct readdir_page page; /* READDIR */
	uint32_t access;	  /* ACCESS: of enum meta_access */
	/* Kind and identity: GETATTR; LOOKUP, if the server returns them. Room: FSSTAT. Limits:
	 * FSINFO, ROOT. */
	struct meta_attributes attributes;
};
