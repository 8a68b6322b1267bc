/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs4.h"

enum { SHARE_WANT_NO_DELEGATION = 0x400 };		    /* RFC 8881, 18.16.1 */
enum { OPEN_NOCREATE = 0, OPEN_CREATE = 1 };		    /* the same */
enum { CREATE_GUARDED = 1 };				    /* the same */
enum { DELEGATE_NONE = 0 };				    /* the same */
enum { EXCHANGE_USE_NON_PNFS = 0x10000 };		    /* 18.35.1 */
enum { PROTECT_NONE = 0 };				    /* the same: SP4_NONE */
enum { BIND_FORE = 1 };					    /* 18.34.1: CDFC4_FORE */
enum { CALLBACK_PROGRAM = 0x40000000 };			    /* transient (RFC 5531, 8.3.1) */
enum { MODE_WORD = 33 / 32, MODE_BIT = 33 % 32 };	    /* 5.8.2.15 */
enum { MTIME_SET_WORD = 54 / 32, MTIME_SET_BIT = 54 % 32 }; /* 5.8.2.42 */
enum { SET_TO_SERVER_TIME = 0 };			    /* 3.2: time_how4 */
enum { ACCESS_ALL = 0x3f };				    /* 18.1.1 */
enum { SECINFO_CURRENT_FH = 0 };			    /* 18.45.1 */

#define ATTRIBUTE(name) (1ull << NFS4_ATTR_##name)
#define OF_FILE		(ATTRIBUTE(TYPE) | ATTRIBUTE(SIZE))

static const uint64_t getattrs[] = {
	[NFS4_GETATTR_LIMITS] =
		OF_FILE | ATTRIBUTE(LEASE_TIME) | ATTRIBUTE(MAXREAD) | ATTRIBUTE(MAXWRITE),
	[NFS4_GETATTR_STAT] = OF_FILE | ATTRIBUTE(CHANGE) | ATTRIBUTE(FSID) | ATTRIBUTE(FILEID) |
			      ATTRIBUTE(MODE) | ATTRIBUTE(NUMLINKS) | ATTRIBUTE(OWNER) |
			      ATTRIBUTE(OWNER_GROUP) | ATTRIBUTE(RAWDEV) | ATTRIBUTE(SPACE_USED) |
			      ATTRIBUTE(TIME_ACCESS) | ATTRIBUTE(TIME_METADATA) |
			      ATTRIBUTE(TIME_MODIFY),
	[NFS4_GETATTR_ROOM] = OF_FILE | ATTRIBUTE(FILES_AVAIL) | ATTRIBUTE(FILES_FREE) |
			      ATTRIBUTE(FILES_TOTAL) | ATTRIBUTE(SPACE_AVAIL) |
			      ATTRIBUTE(SPACE_FREE) | ATTRIBUTE(SPACE_TOTAL),
};

/* --- all operations --- */

void nfs4_begin(struct nfs4_compound *compound, struct xdr_out *out, uint32_t minor)
{
	const uint32_t head[] = {0 /* no tag */, htobe32(minor), 0 /* operations */};

	compound->out = out;
	compound->count = 0;
	xdr_put_fixed(out, head, sizeof(head));
	compound->count_at = out->at - sizeof(*head);
}

/* An operation, whose arguments are put behind it. */
static void put_number(struct nfs4_compound *compound, enum nfs4_operation operation)
{
	const uint32_t count = htobe32(++compound->count);

	xdr_put_u32(compound->out, operation);
	if (!compound->out->bad)
		memcpy(compound->count_at, &count, sizeof(count));
}

static void put_name(struct nfs4_compound *compound, const char *name)
{
	xdr_put_opaque(compound->out, name, strlen(name));
}

/* A fattr4 that holds the mode alone. */
static void put_mode(struct nfs4_compound *compound, uint32_t mode)
{
	uint32_t bitmap[MODE_WORD + 1] = {0};

	bitmap[MODE_WORD] = htobe32(1u << MODE_BIT);
	mode = htobe32(mode);
	xdr_put_u32(compound->out, MODE_WORD + 1);
	xdr_put_fixed(compound->out, bitmap, sizeof(bitmap));
	xdr_put_opaque(compound->out, &mode, sizeof(mode));
}

/* --- slots and data --- */

void nfs4_put_sequence(struct nfs4_compound *compound, const struct nfs4_sequence *sequence)
{
	struct xdr_out *out = compound->out;

	put_number(compound, NFS4_SEQUENCE);
	xdr_put_fixed(out, sequence->session, sizeof(sequence->session));
	xdr_put_u32(out, sequence->sequence);
	xdr_put_u32(out, sequence->slot);
	xdr_put_u32(out, sequence->highest_slot);
	xdr_put_u32(out, sequence->cache);
}

void nfs4_put_handle(struct nfs4_compound *compound, const struct nfs_handle *handle)
{
	if (!handle->length) {
		put_number(compound, NFS4_PUTROOTFH);
		return;
	}
	put_number(compound, NFS4_PUTFH);
	xdr_put_opaque(compound->out, handle->bytes, handle->length);
}

void nfs4_put_read(struct nfs4_compound *compound, const struct nfs4_stateid *stateid,
		   uint64_t offset, uint32_t length)
{
	put_number(compound, NFS4_READ);
	xdr_put_fixed(compound->out, stateid->bytes, sizeof(stateid->bytes));
	xdr_put_u64(compound->out, offset);
	xdr_put_u32(compound->out, length);
}

void nfs4_put_write(struct nfs4_compound *compound, const struct nfs4_stateid *stateid,
		    uint64_t offset, uint32_t length, uint32_t stable)
{
	put_number(compound, NFS4_WRITE);
	xdr_put_fixed(compound->out, stateid->bytes, sizeof(stateid->bytes));
	xdr_put_u64(compound->out, offset);
	xdr_put_u32(compound->out, stable);
	xdr_put_u32(compound->out, length); /* of the data that follows */
}

void nfs4_put_commit(struct nfs4_compound *compound)
{
	put_number(compound, NFS4_COMMIT);
	xdr_put_u64(compound->out, 0); /* offset */
	xdr_put_u32(compound->out, 0); /* count */
}

/* --- names and files --- */

void nfs4_put_lookup(struct nfs4_compound *compound, const char *name)
{
	put_number(compound, NFS4_LOOKUP);
	put_name(compound, name);
}

void nfs4_put_secinfo(struct nfs4_compound *compound, const char *name)
{
	put_number(compound, name ? NFS4_SECINFO : NFS4_SECINFO_NO_NAME);
	if (name)
		put_name(compound, name);
	else
		xdr_put_u32(compound->out, SECINFO_CURRENT_FH);
}

void nfs4_put_getfh(struct nfs4_compound *compound)
{
	put_number(compound, NFS4_GETFH);
}

void nfs4_put_getattr(struct nfs4_compound *compound, enum nfs4_getattr what)
{
	const uint32_t low = (uint32_t)getattrs[what], high = (uint32_t)(getattrs[what] >> 32);

	put_number(compound, NFS4_GETATTR);
	xdr_put_u32(compound->out, high ? 2 : 1); /* words of the bitmap */
	xdr_put_u32(compound->out, low);
	if (high)
		xdr_put_u32(compound->out, high);
}

static void put_claim(struct nfs4_compound *compound, const struct nfs4_open *open)
{
	xdr_put_u32(compound->out, open->claim);
	switch (open->claim) {
	case NFS4_CLAIM_NULL: put_name(compound, open->name); break;
	case NFS4_CLAIM_PREVIOUS: xdr_put_u32(compound->out, DELEGATE_NONE); break;
	case NFS4_CLAIM_FH: break;
	}
}

void nfs4_put_open(struct nfs4_compound *compound, const struct nfs4_open *open)
{
	struct xdr_out *out = compound->out;

	put_number(compound, NFS4_OPEN);
	xdr_put_u32(out, 0); /* seqid, which sessions have made useless */
	xdr_put_u32(out, open->access | SHARE_WANT_NO_DELEGATION);
	xdr_put_u32(out, 0); /* deny */
	xdr_put_u64(out, open->client);
	xdr_put_opaque(out, open->owner, open->owner_length);
	xdr_put_u32(out, open->create ? OPEN_CREATE : OPEN_NOCREATE);
	if (open->create) {
		xdr_put_u32(out, CREATE_GUARDED);
		put_mode(compound, open->mode);
	}
	put_claim(compound, open);
}

void nfs4_put_close(struct nfs4_compound *compound, const struct nfs4_stateid *stateid)
{
	put_number(compound, NFS4_CLOSE);
	xdr_put_u32(compound->out, 0); /* seqid */
	xdr_put_fixed(compound->out, stateid->bytes, sizeof(stateid->bytes));
}

void nfs4_put_delegreturn(struct nfs4_compound *compound, const struct nfs4_stateid *stateid)
{
	put_number(compound, NFS4_DELEGRETURN);
	xdr_put_fixed(compound->out, stateid->bytes, sizeof(stateid->bytes));
}

void nfs4_put_mkdir(struct nfs4_compound *compound, const char *name, uint32_t mode)
{
	put_number(compound, NFS4_CREATE);
	xdr_put_u32(compound->out, NFS4_DIRECTORY);
	put_name(compound, name);
	put_mode(compound, mode);
}

void nfs4_put_symlink(struct nfs4_compound *compound, const char *name, const char *target)
{
	put_number(compound, NFS4_CREATE);
	xdr_put_u32(compound->out, NFS4_SYMLINK);
	put_name(compound, target);
	put_name(compound, name);
	xdr_put_u32(compound->out, 0); /* attributes: words of the bitmap */
	xdr_put_u32(compound->out, 0); /* attributes: bytes */
}

void nfs4_put_remove(struct nfs4_compound *compound, const char *name)
{
	put_number(compound, NFS4_REMOVE);
	put_name(compound, name);
}

void nfs4_put_rename(struct nfs4_compound *compound, const char *name, const char *other)
{
	put_number(compound, NFS4_SAVEFH);
	put_number(compound, NFS4_RENAME);
	put_name(compound, name);
	put_name(compound, other);
}

void nfs4_put_link(struct nfs4_compound *compound, const struct nfs_handle *directory,
		   const char *name)
{
	put_number(compound, NFS4_SAVEFH);
	nfs4_put_handle(compound, directory);
	put_number(compound, NFS4_LINK);
	put_name(compound, name);
}

void nfs4_put_readdir(struct nfs4_compound *compound, const struct listing *listing, uint32_t bytes)
{
	put_number(compound, NFS4_READDIR);
	xdr_put_u64(compound->out, listing->cookie);
	xdr_put_fixed(compound->out, listing->verifier, LISTING_VERIFIER);
	xdr_put_u32(compound->out, bytes); /* of names and cookies */
	xdr_put_u32(compound->out, bytes); /* of all results */
	xdr_put_u32(compound->out, 0);	   /* attributes: words of the bitmap */
}

void nfs4_put_access(struct nfs4_compound *compound)
{
	put_number(compound, NFS4_ACCESS);
	xdr_put_u32(compound->out, ACCESS_ALL);
}

void nfs4_put_touch(struct nfs4_compound *compound)
{
	static const struct nfs4_stateid anonymous;
	const uint32_t bitmap[MTIME_SET_WORD + 1] = {[MTIME_SET_WORD] =
							     htobe32(1u << MTIME_SET_BIT)};
	const uint32_t how = htobe32(SET_TO_SERVER_TIME);

	put_number(compound, NFS4_SETATTR);
	xdr_put_fixed(compound->out, anonymous.bytes, sizeof(anonymous.bytes));
	xdr_put_u32(compound->out, MTIME_SET_WORD + 1);
	xdr_put_fixed(compound->out, bitmap, sizeof(bitmap));
	xdr_put_opaque(compound->out, &how, sizeof(how));
}

/* --- clients and sessions --- */

void nfs4_put_exchange_id(struct nfs4_compound *compound, const uint8_t verifier[NFS4_VERIFIER],
			  const void *owner, uint32_t owner_length)
{
	put_number(compound, NFS4_EXCHANGE_ID);
	xdr_put_fixed(compound->out, verifier, NFS4_VERIFIER);
	xdr_put_opaque(compound->out, owner, owner_length);
	xdr_put_u32(compound->out, EXCHANGE_USE_NON_PNFS);
	xdr_put_u32(compound->out, PROTECT_NONE);
	xdr_put_u32(compound->out, 0); /* implementations */
}

static void put_channel(struct nfs4_compound *compound, const struct nfs4_channel *channel)
{
	const uint32_t wire[] = {
		0, /* pad of headers */
		htobe32(channel->request_max),
		htobe32(channel->response_max),
		htobe32(channel->cached_max),
		htobe32(channel->operations_max),
		htobe32(channel->slots),
		0, /* no ca_rdma_ird */
	};

	xdr_put_fixed(compound->out, wire, sizeof(wire));
}

void nfs4_put_create_session(struct nfs4_compound *compound, uint64_t client, uint32_t sequence,
			     const struct nfs4_channel *fore)
{
	static const struct nfs4_channel back = {
		.request_max = 4096, .response_max = 4096, .operations_max = 2, .slots = 1};
	struct xdr_out *out = compound->out;

	put_number(compound, NFS4_CREATE_SESSION);
	xdr_put_u64(out, client);
	xdr_put_u32(out, sequence);
	xdr_put_u32(out, 0); /* flags */
	put_channel(compound, fore);
	put_channel(compound, &back);
	xdr_put_u32(out, CALLBACK_PROGRAM);
	xdr_put_u32(out, 1); /* way of callback security: */
	xdr_put_u32(out, 0); /* AUTH_NONE */
}

void nfs4_put_bind_conn_to_session(struct nfs4_compound *compound,
				   const uint8_t session[NFS4_SESSIONID])
{
	put_number(compound, NFS4_BIND_CONN_TO_SESSION);
	xdr_put_fixed(compound->out, session, NFS4_SESSIONID);
	xdr_put_u32(compound->out, BIND_FORE);
	xdr_put_u32(compound->out, false); /* RDMA mode: not switched on later */
}

void nfs4_put_reclaim_complete(struct nfs4_compound *compound)
{
	put_number(compound, NFS4_RECLAIM_COMPLETE);
	xdr_put_u32(compound->out, false); /* one file system alone */
}

void nfs4_put_destroy_session(struct nfs4_compound *compound, const uint8_t session[NFS4_SESSIONID])
{
	put_number(compound, NFS4_DESTROY_SESSION);
	xdr_put_fixed(compound->out, session, NFS4_SESSIONID);
}

void nfs4_put_destroy_clientid(struct nfs4_compound *compound, uint64_t client)
{
	put_number(compound, NFS4_DESTROY_CLIENTID);
	xdr_put_u64(compound->out, client);
}

const char *nfs4_operation_name(enum nfs4_operation operation)
{
	switch (operation) {
	case NFS4_ACCESS: return "ACCESS";
	case NFS4_CLOSE: return "CLOSE";
	case NFS4_COMMIT: return "COMMIT";
	case NFS4_CREATE: return "CREATE";
	case NFS4_DELEGRETURN: return "DELEGRETURN";
	case NFS4_GETATTR: return "GETATTR";
	case NFS4_GETFH: return "GETFH";
	case NFS4_LINK: return "LINK";
	case NFS4_LOOKUP: return "LOOKUP";
	case NFS4_OPEN: return "OPEN";
	case NFS4_PUTFH: return "PUTFH";
	case NFS4_PUTROOTFH: return "PUTROOTFH";
	case NFS4_READ: return "READ";
	case NFS4_READDIR: return "READDIR";
	case NFS4_REMOVE: return "REMOVE";
	case NFS4_RENAME: return "RENAME";
	case NFS4_SAVEFH: return "SAVEFH";
	case NFS4_SECINFO: return "SECINFO";
	case NFS4_SETATTR: return "SETATTR";
	case NFS4_WRITE: return "WRITE";
	case NFS4_BIND_CONN_TO_SESSION: return "BIND_CONN_TO_SESSION";
	case NFS4_EXCHANGE_ID: return "EXCHANGE_ID";
	case NFS4_CREATE_SESSION: return "CREATE_SESSION";
	case NFS4_DESTROY_SESSION: return "DESTROY_SESSION";
	case NFS4_SECINFO_NO_NAME: return "SECINFO_NO_NAME";
	case NFS4_SEQUENCE: return "SEQUENCE";
	case NFS4_DESTROY_CLIENTID: return "DESTROY_CLIENTID";
	case NFS4_RECLAIM_COMPLETE: return "RECLAIM_COMPLETE";
	case NFS4_ILLEGAL: return "ILLEGAL";
	}
	return "?";
}
