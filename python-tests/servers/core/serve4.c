/* SPDX-License-Identifier: GPL-2.0-only */
#include "core/call.h"

#include "core/clients.h"
#include "core/files.h"
#include "util.h"

enum { TAG_MAX = 64, RESULT_MAX = 192 };

/* --- attributes: those that clients ask for --- */

uint64_t attributes_all(void)
{
	return attribute(NFS4_ATTR_SUPPORTED_ATTRS) | attribute(NFS4_ATTR_TYPE) |
	       attribute(NFS4_ATTR_FH_EXPIRE_TYPE) | attribute(NFS4_ATTR_CHANGE) |
	       attribute(NFS4_ATTR_SIZE) | attribute(NFS4_ATTR_FSID) |
	       attribute(NFS4_ATTR_LEASE_TIME) | attribute(NFS4_ATTR_FILEID) |
	       attribute(NFS4_ATTR_MAXREAD) | attribute(NFS4_ATTR_MAXWRITE) |
	       attribute(NFS4_ATTR_MODE);
}

static void attributes_put_set(struct xdr_out *out, uint64_t set)
{
	uint32_t words = set >> 32 ? 2 : set ? 1 : 0;

	xdr_put_u32(out, words);
	for (uint32_t i = 0; i < words; i++)
		xdr_put_u32(out, (uint32_t)(set >> 32 * i));
}

/* In the order of their numbers. */
static void put_values(const struct limits *limits, struct xdr_out *out, uint64_t file,
		       uint64_t set)
{
	const struct file_attributes attributes = files_attributes(file);
	const bool is_directory = attributes.type == FILE_DIRECTORY;

	for (uint32_t number = 0; number < 64; number++)
		switch (set & attribute(number) ? number : UINT32_MAX) {
		case NFS4_ATTR_SUPPORTED_ATTRS: attributes_put_set(out, limits->attributes); break;
		case NFS4_ATTR_TYPE: xdr_put_u32(out, attributes.type); break;
		case NFS4_ATTR_FH_EXPIRE_TYPE: xdr_put_u32(out, FH4_PERSISTENT); break;
		case NFS4_ATTR_CHANGE:
		case NFS4_ATTR_SIZE: xdr_put_u64(out, attributes.size); break;
		case NFS4_ATTR_FSID:
			xdr_put_u64(out, attributes.file_system >> 32);
			xdr_put_u64(out, (uint32_t)attributes.file_system);
			break;
		case NFS4_ATTR_LEASE_TIME: xdr_put_u32(out, limits->lease); break;
		case NFS4_ATTR_FILEID: xdr_put_u64(out, file + 1); break;
		case NFS4_ATTR_MAXREAD: xdr_put_u64(out, limits->read_max); break;
		case NFS4_ATTR_MAXWRITE: xdr_put_u64(out, limits->write_max); break;
		case NFS4_ATTR_MODE: xdr_put_u32(out, is_directory ? 0777 : 0666); break;
		default: break;
		}
}

/* Those of `asked` that the limits have. */
static void attributes_put(const struct nfs_call *call, uint64_t file, uint64_t asked)
{
	struct xdr_out *out = call->out, length;

	attributes_put_set(out, asked & call->limits->attributes);
	length = *out;
	xdr_put_u32(out, 0);
	put_values(call->limits, out, file, asked & call->limits->attributes);
	xdr_put_u32(&length, (uint32_t)(out->at - length.at - 4));
}

/* What a client sets, of which only the size means anything here; OK, or ATTRNOTSUPP. */
static uint32_t attributes_get(struct xdr_in *in, uint64_t *set, uint64_t *size)
{
	const uint64_t known = attribute(NFS4_ATTR_SIZE) | attribute(NFS4_ATTR_MODE) |
			       attribute(NFS4_ATTR_TIME_MODIFY_SET);
	struct xdr_in values;
	uint32_t length;

	*set = get_attributes(in);
	length = xdr_get_u32(in);
	values = *in;
	xdr_skip(in, length);
	if (*set & ~known)
		return NFS4ERR_ATTRNOTSUPP;
	if (*set & attribute(NFS4_ATTR_SIZE))
		*size = xdr_get_u64(&values);
	return NFS4_OK;
}

/*
 * Each do_ reads the arguments of an operation, has it admitted, and carries it out. Where it gives
 * NFS4_OK, its results stand behind the status; what others leave behind there is dropped.
 */

/* --- clients and sessions --- */

static uint32_t do_exchange_id(struct nfs_call *call, struct arguments *asked)
{
	const struct clients *clients = call->clients;
	const uint32_t length = (uint32_t)strlen(clients->name);
	struct xdr_in *in = call->in;
	struct xdr_out *out = call->out;
	struct xdr_in owner = *in;
	struct exchanged exchanged;
	uint32_t status;

	xdr_get_u64(in); /* verifier */
	xdr_skip(in, xdr_get_u32(in));
	owner.end = in->at;
	xdr_skip(in, 3 * 4); /* flags, protection, implementation */
	status = admit(call, NFS4_OK);
	if (status)
		return status;
	exchanged = clients_exchange(call, owner);
	xdr_put_u64(out, exchanged.client);
	xdr_put_u32(out, exchanged.sequence);
	xdr_put_u32(out, EXCHGID4_FLAG_USE_NON_PNFS | (exchanged.confirmed ? NFS4_CONFIRMED : 0u));
	xdr_put_u32(out, SP4_NONE);
	xdr_put_u64(out, clients->terms->spans ? 0 : call->address); /* minor */
	xdr_put_opaque(out, clients->name, length);
	xdr_put_opaque(out, clients->name, length); /* scope */
	xdr_put_u32(out, 0);			    /* implementation */
	return NFS4_OK;
}

static struct channel get_channel(struct xdr_in *in)
{
	struct channel channel;

	get_words(in, &channel.padding, CHANNEL_WORDS);
	xdr_skip(in, 4 * xdr_get_u32(in)); /* RDMA's depth */
	return channel;
}

static void put_channel(struct xdr_out *out, const struct channel *channel)
{
	put_words(out, &channel->padding, CHANNEL_WORDS);
	xdr_put_u32(out, 0);
}

static uint32_t do_create_session(struct nfs_call *call, struct arguments *asked)
{
	const struct limits *limits = call->limits;
	struct xdr_in *in = call->in;
	struct xdr_out *out = call->out;
	struct channel fore, back;
	uint32_t status;

	asked->client = xdr_get_u64(in);
	asked->client_sequence = xdr_get_u32(in);
	xdr_get_u32(in); /* flags */
	fore = get_channel(in);
	back = get_channel(in);
	if (!in->bad)
		in->at = in->end; /* the back channel's program and credentials */
	status = admit(call, NFS4_OK);
	if (status)
		return status;
	fore.request_max = min_of(fore.request_max, limits->request_max ?: UINT32_MAX);
	fore.response_max = min_of(fore.response_max, limits->response_max ?: UINT32_MAX);
	status = clients_create_session(call, &fore);
	put_words(call->out, &asked->session.instance, SESSION_WORDS);
	xdr_put_u32(out, asked->client_sequence);
	xdr_put_u32(out, 0); /* flags: no back channel, nothing outlives the server */
	put_channel(out, &fore);
	put_channel(out, &back);
	return status;
}

/* As is asked for, though no call ever goes to a client. */
static uint32_t do_bind_connection(struct nfs_call *call, struct arguments *asked)
{
	uint32_t words[2], status; /* the direction, and whether over RDMA */

	get_words(call->in, &asked->session.instance, SESSION_WORDS);
	get_words(call->in, words, 2);
	status = admit(call, NFS4_OK);
	put_words(call->out, &asked->session.instance, SESSION_WORDS);
	xdr_put_u32(call->out, words[0] == CDFC4_BACK_OR_BOTH ? CDFS4_BOTH : words[0]);
	xdr_put_u32(call->out, false);
	return status ?: clients_bind_session(call);
}

static uint32_t do_destroy_session(struct nfs_call *call, struct arguments *asked)
{
	get_words(call->in, &asked->session.instance, SESSION_WORDS);
	return admit(call, NFS4_OK) ?: clients_destroy_session(call);
}

static uint32_t do_destroy_client(struct nfs_call *call, struct arguments *asked)
{
	uint64_t client = xdr_get_u64(call->in);

	return admit(call, NFS4_OK) ?: clients_destroy(call, client);
}

static uint32_t do_sequence(struct nfs_call *call, struct arguments *asked)
{
	const struct session_id *id = &asked->session;
	uint32_t slots = 0, target = 0, status;

	get_words(call->in, &asked->session.instance, SESSION_WORDS + 4);
	status = admit(call, NFS4_OK) ?: clients_sequence(call, &slots, &target);
	put_words(call->out,
		  (uint32_t[]){id->instance, id->index, id->high, id->number, asked->sequence,
			       asked->slot, slots - 1, target - 1, 0 /* nothing was lost */},
		  9);
	return status;
}

static uint32_t do_reclaim_complete(struct nfs_call *call, struct arguments *asked)
{
	xdr_get_u32(call->in); /* of one file system? */
	return admit(call, NFS4_OK) ?: clients_reclaim_complete(call);
}

/* --- file handles and names --- */

static uint32_t do_put_root(struct nfs_call *call, struct arguments *asked)
{
	call->compound->file = 0;
	return NFS4_OK;
}

static uint32_t do_put_handle(struct nfs_call *call, struct arguments *asked)
{
	uint32_t status = admit(call, get_handle(call->in, &asked->file));

	if (!status)
		call->compound->file = asked->file;
	return status;
}

static uint32_t do_save_handle(struct nfs_call *call, struct arguments *asked)
{
	call->compound->saved = call->compound->file;
	return NFS4_OK;
}

static uint32_t do_get_handle(struct nfs_call *call, struct arguments *asked)
{
	files_put_handle(call->out, call->compound->file);
	return NFS4_OK;
}

static uint32_t do_lookup(struct nfs_call *call, struct arguments *asked)
{
	uint32_t status = admit(call, get_name(call->in, &asked->name));

	return status ?: files_lookup(call->compound->file, asked->name, &call->compound->file);
}

/* It takes the current file handle away (18.29.3). */
static uint32_t put_flavors(struct nfs_call *call)
{
	const struct limits *limits = call->limits;

	if (!limits->flavors)
		return STATUS_NOTSUPP;
	call->compound->file = NO_FILE;
	xdr_put_fixed(call->out, limits->flavors, limits->flavors_length);
	return NFS4_OK;
}

static uint32_t do_security(struct nfs_call *call, struct arguments *asked)
{
	uint32_t status = do_lookup(call, asked);

	return status ?: put_flavors(call);
}

static uint32_t do_security_no_name(struct nfs_call *call, struct arguments *asked)
{
	uint32_t above = xdr_get_u32(call->in);

	return admit(call, above ? STATUS_NOTSUPP : NFS4_OK) ?: put_flavors(call);
}

/* Of a directory: what it was before and after, which nobody is told. */
static void put_change(struct xdr_out *out)
{
	xdr_put_u32(out, false); /* at one stroke? */
	xdr_put_u64(out, 0);
	xdr_put_u64(out, 0);
}

/* Which attributes were set. */
static void put_set(const struct nfs_call *call, uint64_t set)
{
	attributes_put_set(call->out, call->limits->terse ? 0 : set);
}

static uint32_t do_create(struct nfs_call *call, struct arguments *asked)
{
	enum file_type type = (enum file_type)xdr_get_u32(call->in);
	uint32_t status =
		type == FILE_DIRECTORY || type == FILE_SYMLINK ? NFS4_OK : NFS4ERR_BADTYPE;
	struct name target;
	uint64_t set = 0, size;

	if (type == FILE_SYMLINK)
		get_name(call->in, &target);
	status = status ?: get_name(call->in, &asked->name);
	status = admit(call, status ?: attributes_get(call->in, &set, &size));
	put_change(call->out);
	put_set(call, set);
	return status
		       ?: files_make(call->compound->file, asked->name, type, true,
				     &call->compound->file);
}

static uint32_t do_remove(struct nfs_call *call, struct arguments *asked)
{
	uint32_t status = admit(call, get_name(call->in, &asked->name));

	put_change(call->out);
	return status ?: files_remove(call->compound->file, asked->name);
}

static uint32_t do_rename(struct nfs_call *call, struct arguments *asked)
{
	struct name other;
	uint32_t status = get_name(call->in, &asked->name);

	status = admit(call, status ?: get_name(call->in, &other));
	put_change(call->out);
	put_change(call->out);
	return status
		       ?: files_rename(call->compound->saved, asked->name, call->compound->file,
				       other);
}

static uint32_t do_link(struct nfs_call *call, struct arguments *asked)
{
	uint32_t status = admit(call, get_name(call->in, &asked->name));

	put_change(call->out);
	return status ?: files_link(call->compound->saved, call->compound->file, asked->name);
}

/* A page of names, without attributes. */
static uint32_t do_readdir(struct nfs_call *call, struct arguments *asked)
{
	struct xdr_out *out = call->out;
	struct name_page page = get_page(call->in, asked);
	uint32_t status;

	xdr_get_u32(call->in); /* how many bytes of names and cookies */
	asked->count = xdr_get_u32(call->in);
	asked->wanted = get_attributes(call->in);
	status = admit(call, NFS4_OK);
	status = status ?: list_page(asked, &page);
	if (status)
		return status;
	if (call->compound->response_max && asked->count > call->compound->response_max)
		return NFS4ERR_REP_TOO_BIG; /* a page may be as long as that */
	xdr_put_u64(out, page.verifier);
	for (uint32_t i = 0; i < page.count; i++) {
		xdr_put_u32(out, true);
		xdr_put_u64(out, page.cookie + i * page.step);
		xdr_put_opaque(out, page.names[i], (uint32_t)strlen(page.names[i]));
		attributes_put_set(out, 0);
		xdr_put_u32(out, 0);
	}
	xdr_put_u32(out, false);
	xdr_put_u32(out, page.end);
	return NFS4_OK;
}

/* --- attributes --- */

static uint32_t do_access(struct nfs_call *call, struct arguments *asked)
{
	uint32_t rights = xdr_get_u32(call->in), status = admit(call, NFS4_OK);

	xdr_put_u32(call->out, rights); /* can be told */
	xdr_put_u32(call->out, rights); /* is granted */
	return status;
}

static uint32_t do_get_attributes(struct nfs_call *call, struct arguments *asked)
{
	uint32_t status;

	asked->wanted = get_attributes(call->in);
	status = admit(call, NFS4_OK);
	if (!status)
		attributes_put(call, call->compound->file, asked->wanted);
	return status;
}

static uint32_t do_set_attributes(struct nfs_call *call, struct arguments *asked)
{
	uint32_t status;
	uint64_t set, size;

	xdr_skip(call->in, NFS4_STATEID);
	status = admit(call, attributes_get(call->in, &set, &size));
	if (!status && set & attribute(NFS4_ATTR_SIZE))
		files_set_size(call->compound->file, size);
	put_set(call, set);
	return status;
}

/* --- opens --- */

/* Of sequence 1 and zeros: the current one (16.2.3.1.2). */
static const struct stateid *get_stateid(struct nfs_call *call)
{
	const uint32_t *words = call->asked->stateid.words;

	get_words(call->in, call->asked->stateid.words, 4);
	if (words[0] == 1 && !words[1] && !words[2] && !words[3] &&
	    call->compound->stateid.words[0] && !call->limits->closes_apart)
		return &call->compound->stateid;
	return &call->asked->stateid;
}

static void put_stateid(struct xdr_out *out, const struct stateid *stateid)
{
	put_words(out, stateid->words, 4);
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

/* The name, or what else says which file it is. */
static uint32_t get_claim(struct xdr_in *in, struct arguments *asked)
{
	asked->claim = xdr_get_u32(in);
	switch (asked->claim) {
	case NFS4_CLAIM_NULL: return get_name(in, &asked->name);
	case NFS4_CLAIM_PREVIOUS: xdr_get_u32(in); return NFS4_OK; /* delegation */
	case NFS4_CLAIM_FH: return NFS4_OK;
	default: return STATUS_NOTSUPP;
	}
}

/* The file that is open is then the current one. */
static uint32_t open_claimed(struct nfs_call *call, const struct arguments *asked,
			     const struct how *how)
{
	uint64_t *file = &call->compound->file;
	uint32_t status = clients_may_open(call, (enum nfs4_claim)asked->claim);

	if (status || asked->claim != NFS4_CLAIM_NULL)
		return status;
	if (!how->create)
		return files_lookup(*file, asked->name, file);
	status = files_make(*file, asked->name, FILE_REGULAR, how->guarded, file);
	if (!status && how->set & attribute(NFS4_ATTR_SIZE))
		files_set_size(*file, how->size);
	return status;
}

static void put_delegation(struct nfs_call *call)
{
	enum { RECALLED_TYPE_FLAG_MASK = 4 };
	struct xdr_out *out = call->out;
	struct stateid stateid;

	if (!call->clients->terms->delegates) {
		xdr_put_u32(out, OPEN_DELEGATE_NONE);
		return;
	}
	stateid = clients_delegate(call, call->compound->file);
	xdr_put_u32(out, OPEN_DELEGATE_READ);
	put_stateid(out, &stateid);
	for (int i = 0; i < RECALLED_TYPE_FLAG_MASK; i++)
		xdr_put_u32(out, 0);
	xdr_put_opaque(out, "", 0); /* nobody may do more without asking */
}

static uint32_t do_open(struct nfs_call *call, struct arguments *asked)
{
	enum { DENY_CLIENT = 4 + 8, ACCESS = 3 }; /* its other bits: which delegation is wished */
	struct xdr_in *in = call->in;
	struct xdr_out *out = call->out;
	struct xdr_in owner;
	uint32_t access, status;
	struct how how;

	xdr_get_u32(in); /* sequence */
	access = xdr_get_u32(in) & ACCESS;
	xdr_skip(in, DENY_CLIENT);
	owner = *in;
	xdr_skip(in, xdr_get_u32(in));
	owner.end = in->at;
	status = get_how(in, &how);
	status = admit(call, status ?: get_claim(in, asked));
	status = status ?: open_claimed(call, asked, &how);
	if (status)
		return status;
	if (files_attributes(call->compound->file).type == FILE_DIRECTORY)
		return NFS4ERR_ISDIR;
	call->compound->stateid = clients_open(call, call->compound->file, access, owner);
	put_stateid(out, &call->compound->stateid);
	put_change(out);
	xdr_put_u32(out, 0); /* flags: need not be confirmed */
	put_set(call, how.set);
	put_delegation(call);
	return NFS4_OK;
}

static uint32_t do_return_delegation(struct nfs_call *call, struct arguments *asked)
{
	const struct stateid *stateid = get_stateid(call);
	uint32_t status = admit(call, NFS4_OK);

	return status ?: clients_close(call, call->compound->file, stateid);
}

/* Its stateid is of no more use: the RFC's value for that. */
static uint32_t do_close(struct nfs_call *call, struct arguments *asked)
{
	const struct stateid closed = {{UINT32_MAX}};
	uint32_t status;

	xdr_get_u32(call->in); /* sequence */
	status = do_return_delegation(call, asked);
	put_stateid(call->out, &closed);
	return status;
}

/* --- data --- */

static uint32_t do_read(struct nfs_call *call, struct arguments *asked)
{
	const struct stateid *stateid = get_stateid(call);
	struct transfer read = get_range(call->in, asked);
	uint32_t status = admit(call, NFS4_OK);

	status = status ?: clients_use(call, call->compound->file, stateid);
	status = status ?: files_read(call->front, call->compound->file, &read);
	if (status)
		return status;
	put_words(call->out, (uint32_t[]){read.end, read.length}, 2);
	call->data = read.data;
	call->data_length = read.length;
	return NFS4_OK;
}

static uint32_t do_write(struct nfs_call *call, struct arguments *asked)
{
	const struct stateid *stateid = get_stateid(call);
	struct transfer write;
	uint32_t words[4], status;

	get_words(call->in, words, 4);
	write.offset = asked->offset = (uint64_t)words[0] << 32 | words[1];
	write.stable = asked->stable = words[2];
	write.length = asked->count = words[3];
	status = admit(call, write.length > call->limits->write_max ? STATUS_INVAL : NFS4_OK);
	status = status ?: clients_use(call, call->compound->file, stateid);
	status = status ?: files_write(call->front, call->compound->file, &write);
	put_words(call->out, (uint32_t[]){write.length, write.stable}, 2);
	xdr_put_fixed(call->out, &write.verifier, sizeof(write.verifier));
	return status;
}

static uint32_t do_commit(struct nfs_call *call, struct arguments *asked)
{
	struct transfer commit = get_range(call->in, asked);
	uint32_t status = admit(call, NFS4_OK);

	status = status ?: files_commit(call->front, call->compound->file, &commit);
	xdr_put_fixed(call->out, &commit.verifier, sizeof(commit.verifier));
	return status;
}

/* --- operations --- */

enum rules {
	FIRST = 1 << 0,	    /* needs no SEQUENCE before it, but is then alone */
	ALONE = 1 << 1,	    /* not behind SEQUENCE */
	OF_FILE = 1 << 2,   /* needs a current file handle */
	WITH_DATA = 1 << 3, /* the last one */
	OF_SAVED = 1 << 4,  /* needs a saved file handle */
	BARE = 1 << 5,	    /* has no arguments */
};

static const struct {
	uint32_t (*serve)(struct nfs_call *call, struct arguments *asked); /* NULL: it is not */
	uint8_t rules;
} operations[NFS4_LAST + 1] = {
	[NFS4_ACCESS] = {do_access, OF_FILE},
	[NFS4_CLOSE] = {do_close, OF_FILE},
	[NFS4_COMMIT] = {do_commit, OF_FILE},
	[NFS4_CREATE] = {do_create, OF_FILE},
	[NFS4_DELEGRETURN] = {do_return_delegation, OF_FILE},
	[NFS4_GETATTR] = {do_get_attributes, OF_FILE},
	[NFS4_GETFH] = {do_get_handle, OF_FILE | BARE},
	[NFS4_LINK] = {do_link, OF_FILE | OF_SAVED},
	[NFS4_LOOKUP] = {do_lookup, OF_FILE},
	[NFS4_OPEN] = {do_open, OF_FILE},
	[NFS4_PUTFH] = {do_put_handle, 0},
	[NFS4_PUTROOTFH] = {do_put_root, BARE},
	[NFS4_READ] = {do_read, OF_FILE | WITH_DATA},
	[NFS4_READDIR] = {do_readdir, OF_FILE},
	[NFS4_REMOVE] = {do_remove, OF_FILE},
	[NFS4_RENAME] = {do_rename, OF_FILE | OF_SAVED},
	[NFS4_SAVEFH] = {do_save_handle, OF_FILE | BARE},
	[NFS4_SECINFO] = {do_security, OF_FILE},
	[NFS4_SECINFO_NO_NAME] = {do_security_no_name, OF_FILE},
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
static uint32_t check(const struct nfs_call *call, uint32_t operation, uint32_t index,
		      uint32_t count)
{
	uint8_t rule = operations[operation].rules;

	if (!index && !(rule & FIRST))
		return NFS4ERR_OP_NOT_IN_SESSION;
	if (!operations[operation].serve)
		return STATUS_NOTSUPP;
	if (index && operation == NFS4_SEQUENCE)
		return NFS4ERR_SEQUENCE_POS;
	if (index ? rule & ALONE : operation != NFS4_SEQUENCE && count > 1)
		return NFS4ERR_NOT_ONLY_OP;
	if (rule & OF_FILE && call->compound->file == NO_FILE)
		return NFS4ERR_NOFILEHANDLE;
	if (rule & OF_SAVED && call->compound->saved == NO_FILE)
		return NFS4ERR_NOFILEHANDLE;
	return rule & WITH_DATA && index + 1 < count ? STATUS_NOTSUPP : NFS4_OK;
}

static uint32_t check_size(const struct nfs_call *call)
{
	const struct compound *compound = call->compound;
	size_t length = call->reply_header + (size_t)(call->out->at - compound->results);

	length += call->data_length;
	return compound->response_max && length > compound->response_max ? NFS4ERR_REP_TOO_BIG
									 : NFS4_OK;
}

/* Reads the operation number `index` of `count`, and writes its result. */
static uint32_t answer_operation(struct nfs_call *call, uint32_t index, uint32_t count)
{
	struct arguments *asked = call->asked;
	struct xdr_out *out = call->out, begin = *out;
	uint32_t operation = xdr_get_u32(call->in);
	bool legal = operation >= NFS4_FIRST && operation <= NFS4_LAST;
	uint32_t status;

	memset(asked, 0, ARGUMENTS_EACH);
	asked->number = operation;
	asked->file = call->compound->file;
	put_words(out, (uint32_t[]){operation, NFS4_OK}, 2);
	if (out->end - out->at < RESULT_MAX)
		status = NFS4ERR_REP_TOO_BIG;
	else
		status = legal ? check(call, operation, index, count) : NFS4ERR_OP_ILLEGAL;
	if (!status && operations[operation].rules & BARE)
		status = admit(call, NFS4_OK);
	status = status ?: operations[operation].serve(call, asked);
	if (call->in->bad)
		return status;
	status = status ?: check_size(call);
	if (status) {
		*out = begin;
		call->data_length = 0;
		put_words(out, (uint32_t[]){legal ? operation : NFS4_ILLEGAL, status}, 2);
		if (operation == NFS4_SETATTR)
			attributes_put_set(out, 0); /* nothing was set */
	}
	return front_end(call, status);
}

/* --- the whole --- */

/*
 * Of arguments that have not come to their end: whether they are SEQUENCE, PUTFH and WRITE up to
 * the latter's data. No others are served by halves, since none may be served twice.
 */
static bool is_write(struct xdr_in in)
{
	enum { SEQUENCE_BYTES = NFS4_SESSIONID + 16, WRITE_BYTES = NFS4_STATEID + 16 };

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

/* A status, and the same tag. */
static void begin_results(struct xdr_in *in, struct xdr_out *out)
{
	uint32_t length = xdr_get_u32(in);
	const uint8_t *tag = in->at;

	if (length > TAG_MAX)
		in->bad = true;
	xdr_skip(in, length);
	if (in->bad)
		return;
	put_words(out, (uint32_t[]){NFS4_OK, length}, 2);
	xdr_put_fixed(out, tag, length);
}

void serve_nfs4(struct nfs_call *call, bool whole)
{
	struct xdr_in *in = call->in;
	struct xdr_out *out = call->out, status_at = *out, count_at;
	struct compound compound = {
		.whole = *in, .results = out->at, .file = NO_FILE, .saved = NO_FILE};
	uint32_t words[2], minor, count, status = NFS4_OK, i = 0;

	if (!whole && !is_write(*in)) {
		in->bad = true;
		return;
	}
	call->compound = &compound;
	begin_results(in, out);
	get_words(in, words, 2);
	minor = words[0];
	count = words[1];
	count_at = *out;
	xdr_put_u32(out, 0);
	if (minor < NFS4_MINOR_MIN || minor > NFS4_MINOR_MAX)
		status = NFS4ERR_MINOR_VERS_MISMATCH;
	while (i < count && (!status || (i > 1 && call->limits->goes_on)) && !in->bad &&
	       !compound.kept)
		status = answer_operation(call, i++, count);
	if (compound.kept) {
		*out = status_at;
		xdr_put_fixed(out, compound.kept->results, compound.kept->length);
		return;
	}
	xdr_put_u32(&status_at, status);
	xdr_put_u32(&count_at, i);
}
