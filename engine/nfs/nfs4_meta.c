/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs4_meta.h"

#include "nfs/nfs4_results.h"
#include "util.h"
#include "wire/credentials.h"

enum { TYPE_MAX = 9 };
enum { FLAVORS_MAX = 64 };		     /* our limit for SECINFO */
enum { SECINFO_CURRENT_FH = 0 };	     /* 18.45.1 */
enum { SHARE_WANT_NO_DELEGATION = 0x400 };   /* RFC 8881, 18.16.1 */
enum { OPEN_NOCREATE = 0, OPEN_CREATE = 1 }; /* the same */
enum { CREATE_GUARDED = 1 };		     /* the same */
enum { SET_TO_SERVER_TIME = 0 };	     /* 3.3.2: time_how4 */
enum { ACCESS_ALL = 0x3f };		     /* 18.1.1 */

/* 18.16.2: open_delegation_type4, why_no_delegation4, limit_by4 */
enum { DELEGATE_NONE = 0, DELEGATE_READ = 1, DELEGATE_WRITE = 2, DELEGATE_NONE_EXT = 3 };
enum { WHY_CONTENTION = 1, WHY_RESOURCE = 2 };
enum { LIMIT_SIZE = 1, LIMIT_BLOCKS = 2 };

/* RFC 8881, 16.2.3.1.2: the stateid that an earlier operation of the compound returned. */
static const struct nfs4_stateid CURRENT_STATEID = {{[3] = 1}};

/* --- names --- */

static void put_name(struct nfs4_compound *compound, const char *name)
{
	xdr_put_opaque(compound->out, name, strlen(name));
}

void nfs4_put_secinfo(struct nfs4_compound *compound, const char *name)
{
	nfs4_put(compound, name ? NFS4_SECINFO : NFS4_SECINFO_NO_NAME);
	if (name)
		put_name(compound, name);
	else
		xdr_put_u32(compound->out, SECINFO_CURRENT_FH);
}

/* secinfo4, as flavors_add() takes it. */
static uint32_t get_flavor(struct xdr_in *in)
{
	uint32_t flavor = xdr_get_u32(in), length;
	uint8_t oid[NFS4_OPAQUE_MAX];

	if (flavor != RPC_GSS)
		return flavor;
	length = xdr_get_opaque(in, oid, sizeof(oid));
	xdr_get_u32(in); /* quality of protection */
	return flavors_pseudo(oid, length, xdr_get_u32(in));
}

void nfs4_get_secinfo(struct xdr_in *in, struct flavors *flavors)
{
	uint32_t count = xdr_get_u32(in);

	memset(flavors, 0, sizeof(*flavors));
	xdr_require(in, count <= FLAVORS_MAX);
	for (uint32_t i = 0; i < count && !in->bad; i++)
		flavors_add(flavors, get_flavor(in));
}

/* --- attributes --- */

/* GETATTRs (18.7): */
enum {
	LIMITS = 1, /* type, size, the lease, and what one READ and one WRITE may carry */
	STAT = 2,   /* what stat(2) returns, and a client caches */
	ROOM = 4,   /* the space of the file system */
	ALL = LIMITS | STAT | ROOM,
};

#define NOWHERE				      UINT8_MAX
#define IN(member)			      offsetof(struct meta_attributes, member)
#define LAYOUT(name, number, size, at, asked) {number, size, at, asked},

/* How to read an attribute's value, and which GETATTRs ask for it. */
static const struct layout {
	uint8_t number, size, at, asked;
} layouts[] = {NFS4_ATTRIBUTES(LAYOUT)};

/* A bit for each attribute that any of these GETATTRs requests. */
static uint64_t asked_by(uint32_t getattrs)
{
	uint64_t attributes = 0;

	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].asked & getattrs)
			attributes |= 1ull << layouts[i].number;
	return attributes;
}

static void put_bitmap(struct nfs4_compound *compound, uint64_t attributes)
{
	const uint32_t high = (uint32_t)(attributes >> 32);

	xdr_put_u32(compound->out, high ? 2 : 1); /* words */
	xdr_put_u32(compound->out, (uint32_t)attributes);
	if (high)
		xdr_put_u32(compound->out, high);
}

/* Puts a fattr4 with this one attribute, whose value is one word. */
static void put_attribute(struct nfs4_compound *compound, enum nfs4_attribute attribute,
			  uint32_t value)
{
	put_bitmap(compound, 1ull << attribute);
	xdr_put_u32(compound->out, sizeof(value));
	xdr_put_u32(compound->out, value);
}

static void get_value(struct xdr_in *in, const struct layout *layout,
		      struct meta_attributes *attributes)
{
	void *to = (uint8_t *)attributes + layout->at;

	if (!layout->size)
		skip_opaque(in);
	else if (layout->at == NOWHERE)
		xdr_skip(in, layout->size);
	else if (layout->size == sizeof(uint32_t))
		*(uint32_t *)to = xdr_get_u32(in);
	else
		for (uint32_t i = 0; i < layout->size / sizeof(uint64_t); i++)
			((uint64_t *)to)[i] = xdr_get_u64(in);
}

void nfs4_get_attributes(struct xdr_in *in, struct meta_attributes *attributes)
{
	uint64_t which = get_bitmap(in);
	uint32_t length = xdr_get_u32(in);
	const uint8_t *begin = in->at;

	memset(attributes, 0, sizeof(*attributes));
	memset(&attributes->room, 0xff, sizeof(attributes->room)); /* META_UNTOLD */
	xdr_require(in, !(which & ~asked_by(ALL))); /* other values have no known length */
	xdr_require(in, which >> NFS4_ATTR_TYPE & which >> NFS4_ATTR_SIZE & 1);
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (which >> layouts[i].number & 1)
			get_value(in, &layouts[i], attributes);
	xdr_require(in, attributes->kind.type && attributes->kind.type <= TYPE_MAX);
	xdr_require(in, length == (size_t)(in->at - begin));
}

/* --- files --- */

void nfs4_put_open(struct nfs4_compound *compound, const struct nfs4_open *open)
{
	struct xdr_out *out = compound->out;

	nfs4_put(compound, NFS4_OPEN);
	xdr_put_u32(out, 0); /* seqid, unused with sessions */
	xdr_put_u32(out, open->access | SHARE_WANT_NO_DELEGATION);
	xdr_put_u32(out, 0); /* deny */
	xdr_put_u64(out, open->client);
	xdr_put_opaque(out, open->owner, open->owner_length);
	xdr_put_u32(out, open->create ? OPEN_CREATE : OPEN_NOCREATE);
	if (open->create) {
		xdr_put_u32(out, CREATE_GUARDED);
		put_attribute(compound, NFS4_ATTR_MODE, FILE_MODE);
	}
	xdr_put_u32(out, open->claim);
	if (open->claim == NFS4_CLAIM_NULL)
		put_name(compound, open->name);
	else if (open->claim == NFS4_CLAIM_PREVIOUS)
		xdr_put_u32(out, DELEGATE_NONE);
}

static void get_delegation(struct xdr_in *in, struct nfs4_open_result *open, bool of_write)
{
	uint32_t limited_by;

	open->delegated = true;
	xdr_get_fixed(in, open->delegation.bytes, NFS4_STATEID);
	xdr_get_bool(in); /* recalled already */
	if (of_write) {
		limited_by = xdr_get_u32(in);
		xdr_require(in, limited_by == LIMIT_SIZE || limited_by == LIMIT_BLOCKS);
		xdr_skip(in, sizeof(uint64_t)); /* either limit */
	}
	xdr_skip(in, 3 * sizeof(uint32_t)); /* nfsace4: three words and a name */
	skip_opaque(in);
}

void nfs4_get_open(struct xdr_in *in, struct nfs4_open_result *open)
{
	uint32_t kind, why;

	memset(open, 0, sizeof(*open));
	xdr_get_fixed(in, open->stateid.bytes, NFS4_STATEID);
	skip_change_info(in);
	xdr_get_u32(in); /* flags */
	get_bitmap(in);
	kind = xdr_get_u32(in);
	switch (kind) {
	case DELEGATE_NONE: break;
	case DELEGATE_READ:
	case DELEGATE_WRITE: get_delegation(in, open, kind == DELEGATE_WRITE); break;
	case DELEGATE_NONE_EXT:
		why = xdr_get_u32(in);
		if (why == WHY_CONTENTION || why == WHY_RESOURCE)
			xdr_get_bool(in);
		break;
	default: xdr_require(in, false);
	}
}

void nfs4_put_give_back(struct nfs4_compound *compound, enum nfs4_operation operation,
			const struct nfs4_stateid *stateid)
{
	nfs4_put(compound, operation);
	if (operation == NFS4_CLOSE)
		xdr_put_u32(compound->out, 0); /* seqid */
	xdr_put_fixed(compound->out, stateid->bytes, sizeof(stateid->bytes));
}

static void put_create(struct nfs4_compound *compound, const char *name, bool directory)
{
	xdr_put_u32(compound->out, directory ? META_TYPE_DIRECTORY : META_TYPE_SYMLINK);
	if (!directory)
		put_name(compound, META_SYMLINK_TARGET);
	put_name(compound, name);
	if (directory)
		put_attribute(compound, NFS4_ATTR_MODE, DIRECTORY_MODE);
	else
		xdr_put_u64(compound->out, 0); /* attributes: words of the bitmap, and bytes */
}

static void put_readdir(struct nfs4_compound *compound, const struct listing *listing,
			uint32_t bytes)
{
	xdr_put_u64(compound->out, listing->cookie);
	xdr_put_fixed(compound->out, listing->verifier, LISTING_VERIFIER);
	xdr_put_u32(compound->out, bytes); /* of names and cookies */
	xdr_put_u32(compound->out, bytes); /* of all results */
	xdr_put_u32(compound->out, 0);	   /* attributes: words of the bitmap */
}

uint32_t nfs4_get_access(struct xdr_in *in)
{
	uint32_t supported = xdr_get_u32(in);

	return supported & xdr_get_u32(in);
}

/* --- metadata operations --- */

enum { SEQUEL_MAX = 3 };

/* The operations that follow the current handle; error messages name `main`. */
static const struct sequel {
	enum nfs4_operation main, operations[SEQUEL_MAX]; /* 0: no more */
	uint32_t attributes;				  /* what GETATTR asks for */
} sequels[] = {
	[META_GETATTR] = {NFS4_GETATTR, {NFS4_GETATTR}, STAT},
	[META_LOOKUP] = {NFS4_LOOKUP, {NFS4_LOOKUP, NFS4_GETFH, NFS4_GETATTR}, STAT},
	[META_ACCESS] = {NFS4_ACCESS, {NFS4_ACCESS}, 0},
	[META_OPEN] = {NFS4_OPEN, {NFS4_OPEN}, 0},
	[META_READDIR] = {NFS4_READDIR, {NFS4_READDIR}, 0},
	[META_CREATE] = {NFS4_OPEN, {NFS4_OPEN, NFS4_GETFH}, 0},
	[META_MKDIR] = {NFS4_CREATE, {NFS4_CREATE, NFS4_GETFH}, 0},
	[META_SYMLINK] = {NFS4_CREATE, {NFS4_CREATE, NFS4_GETFH}, 0},
	[META_SETATTR] = {NFS4_SETATTR, {NFS4_SETATTR}, 0},
	[META_RENAME] = {NFS4_RENAME, {NFS4_SAVEFH, NFS4_RENAME}, 0},
	[META_LINK] = {NFS4_LINK, {NFS4_SAVEFH, NFS4_PUTFH, NFS4_LINK}, 0},
	[META_REMOVE] = {NFS4_REMOVE, {NFS4_REMOVE}, 0},
	[META_RMDIR] = {NFS4_REMOVE, {NFS4_REMOVE}, 0},
	[META_FSSTAT] = {NFS4_GETATTR, {NFS4_GETATTR}, ROOM},
	[META_FSINFO] = {NFS4_GETATTR, {NFS4_GETATTR}, LIMITS},
	[META_ROOT] = {NFS4_GETATTR, {NFS4_GETFH, NFS4_GETATTR}, LIMITS},
};

enum nfs4_operation nfs4_meta_operation(enum meta_op op)
{
	return sequels[op].main;
}

static void put_open(struct nfs4_compound *compound, const struct meta_arguments *arguments)
{
	bool creates = arguments->op == META_CREATE;
	const struct nfs4_open open = {
		.client = arguments->client,
		.owner = arguments->owner,
		.owner_length = arguments->owner_length,
		.access = creates ? NFS4_ACCESS_BOTH : NFS4_ACCESS_READ,
		.create = creates,
		.claim = NFS4_CLAIM_NULL,
		.name = arguments->name,
	};

	nfs4_put_open(compound, &open);
}

static void put_operation(struct nfs4_compound *compound, enum nfs4_operation operation,
			  const struct meta_arguments *arguments)
{
	static const struct nfs4_stateid anonymous;

	switch (operation) {
	case NFS4_OPEN: put_open(compound, arguments); return;
	case NFS4_PUTFH: nfs4_put_handle(compound, arguments->directory); return;
	default: nfs4_put(compound, operation);
	}
	switch (operation) {
	case NFS4_ACCESS: xdr_put_u32(compound->out, ACCESS_ALL); break;
	case NFS4_READDIR: put_readdir(compound, arguments->listing, arguments->bytes); break;
	case NFS4_SETATTR:
		xdr_put_fixed(compound->out, anonymous.bytes, sizeof(anonymous.bytes));
		put_attribute(compound, NFS4_ATTR_TIME_MODIFY_SET, SET_TO_SERVER_TIME);
		break;
	case NFS4_CREATE: put_create(compound, arguments->name, arguments->op == META_MKDIR); break;
	case NFS4_RENAME: /* within the current directory */
		put_name(compound, arguments->name);
		put_name(compound, arguments->other);
		break;
	case NFS4_LINK: put_name(compound, arguments->other); break;
	case NFS4_LOOKUP:
	case NFS4_REMOVE: put_name(compound, arguments->name); break;
	case NFS4_GETATTR: put_bitmap(compound, asked_by(sequels[arguments->op].attributes)); break;
	default: break; /* SAVEFH, GETFH */
	}
}

/* Reads the body of a result that nfs4_skip_result() does not skip. */
static void get_body(struct nfs4_results *results, enum nfs4_operation operation,
		     struct nfs4_meta_result *result)
{
	struct xdr_in *in = results->in;

	switch (operation) {
	case NFS4_ACCESS: result->all.access = nfs4_get_access(in); break;
	case NFS4_OPEN: nfs4_get_open(in, &result->opened); break;
	case NFS4_READDIR: readdir_decode(in, true, &result->all.page); break;
	case NFS4_GETFH: nfs_handle_get(in, NFS4_FHSIZE, &result->all.found); break;
	case NFS4_GETATTR: nfs4_get_attributes(in, &result->all.attributes); break;
	default: break;
	}
}

void nfs4_put_meta(struct nfs4_compound *compound, const struct meta_arguments *arguments)
{
	const enum nfs4_operation *operations = sequels[arguments->op].operations;

	nfs4_put_handle(compound,
			meta_by_handle(arguments->op) ? &arguments->handle : arguments->directory);
	for (int i = 0; i < SEQUEL_MAX && operations[i]; i++)
		put_operation(compound, operations[i], arguments);
	if (arguments->closes)
		nfs4_put_give_back(compound, NFS4_CLOSE, &CURRENT_STATEID);
}

uint32_t nfs4_get_meta(struct nfs4_results *results, enum meta_op op, bool root, bool closes,
		       struct nfs4_meta_result *result)
{
	const struct sequel *sequel = &sequels[op];
	uint32_t status = nfs4_next_result(results, root ? NFS4_PUTROOTFH : NFS4_PUTFH);

	memset(result, 0, sizeof(*result));
	for (int i = 0; !status && i < SEQUEL_MAX && sequel->operations[i]; i++) {
		status = nfs4_skip_result(results, sequel->operations[i]);
		if (status)
			break;
		get_body(results, sequel->operations[i], result);
		result->carried_out |= sequel->operations[i] == sequel->main;
	}
	if (!status && closes)
		result->close = nfs4_skip_result(results, NFS4_CLOSE);
	return status;
}
