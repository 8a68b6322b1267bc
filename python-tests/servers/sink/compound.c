/* SPDX-License-Identifier: GPL-2.0-only */
#include "compound.h"

#include "attributes.h"
#include "nfs4.h"
#include "sessions.h"
#include "util.h"
#include "wire.h"

enum { NO_FILE = UINT32_MAX };
enum { TAG_MAX = 64, RESULT_MAX = 192, SESSION_ID_BYTES = 16, STATEID_BYTES = 16 };

struct compound {
	const struct service *service;
	struct xdr_in *in;
	struct xdr_out *out;
	uint32_t *data;
	uint32_t file; /* the current file handle */
};

static const char *owner = "nfs-sink";

void compound_init(const char *name)
{
	owner = name;
}

/*
 * Each do_ reads the arguments of an operation and, where it gives NFS4_OK, has written the results
 * behind the status. What others leave behind there is dropped.
 */

/* --- sessions --- */

static struct session_id get_session_id(struct xdr_in *in)
{
	struct session_id id;

	id.instance = xdr_get_u32(in);
	id.index = xdr_get_u32(in);
	id.serial = xdr_get_u64(in);
	return id;
}

static void put_session_id(struct xdr_out *out, struct session_id id)
{
	xdr_put_u32(out, id.instance);
	xdr_put_u32(out, id.index);
	xdr_put_u64(out, id.serial);
}

static bool client_is_known(uint64_t client)
{
	return client >> 32 == sessions_instance();
}

/* One client has one number at all addresses, and another after it restarts. None is kept. */
static uint64_t client_number(const uint8_t *bytes, size_t length)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return (uint64_t)sessions_instance() << 32 | hash;
}

static uint32_t do_exchange_id(struct compound *compound)
{
	struct xdr_in *in = compound->in;
	struct xdr_out *out = compound->out;
	const uint8_t *start = in->at;

	xdr_get_u64(in); /* verifier */
	xdr_skip(in, xdr_get_u32(in));
	xdr_put_u64(out, client_number(start, in->at - start));
	xdr_put_u32(out, 1); /* the sequence of CREATE_SESSION, which is not checked */
	xdr_put_u32(out, EXCHGID4_FLAG_USE_NON_PNFS);
	xdr_put_u32(out, SP4_NONE);
	xdr_put_u64(out, 0); /* minor id */
	xdr_put_opaque(out, owner, strlen(owner));
	xdr_put_opaque(out, owner, strlen(owner)); /* scope */
	xdr_put_u32(out, 0);			   /* implementation */
	return NFS4_OK;
}

/* All as asked for, except for the number of slots, which is written through *slots. */
static void copy_channel(struct xdr_in *in, struct xdr_out *out, struct xdr_out *slots)
{
	enum { BEFORE_SLOTS = 5 }; /* padding, three sizes, operations */

	for (int i = 0; i < BEFORE_SLOTS; i++)
		xdr_put_u32(out, xdr_get_u32(in));
	*slots = *out;
	xdr_put_u32(out, xdr_get_u32(in));
	if (xdr_get_u32(in)) /* RDMA's depth */
		xdr_get_u32(in);
	xdr_put_u32(out, 0);
}

static uint32_t do_create_session(struct compound *compound)
{
	struct xdr_in *in = compound->in;
	struct xdr_out *out = compound->out, id_at = *out, slots_at, unused;
	uint64_t client = xdr_get_u64(in);
	uint32_t asked, granted;
	struct xdr_in slots_in;

	put_session_id(out, (struct session_id){0});
	xdr_put_u32(out, xdr_get_u32(in)); /* sequence */
	xdr_get_u32(in);
	xdr_put_u32(out, 0); /* flags: no back channel, nothing outlives the server */
	copy_channel(in, out, &slots_at);
	copy_channel(in, out, &unused);
	if (in->bad || !client_is_known(client))
		return NFS4ERR_STALE_CLIENTID;
	slots_in = (struct xdr_in){slots_at.at, out->at, false};
	asked = xdr_get_u32(&slots_in);
	put_session_id(&id_at, sessions_create(client, asked, &granted));
	xdr_put_u32(&slots_at, granted);
	return NFS4_OK;
}

/* SEQUENCE is served on any connection. Calls go to the server alone. */
static uint32_t do_bind_connection(struct compound *compound)
{
	struct session_id id = get_session_id(compound->in);
	uint32_t direction = xdr_get_u32(compound->in);

	xdr_get_u32(compound->in); /* over RDMA? */
	if (direction == CDFC4_BACK || direction == CDFC4_BACK_OR_BOTH)
		return NFS4ERR_INVAL;
	put_session_id(compound->out, id);
	xdr_put_u32(compound->out, CDFS4_FORE);
	xdr_put_u32(compound->out, false);
	return sessions_find(id);
}

static uint32_t do_destroy_session(struct compound *compound)
{
	struct session_id id = get_session_id(compound->in);

	return compound->in->bad ? NFS4_OK : sessions_destroy(id);
}

static uint32_t do_destroy_client(struct compound *compound)
{
	uint64_t client = xdr_get_u64(compound->in);

	if (!client_is_known(client))
		return NFS4ERR_STALE_CLIENTID;
	return sessions_of(client) ? NFS4ERR_CLIENTID_BUSY : NFS4_OK;
}

static uint32_t do_sequence(struct compound *compound)
{
	struct xdr_in *in = compound->in;
	struct xdr_out *out = compound->out;
	struct session_id id = get_session_id(in);
	uint32_t sequence = xdr_get_u32(in);
	uint32_t slot = xdr_get_u32(in), slots = 1;
	uint32_t status;

	xdr_get_u32(in); /* the highest slot in use */
	xdr_get_u32(in); /* whether to keep the reply */
	status = sessions_step(id, slot, sequence, &slots);
	put_session_id(out, id);
	xdr_put_u32(out, sequence);
	xdr_put_u32(out, slot);
	xdr_put_u32(out, slots - 1);
	xdr_put_u32(out, slots - 1); /* to be used at most */
	xdr_put_u32(out, 0);	     /* nothing was lost or revoked */
	return status;
}

static uint32_t do_reclaim_complete(struct compound *compound)
{
	xdr_get_u32(compound->in);
	return NFS4_OK;
}

/* --- file handles and names --- */

static uint32_t do_put_root(struct compound *compound)
{
	compound->file = FILE_ROOT;
	return NFS4_OK;
}

static uint32_t do_put_handle(struct compound *compound)
{
	return get_handle(compound->in, &compound->file) ? NFS4_OK : NFS4ERR_STALE;
}

static uint32_t do_get_handle(struct compound *compound)
{
	put_handle(compound->out, compound->file);
	return NFS4_OK;
}

/* Looked up or created by name, or not. */
static uint32_t move_to(struct compound *compound, int file)
{
	if (file < 0)
		return NFS4ERR_NOSPC;
	compound->file = (uint32_t)file;
	return NFS4_OK;
}

static uint32_t do_lookup(struct compound *compound)
{
	static const char export[] = {'e', 'x', 'p', 'o', 'r', 't'};
	const char *name;
	uint32_t length;

	if (!get_name(compound->in, &name, &length))
		return NFS4ERR_INVAL;
	if (compound->file == FILE_ROOT && length == sizeof(export) &&
	    !memcmp(name, export, length))
		return NFS4_OK;
	return move_to(compound, files_lookup(compound->file, name, length));
}

/* Of a directory: what it was before and after, which nobody is told. */
static void put_change(struct xdr_out *out)
{
	xdr_put_u32(out, false); /* at one stroke? */
	xdr_put_u64(out, 0);
	xdr_put_u64(out, 0);
}

static uint32_t do_create(struct compound *compound)
{
	uint32_t type = xdr_get_u32(compound->in), length;
	uint32_t status;
	uint64_t set, size;
	const char *name;
	bool made;

	if (type != NFS4_DIRECTORY)
		return NFS4ERR_BADTYPE;
	if (!get_name(compound->in, &name, &length))
		return NFS4ERR_INVAL;
	status = attributes_get(compound->in, &set, &size);
	if (status || compound->in->bad)
		return status;
	status = move_to(compound, files_create(compound->file, name, length, true, &made));
	put_change(compound->out);
	attributes_put_set(compound->out, set);
	return status || made ? status : NFS4ERR_EXIST;
}

static uint32_t do_remove(struct compound *compound)
{
	const char *name;
	uint32_t length;

	if (!get_name(compound->in, &name, &length))
		return NFS4ERR_INVAL;
	files_remove(compound->file, name, length);
	put_change(compound->out);
	return NFS4_OK;
}

/* --- attributes --- */

static uint32_t do_get_attributes(struct compound *compound)
{
	uint64_t asked = attributes_get_set(compound->in);

	attributes_put(compound->service, compound->out, compound->file, asked);
	return NFS4_OK;
}

static uint32_t do_set_attributes(struct compound *compound)
{
	uint32_t status;
	uint64_t set, size;

	xdr_skip(compound->in, STATEID_BYTES);
	status = attributes_get(compound->in, &set, &size);
	if (status || compound->in->bad)
		return status;
	if (set & attribute(NFS4_ATTR_SIZE))
		files_set_size(compound->file, size);
	attributes_put_set(compound->out, set);
	return NFS4_OK;
}

/* --- opens, of which nothing is kept --- */

static void put_stateid(struct xdr_out *out, uint32_t file)
{
	xdr_put_u32(out, 1);
	xdr_put_u32(out, SINK_MAGIC);
	xdr_put_u32(out, sessions_instance());
	xdr_put_u32(out, file);
}

/* Whether it is of this instance, or a special one: all zeros, all ones, or the current one. */
static bool get_stateid(struct xdr_in *in)
{
	uint32_t sequence = xdr_get_u32(in);
	uint32_t magic = xdr_get_u32(in);
	uint32_t instance = xdr_get_u32(in);
	uint32_t file = xdr_get_u32(in);

	if (magic == SINK_MAGIC)
		return instance == sessions_instance();
	return (!magic && !instance && !file) || (sequence & magic & instance & file) == UINT32_MAX;
}

struct how {
	bool create, guarded;
	uint64_t set, size;
};

static uint32_t get_how(struct xdr_in *in, struct how *how)
{
	uint32_t mode;

	*how = (struct how){.create = xdr_get_u32(in) == OPEN4_CREATE};
	if (!how->create)
		return NFS4_OK;
	mode = xdr_get_u32(in);
	how->guarded = mode == GUARDED4;
	if (mode == EXCLUSIVE4 || mode == EXCLUSIVE4_1)
		xdr_get_u64(in); /* verifier */
	return mode == EXCLUSIVE4 ? NFS4_OK : attributes_get(in, &how->set, &how->size);
}

static uint32_t open_name(struct compound *compound, const struct how *how)
{
	uint32_t directory = compound->file, length;
	const char *name;
	bool made;
	int file;

	if (!get_name(compound->in, &name, &length))
		return NFS4ERR_INVAL;
	if (!how->create)
		return move_to(compound, files_lookup(directory, name, length));
	file = files_create(directory, name, length, false, &made);
	if (file >= 0 && !made && how->guarded)
		return NFS4ERR_EXIST;
	if (file >= 0 && how->set & attribute(NFS4_ATTR_SIZE))
		files_set_size((uint32_t)file, how->size);
	return move_to(compound, file);
}

/* The file that is open is then the current one. */
static uint32_t open_claimed(struct compound *compound, const struct how *how)
{
	switch (xdr_get_u32(compound->in)) {
	case NFS4_CLAIM_NULL: return open_name(compound, how);
	case NFS4_CLAIM_PREVIOUS: xdr_get_u32(compound->in); return NFS4_OK; /* delegation */
	case NFS4_CLAIM_FH: return NFS4_OK;
	default: return NFS4ERR_NOTSUPP;
	}
}

static uint32_t do_open(struct compound *compound)
{
	enum { SEQUENCE_ACCESS_DENY_CLIENT = 4 + 4 + 4 + 8 };
	struct xdr_in *in = compound->in;
	struct xdr_out *out = compound->out;
	uint32_t status;
	struct how how;

	xdr_skip(in, SEQUENCE_ACCESS_DENY_CLIENT);
	xdr_skip(in, xdr_get_u32(in)); /* owner */
	status = get_how(in, &how);
	if (!status)
		status = open_claimed(compound, &how);
	if (status)
		return status;
	put_stateid(out, compound->file);
	put_change(out);
	xdr_put_u32(out, 0); /* flags: need not be confirmed */
	attributes_put_set(out, how.set);
	xdr_put_u32(out, OPEN_DELEGATE_NONE);
	return files_is_directory(compound->file) ? NFS4ERR_ISDIR : NFS4_OK;
}

/* Its stateid is of no more use: the RFC's value for that. */
static uint32_t do_close(struct compound *compound)
{
	xdr_get_u32(compound->in); /* sequence */
	xdr_put_u32(compound->out, UINT32_MAX);
	xdr_put_u64(compound->out, 0);
	xdr_put_u32(compound->out, 0);
	return get_stateid(compound->in) ? NFS4_OK : NFS4ERR_BAD_STATEID;
}

/* --- data --- */

static uint32_t do_read(struct compound *compound)
{
	struct xdr_out *out = compound->out;
	bool open = get_stateid(compound->in);
	uint64_t offset = xdr_get_u64(compound->in), size, rest;
	uint32_t count = min_of(xdr_get_u32(compound->in), compound->service->read_max);

	if (!open)
		return NFS4ERR_BAD_STATEID;
	if (compound->in->bad)
		return NFS4_OK;
	size = files_size(compound->file);
	rest = offset < size ? size - offset : 0;
	count = (uint32_t)min_of(rest, (uint64_t)count);
	compound->service->counts->read_bytes += count;
	xdr_put_u32(out, count == rest);
	xdr_put_u32(out, count);
	*compound->data = count;
	return NFS4_OK;
}

/* Up to its data, which is not waited for. The stability asked for is the one promised. */
static uint32_t do_write(struct compound *compound)
{
	struct xdr_out *out = compound->out;
	bool open = get_stateid(compound->in);
	uint64_t offset = xdr_get_u64(compound->in);
	uint32_t stable = xdr_get_u32(compound->in);
	uint32_t length = xdr_get_u32(compound->in);

	if (!open)
		return NFS4ERR_BAD_STATEID;
	if (length > compound->service->write_max)
		return NFS4ERR_INVAL;
	if (compound->in->bad)
		return NFS4_OK;
	files_grow(compound->file, offset + length);
	compound->service->counts->write_bytes += length;
	xdr_put_u32(out, length);
	xdr_put_u32(out, stable);
	xdr_put_u64(out, WRITE_VERIFIER);
	return NFS4_OK;
}

static uint32_t do_commit(struct compound *compound)
{
	xdr_get_u64(compound->in); /* offset */
	xdr_get_u32(compound->in); /* count */
	xdr_put_u64(compound->out, WRITE_VERIFIER);
	return NFS4_OK;
}

/* --- operations --- */

enum rules {
	FIRST = 1 << 0,	    /* needs no SEQUENCE before it, but is then alone */
	ALONE = 1 << 1,	    /* not behind SEQUENCE */
	OF_FILE = 1 << 2,   /* needs a current file handle */
	WITH_DATA = 1 << 3, /* the last one */
};

static const struct {
	uint32_t (*serve)(struct compound *compound); /* NULL: it is not served */
	uint8_t rules;
} operations[NFS4_LAST + 1] = {
	[NFS4_CLOSE] = {do_close, OF_FILE},
	[NFS4_COMMIT] = {do_commit, OF_FILE},
	[NFS4_CREATE] = {do_create, OF_FILE},
	[NFS4_GETATTR] = {do_get_attributes, OF_FILE},
	[NFS4_GETFH] = {do_get_handle, OF_FILE},
	[NFS4_LOOKUP] = {do_lookup, OF_FILE},
	[NFS4_OPEN] = {do_open, OF_FILE},
	[NFS4_PUTFH] = {do_put_handle, 0},
	[NFS4_PUTROOTFH] = {do_put_root, 0},
	[NFS4_READ] = {do_read, OF_FILE | WITH_DATA},
	[NFS4_REMOVE] = {do_remove, OF_FILE},
	[NFS4_SETATTR] = {do_set_attributes, OF_FILE},
	[NFS4_WRITE] = {do_write, OF_FILE | WITH_DATA},
	[NFS4_BIND_CONN_TO_SESSION] = {do_bind_connection, FIRST | ALONE},
	[NFS4_EXCHANGE_ID] = {do_exchange_id, FIRST | ALONE},
	[NFS4_CREATE_SESSION] = {do_create_session, FIRST | ALONE},
	[NFS4_DESTROY_SESSION] = {do_destroy_session, FIRST},
	[NFS4_SEQUENCE] = {do_sequence, FIRST},
	[NFS4_DESTROY_CLIENTID] = {do_destroy_client, FIRST},
	[NFS4_RECLAIM_COMPLETE] = {do_reclaim_complete, 0},
};

/* Whether the operation may be where it is: number `index` of `count`. */
static uint32_t check(const struct compound *compound, uint32_t operation, uint32_t index,
		      uint32_t count)
{
	uint8_t rule = operations[operation].rules;

	if (!index && !(rule & FIRST))
		return NFS4ERR_OP_NOT_IN_SESSION;
	if (!operations[operation].serve)
		return NFS4ERR_NOTSUPP;
	if (index && operation == NFS4_SEQUENCE)
		return NFS4ERR_SEQUENCE_POS;
	if (index ? rule & ALONE : operation != NFS4_SEQUENCE && count > 1)
		return NFS4ERR_NOT_ONLY_OP;
	if (rule & OF_FILE && compound->file == NO_FILE)
		return NFS4ERR_NOFILEHANDLE;
	return rule & WITH_DATA && index + 1 < count ? NFS4ERR_NOTSUPP : NFS4_OK;
}

/* Reads the operation number `index` of `count`, and writes its result. */
static uint32_t answer_operation(struct compound *compound, uint32_t index, uint32_t count)
{
	struct xdr_out *out = compound->out, status_at;
	uint32_t operation = xdr_get_u32(compound->in);
	bool legal = operation >= NFS4_FIRST && operation <= NFS4_LAST;
	uint32_t status;

	xdr_put_u32(out, legal ? operation : NFS4_ILLEGAL);
	status_at = *out;
	xdr_put_u32(out, NFS4_OK);
	if (out->end - out->at < RESULT_MAX)
		status = NFS4ERR_REP_TOO_BIG;
	else
		status = legal ? check(compound, operation, index, count) : NFS4ERR_OP_ILLEGAL;
	if (!status)
		status = operations[operation].serve(compound);
	if (!status && !compound->in->bad) {
		compound->service->counts->nfs4[operation]++;
	} else {
		*out = status_at;
		xdr_put_u32(out, status);
		if (operation == NFS4_SETATTR)
			attributes_put_set(out, 0); /* nothing was set */
	}
	return status;
}

/* --- the whole --- */

/*
 * Of arguments that have not come to their end: whether they are SEQUENCE, PUTFH and WRITE up to
 * the latter's data. No others are served by halves, since none may be served twice.
 */
static bool is_write(struct xdr_in in)
{
	enum { SEQUENCE_BYTES = SESSION_ID_BYTES + 16, WRITE_BYTES = STATEID_BYTES + 16 };

	xdr_skip(&in, xdr_get_u32(&in)); /* tag */
	xdr_skip(&in, 8);		 /* minor version, number of operations */
	if (xdr_get_u32(&in) != NFS4_SEQUENCE)
		return false;
	xdr_skip(&in, SEQUENCE_BYTES);
	if (xdr_get_u32(&in) != NFS4_PUTFH)
		return false;
	xdr_skip(&in, xdr_get_u32(&in));
	if (xdr_get_u32(&in) != NFS4_WRITE)
		return false;
	xdr_skip(&in, WRITE_BYTES);
	return !in.bad;
}

/* The same one. */
static void copy_tag(struct xdr_in *in, struct xdr_out *out)
{
	uint32_t length = xdr_get_u32(in);
	const uint8_t *tag = in->at;

	if (length > TAG_MAX)
		in->bad = true;
	xdr_skip(in, length);
	if (!in->bad)
		xdr_put_opaque(out, tag, length);
}

void compound_serve(const struct service *service, struct xdr_in *in, bool whole,
		    struct xdr_out *out, uint32_t *data)
{
	struct compound compound = {service, in, out, data, NO_FILE};
	struct xdr_out status_at = *out, count_at;
	uint32_t status = NFS4_OK;
	uint32_t minor, count, i = 0;

	if (!whole && !is_write(*in)) {
		in->bad = true;
		return;
	}
	xdr_put_u32(out, NFS4_OK);
	copy_tag(in, out);
	minor = xdr_get_u32(in);
	count = xdr_get_u32(in);
	count_at = *out;
	xdr_put_u32(out, 0);
	if (minor < NFS4_MINOR_MIN || minor > NFS4_MINOR_MAX)
		status = NFS4ERR_MINOR_VERS_MISMATCH;
	while (i < count && !status && !in->bad)
		status = answer_operation(&compound, i++, count);
	xdr_put_u32(&status_at, status);
	xdr_put_u32(&count_at, i);
}
