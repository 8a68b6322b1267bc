/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs4.h"
#include "util.h"
#include "wire/credentials.h"

enum { SEQUENCE_WORDS = 5, CHANGE_INFO = 20, STABLE_MAX = 2, TYPE_MAX = 9 };
enum { BITMAP_WORDS_MAX = 8 };		 /* ours: RFC 8881 has attributes in three */
enum { FLAVORS_MAX = 64 };		 /* ours, of SECINFO */
enum { BOUND_FORE = 1, BOUND_BOTH = 3 }; /* 18.34.2 */
enum { PROTECT_NONE = 0 };		 /* 18.35.2: SP4_NONE */

/* 18.16.2: open_delegation_type4, why_no_delegation4, limit_by4 */
enum { DELEGATE_NONE = 0, DELEGATE_READ = 1, DELEGATE_WRITE = 2, DELEGATE_NONE_EXT = 3 };
enum { WHY_CONTENTION = 1, WHY_RESOURCE = 2 };
enum { LIMIT_SIZE = 1, LIMIT_BLOCKS = 2 };

/* 5.8: attributes in the order of their values, and the bytes of these; 0: a string. */
static const struct layout {
	uint8_t number, size;
} layouts[] = {
	{NFS4_ATTR_TYPE, 4},	       {NFS4_ATTR_CHANGE, 8},	    {NFS4_ATTR_SIZE, 8},
	{NFS4_ATTR_FSID, 16},	       {NFS4_ATTR_LEASE_TIME, 4},   {NFS4_ATTR_FILEID, 8},
	{NFS4_ATTR_FILES_AVAIL, 8},    {NFS4_ATTR_FILES_FREE, 8},   {NFS4_ATTR_FILES_TOTAL, 8},
	{NFS4_ATTR_MAXREAD, 8},	       {NFS4_ATTR_MAXWRITE, 8},	    {NFS4_ATTR_MODE, 4},
	{NFS4_ATTR_NUMLINKS, 4},       {NFS4_ATTR_OWNER, 0},	    {NFS4_ATTR_OWNER_GROUP, 0},
	{NFS4_ATTR_RAWDEV, 8},	       {NFS4_ATTR_SPACE_AVAIL, 8},  {NFS4_ATTR_SPACE_FREE, 8},
	{NFS4_ATTR_SPACE_TOTAL, 8},    {NFS4_ATTR_SPACE_USED, 8},   {NFS4_ATTR_TIME_ACCESS, 12},
	{NFS4_ATTR_TIME_METADATA, 12}, {NFS4_ATTR_TIME_MODIFY, 12},
};

/* --- what all results are made of --- */

static bool readable(const struct nfs4_results *results)
{
	return !results->broken && !results->in->bad;
}

/* A contradiction, unless the value was not there to be read. */
static void require(struct nfs4_results *results, bool sound)
{
	if (!sound && !results->in->bad)
		results->broken = true;
}

/* The next `size` bytes (a multiple of 4); NULL where they cannot be read. */
static inline const uint8_t *take(struct nfs4_results *results, size_t size)
{
	return results->broken ? NULL : xdr_skip(results->in, (uint32_t)size);
}

static inline uint32_t word_at(const uint8_t *bytes, size_t index)
{
	uint32_t wire;

	memcpy(&wire, bytes + index * sizeof(wire), sizeof(wire));
	return be32toh(wire);
}

static inline uint32_t get_u32(struct nfs4_results *results)
{
	return results->broken ? 0 : xdr_get_u32(results->in);
}

static uint64_t get_u64(struct nfs4_results *results)
{
	return results->broken ? 0 : xdr_get_u64(results->in);
}

static bool get_bool(struct nfs4_results *results)
{
	uint32_t value = get_u32(results);

	require(results, value <= 1);
	return value;
}

/* `size` is a multiple of 4. */
static void get_fixed(struct nfs4_results *results, void *to, size_t size)
{
	if (!results->broken)
		xdr_get_fixed(results->in, to, (uint32_t)size);
}

/* An opaque or a string of at most `max` bytes: its length. `to`: NULL to skip it. */
static uint32_t get_opaque(struct nfs4_results *results, void *to, uint32_t max)
{
	uint32_t length = get_u32(results);
	const uint8_t *bytes;

	require(results, length <= max);
	bytes = take(results, (size_t)length + xdr_pad(length));
	if (!bytes)
		return 0;
	if (to)
		memcpy(to, bytes, length);
	return length;
}

static void skip_opaque(struct nfs4_results *results)
{
	get_opaque(results, NULL, NFS4_OPAQUE_MAX);
}

static void skip_change_info(struct nfs4_results *results)
{
	get_bool(results); /* atomic */
	take(results, CHANGE_INFO - sizeof(uint32_t));
}

/* The attributes of the first two words; `others`: there are some in the words behind these. */
static uint64_t get_bitmap(struct nfs4_results *results, bool *others)
{
	uint32_t words = get_u32(results);
	uint64_t first = 0;

	*others = false;
	require(results, words <= BITMAP_WORDS_MAX);
	for (uint32_t i = 0; i < words && readable(results); i++) {
		uint64_t word = get_u32(results);

		if (i < 2)
			first |= word << 32 * i;
		else if (word)
			*others = true;
	}
	return first;
}

static void skip_bitmap(struct nfs4_results *results)
{
	bool others;

	get_bitmap(results, &others);
}

/* --- the compound --- */

void nfs4_read_results(struct nfs4_results *results, struct xdr_in *in)
{
	const uint8_t *bytes = xdr_skip(in, 2 * sizeof(uint32_t));

	*results = (struct nfs4_results){.in = in};
	if (bytes) {
		uint32_t tag = word_at(bytes, 1);

		results->status = word_at(bytes, 0);
		require(results, tag <= NFS4_OPAQUE_MAX);
		take(results, (size_t)tag + xdr_pad(tag));
		results->left = get_u32(results);
	}
	require(results, results->left || results->status);
	if (!readable(results))
		*results = (struct nfs4_results){.in = in, .broken = results->broken};
}

/*
 * A result that failed ought to be the last one, and its status the compound's. Some servers go on,
 * or say that all went well: the operation's own status counts, as it does for Linux.
 */
uint32_t nfs4_next_result(struct nfs4_results *results, enum nfs4_operation operation)
{
	const uint8_t *bytes;
	uint32_t number, status;

	if (!results->left && results->status && readable(results))
		return results->status;
	require(results, results->left);
	bytes = take(results, 2 * sizeof(uint32_t));
	if (!bytes)
		return 0;
	number = word_at(bytes, 0);
	status = word_at(bytes, 1);
	require(results,
		number == operation || (number == NFS4_ILLEGAL && status == NFS4ERR_OP_ILLEGAL));
	results->left = status ? 0 : results->left - 1;
	return results->broken ? 0 : status;
}

/* --- the data path --- */

void nfs4_get_sequence(struct nfs4_results *results, struct nfs4_sequence_result *sequence)
{
	const uint8_t *bytes = take(results, NFS4_SESSIONID + SEQUENCE_WORDS * sizeof(uint32_t));
	const uint8_t *words;

	if (!bytes) {
		memset(sequence, 0, sizeof(*sequence));
		return;
	}
	words = bytes + NFS4_SESSIONID;
	sequence->sequence = word_at(words, 0);
	sequence->slot = word_at(words, 1);
	sequence->highest_slot = word_at(words, 2);
	sequence->target_highest_slot = word_at(words, 3); /* and flags */
}

void nfs4_get_read(struct nfs4_results *results, struct nfs4_data_result *read)
{
	const uint8_t *bytes = take(results, 2 * sizeof(uint32_t));

	memset(read, 0, sizeof(*read));
	if (!bytes)
		return;
	require(results, word_at(bytes, 0) <= 1);
	if (results->broken)
		return;
	read->eof = word_at(bytes, 0);
	read->count = word_at(bytes, 1);
}

void nfs4_get_write(struct nfs4_results *results, struct nfs4_data_result *write)
{
	const uint8_t *bytes = take(results, 2 * sizeof(uint32_t) + NFS4_VERIFIER);

	memset(write, 0, sizeof(*write));
	if (!bytes)
		return;
	require(results, word_at(bytes, 1) <= STABLE_MAX);
	if (results->broken)
		return;
	write->count = word_at(bytes, 0);
	write->committed = word_at(bytes, 1);
	memcpy(write->verifier, bytes + 2 * sizeof(uint32_t), NFS4_VERIFIER);
}

void nfs4_get_commit(struct nfs4_results *results, struct nfs4_data_result *commit)
{
	memset(commit, 0, sizeof(*commit));
	get_fixed(results, commit->verifier, NFS4_VERIFIER);
}

/* --- names and files --- */

void nfs4_get_handle(struct nfs4_results *results, struct nfs_handle *handle)
{
	memset(handle, 0, sizeof(*handle));
	handle->length = get_opaque(results, handle->bytes, NFS4_FHSIZE);
	require(results, handle->length); /* without bytes it would mean the root */
}

/* secinfo4, as flavors_add() takes it. */
static uint32_t get_flavor(struct nfs4_results *results)
{
	uint32_t flavor = get_u32(results), length;
	uint8_t oid[NFS4_OPAQUE_MAX];

	if (flavor != RPC_GSS)
		return flavor;
	length = get_opaque(results, oid, sizeof(oid));
	get_u32(results); /* quality of protection */
	return flavors_pseudo(oid, length, get_u32(results));
}

void nfs4_get_secinfo(struct nfs4_results *results, struct flavors *flavors)
{
	uint32_t count = get_u32(results);

	memset(flavors, 0, sizeof(*flavors));
	require(results, count <= FLAVORS_MAX);
	for (uint32_t i = 0; i < count && readable(results); i++)
		flavors_add(flavors, get_flavor(results));
	if (!readable(results))
		memset(flavors, 0, sizeof(*flavors));
}

static void get_value(struct nfs4_results *results, const struct layout *layout,
		      struct nfs4_attributes *attributes)
{
	switch (layout->number) {
	case NFS4_ATTR_TYPE: attributes->type = get_u32(results); break;
	case NFS4_ATTR_SIZE: attributes->size = get_u64(results); break;
	case NFS4_ATTR_FSID:
		attributes->fsid[0] = get_u64(results);
		attributes->fsid[1] = get_u64(results);
		break;
	case NFS4_ATTR_FILEID: attributes->fileid = get_u64(results); break;
	case NFS4_ATTR_FILES_AVAIL:
	case NFS4_ATTR_FILES_FREE:
	case NFS4_ATTR_FILES_TOTAL:
		attributes->files[layout->number - NFS4_ATTR_FILES_AVAIL] = get_u64(results);
		break;
	case NFS4_ATTR_SPACE_AVAIL:
	case NFS4_ATTR_SPACE_FREE:
	case NFS4_ATTR_SPACE_TOTAL:
		attributes->space[layout->number - NFS4_ATTR_SPACE_AVAIL] = get_u64(results);
		break;
	case NFS4_ATTR_LEASE_TIME: attributes->lease_time = get_u32(results); break;
	case NFS4_ATTR_MAXREAD: attributes->read_max = get_u64(results); break;
	case NFS4_ATTR_MAXWRITE: attributes->write_max = get_u64(results); break;
	default:
		if (layout->size)
			take(results, layout->size);
		else
			skip_opaque(results);
	}
}

/* The values of a fattr4, which are `length` bytes, for these attributes. */
static void get_values(struct nfs4_results *results, uint64_t which,
		       struct nfs4_attributes *attributes)
{
	uint32_t length = get_u32(results);
	const uint8_t *begin = results->in->at;

	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (which >> layouts[i].number & 1)
			get_value(results, &layouts[i], attributes);
	require(results, attributes->type && attributes->type <= TYPE_MAX);
	require(results, length == (size_t)(results->in->at - begin));
}

/* Those that nobody has asked for: their values have no known length. */
static uint64_t unknown_of(uint64_t which)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		which &= ~(1ull << layouts[i].number);
	return which;
}

void nfs4_get_attributes(struct nfs4_results *results, struct nfs4_attributes *attributes)
{
	const uint64_t needed = 1ull << NFS4_ATTR_TYPE | 1ull << NFS4_ATTR_SIZE;
	bool others;
	uint64_t which = get_bitmap(results, &others);

	memset(attributes, 0, sizeof(*attributes));
	require(results, !others && !unknown_of(which) && (which & needed) == needed);
	get_values(results, which, attributes);
	attributes->told = which;
	if (!readable(results))
		memset(attributes, 0, sizeof(*attributes));
}

uint32_t nfs4_get_access(struct nfs4_results *results)
{
	uint32_t supported = get_u32(results);

	return supported & get_u32(results);
}

/* nfsace4: three words and a name. */
static void skip_ace(struct nfs4_results *results)
{
	take(results, 3 * sizeof(uint32_t));
	skip_opaque(results);
}

static void skip_space_limit(struct nfs4_results *results)
{
	uint32_t by = get_u32(results);

	require(results, by == LIMIT_SIZE || by == LIMIT_BLOCKS);
	take(results, sizeof(uint64_t)); /* either one is */
}

static void get_delegation(struct nfs4_results *results, struct nfs4_open_result *open,
			   bool of_write)
{
	open->delegated = true;
	get_fixed(results, open->delegation.bytes, NFS4_STATEID);
	get_bool(results); /* recalled already */
	if (of_write)
		skip_space_limit(results);
	skip_ace(results);
}

static void skip_why_none(struct nfs4_results *results)
{
	uint32_t why = get_u32(results);

	if (why == WHY_CONTENTION || why == WHY_RESOURCE)
		get_bool(results);
}

void nfs4_get_open(struct nfs4_results *results, struct nfs4_open_result *open)
{
	uint32_t kind;

	memset(open, 0, sizeof(*open));
	get_fixed(results, open->stateid.bytes, NFS4_STATEID);
	skip_change_info(results);
	get_u32(results); /* flags */
	skip_bitmap(results);
	kind = get_u32(results);
	switch (kind) {
	case DELEGATE_NONE: break;
	case DELEGATE_READ:
	case DELEGATE_WRITE: get_delegation(results, open, kind == DELEGATE_WRITE); break;
	case DELEGATE_NONE_EXT: skip_why_none(results); break;
	default: require(results, false);
	}
	if (!readable(results))
		memset(open, 0, sizeof(*open));
}

void nfs4_get_readdir(struct nfs4_results *results, struct readdir_page *page)
{
	memset(page, 0, sizeof(*page));
	if (readable(results))
		require(results, readdir_decode(results->in, true, page));
}

/* --- clients and sessions --- */

static void skip_implementation(struct nfs4_results *results)
{
	uint32_t count = get_u32(results);

	require(results, count <= 1);
	if (!count || !readable(results))
		return;
	skip_opaque(results);				    /* domain */
	skip_opaque(results);				    /* name */
	take(results, sizeof(uint64_t) + sizeof(uint32_t)); /* date */
}

void nfs4_get_exchange_id(struct nfs4_results *results, struct nfs4_exchange_result *exchange)
{
	struct nfs4_server *server = &exchange->server;

	memset(exchange, 0, sizeof(*exchange));
	exchange->client = get_u64(results);
	exchange->sequence = get_u32(results);
	exchange->flags = get_u32(results);
	require(results, get_u32(results) == PROTECT_NONE);
	server->minor = get_u64(results);
	server->major_length = get_opaque(results, server->major, NFS4_OPAQUE_MAX);
	server->scope_length = get_opaque(results, server->scope, NFS4_OPAQUE_MAX);
	skip_implementation(results);
	if (!readable(results))
		memset(exchange, 0, sizeof(*exchange));
}

static void get_channel(struct nfs4_results *results, struct nfs4_channel *channel)
{
	uint32_t depths;

	get_u32(results); /* pad of headers */
	channel->request_max = get_u32(results);
	channel->response_max = get_u32(results);
	channel->cached_max = get_u32(results);
	channel->operations_max = get_u32(results);
	channel->slots = get_u32(results);
	depths = get_u32(results);
	require(results, depths <= 1);
	if (depths)
		get_u32(results); /* ca_rdma_ird */
}

void nfs4_get_create_session(struct nfs4_results *results, struct nfs4_session_result *session)
{
	struct nfs4_channel back;

	memset(session, 0, sizeof(*session));
	get_fixed(results, session->session, NFS4_SESSIONID);
	get_u32(results); /* sequence */
	get_u32(results); /* flags */
	get_channel(results, &session->fore);
	require(results, session->fore.slots);
	get_channel(results, &back);
	if (!readable(results))
		memset(session, 0, sizeof(*session));
}

static void skip_bound(struct nfs4_results *results)
{
	uint32_t bound;

	take(results, NFS4_SESSIONID);
	bound = get_u32(results);
	require(results, bound == BOUND_FORE || bound == BOUND_BOTH);
	get_bool(results); /* RDMA mode */
}

/* --- what nobody wants --- */

uint32_t nfs4_skip_result(struct nfs4_results *results, enum nfs4_operation operation)
{
	uint32_t status = nfs4_next_result(results, operation);

	if (status)
		return status;
	switch (operation) {
	case NFS4_ACCESS: nfs4_get_access(results); break;
	case NFS4_BIND_CONN_TO_SESSION: skip_bound(results); break;
	case NFS4_CLOSE: take(results, NFS4_STATEID); break; /* it means nothing: 18.2.4 */
	case NFS4_CREATE:
		skip_change_info(results);
		skip_bitmap(results);
		break;
	case NFS4_RENAME: /* of the directory it leaves, and of the one it enters */
		skip_change_info(results);
		skip_change_info(results);
		break;
	case NFS4_LINK:
	case NFS4_REMOVE: skip_change_info(results); break;
	case NFS4_SETATTR: skip_bitmap(results); break; /* a failure has it, too: not read */
	default: break;
	}
	return 0;
}
