/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs4.h"

#include "nfs/nfs4_results.h"
#include "util.h"

enum { SEQUENCE_WORDS = 5 };
enum { EXCHANGE_USE_NON_PNFS = 0x10000 }; /* RFC 8881, 18.35.1 */
enum { PROTECT_NONE = 0 };		  /* SP4_NONE, there as well */
enum { BOUND_FORE = 1, BOUND_BOTH = 3 };  /* 18.34.2 */
enum { CALLBACK_PROGRAM = 0x40000000 };	  /* transient (RFC 5531, 8.3) */

/* Where a call, a copy of a template, has its own values: from SESSION_AT on, and at its end. */
enum {
	SESSION_AT = 4 * sizeof(uint32_t), /* tag, minor version, operations, SEQUENCE */
	NUMBERS_AT = SESSION_AT + NFS4_SESSIONID,
	READ_TAIL = sizeof(uint64_t) + sizeof(uint32_t),      /* offset, count */
	WRITE_TAIL = sizeof(uint64_t) + 2 * sizeof(uint32_t), /* offset, stable, length */
};

/* --- compounds --- */

void nfs4_begin(struct nfs4_compound *compound, struct xdr_out *out, uint32_t minor)
{
	const uint32_t head[] = {0 /* no tag */, htobe32(minor), 0 /* operations */};

	compound->out = out;
	compound->count = 0;
	xdr_put_fixed(out, head, sizeof(head));
	compound->count_at = out->at - sizeof(*head);
}

void nfs4_put(struct nfs4_compound *compound, enum nfs4_operation operation)
{
	const uint32_t count = htobe32(++compound->count);

	xdr_put_u32(compound->out, operation);
	if (!compound->out->bad)
		memcpy(compound->count_at, &count, sizeof(count));
}

void nfs4_read_results(struct nfs4_results *results, struct xdr_in *in)
{
	*results = (struct nfs4_results){.in = in, .status = xdr_get_u32(in)};
	skip_opaque(in); /* tag */
	results->left = xdr_get_u32(in);
	xdr_require(in, results->left || results->status);
	if (in->bad)
		results->status = results->left = 0;
}

/*
 * A failed result should be the last one, and its status the compound's. Some servers send more
 * results, or status 0: we use the operation's own status, as Linux does.
 */
uint32_t nfs4_next_result(struct nfs4_results *results, enum nfs4_operation operation)
{
	const uint8_t *bytes;
	uint32_t number, status;

	if (!results->left && results->status && !results->in->bad)
		return results->status;
	xdr_require(results->in, results->left);
	bytes = xdr_skip(results->in, 2 * sizeof(uint32_t));
	if (!bytes)
		return 0;
	number = word_at(bytes, 0);
	status = word_at(bytes, 1);
	xdr_require(results->in, number == operation ||
					 (number == NFS4_ILLEGAL && status == NFS4ERR_OP_ILLEGAL));
	results->left = status ? 0 : results->left - 1;
	return results->in->bad ? 0 : status;
}

#define NAME(name, number) [number] = #name,

const char *nfs4_operation_name(enum nfs4_operation operation)
{
	static const char *const names[] = {NFS4_OPERATIONS(NAME)};

	if (operation == NFS4_ILLEGAL)
		return "ILLEGAL";
	return operation < ARRAY_SIZE(names) && names[operation] ? names[operation] : "?";
}

/* --- slots and data --- */

void nfs4_put_sequence(struct nfs4_compound *compound, const struct nfs4_sequence *sequence)
{
	struct xdr_out *out = compound->out;

	nfs4_put(compound, NFS4_SEQUENCE);
	xdr_put_fixed(out, sequence->session, sizeof(sequence->session));
	xdr_put_u32(out, sequence->sequence);
	xdr_put_u32(out, sequence->slot);
	xdr_put_u32(out, sequence->highest_slot);
	xdr_put_u32(out, sequence->cache);
}

void nfs4_get_sequence(struct xdr_in *in, struct nfs4_sequence_result *sequence)
{
	const uint8_t *bytes = xdr_skip(in, NFS4_SESSIONID + SEQUENCE_WORDS * sizeof(uint32_t));
	const uint8_t *words;

	if (!bytes) {
		memset(sequence, 0, sizeof(*sequence));
		return;
	}
	words = bytes + NFS4_SESSIONID;
	sequence->sequence = word_at(words, 0);
	sequence->slot = word_at(words, 1);
	sequence->highest_slot = word_at(words, 2);
	sequence->target_highest_slot = word_at(words, 3); /* flags follow, unread */
}

void nfs4_put_handle(struct nfs4_compound *compound, const struct nfs_handle *handle)
{
	if (!handle->length) {
		nfs4_put(compound, NFS4_PUTROOTFH);
		return;
	}
	nfs4_put(compound, NFS4_PUTFH);
	xdr_put_opaque(compound->out, handle->bytes, handle->length);
}

void nfs4_template_make(struct nfs4_template *template, enum nfs4_operation operation,
			uint32_t minor, const struct nfs_handle *handle,
			const struct nfs4_stateid *stateid)
{
	static const struct nfs4_sequence none = {.cache = false};
	struct xdr_out out = {template->bytes, template->bytes + sizeof(template->bytes), false};
	struct nfs4_compound compound;

	nfs4_begin(&compound, &out, minor);
	nfs4_put_sequence(&compound, &none);
	nfs4_put_handle(&compound, handle);
	nfs4_put(&compound, operation);
	if (operation != NFS4_COMMIT)
		xdr_put_fixed(&out, stateid->bytes, sizeof(stateid->bytes));
	xdr_put_u64(&out, 0); /* offset */
	xdr_put_u32(&out, 0); /* count, or `stable` */
	if (operation == NFS4_WRITE)
		xdr_put_u32(&out, 0); /* length of the data that follows */
	template->operation = operation;
	template->length = out.at - template->bytes;
}

/* The stateid lies before the last `tail` bytes. */
static void store_stateid(uint8_t *end, size_t tail, const uint8_t *stateid)
{
	if (stateid)
		memcpy(end - tail - NFS4_STATEID, stateid, NFS4_STATEID);
}

void nfs4_template_put(const struct nfs4_template *template, struct xdr_out *out,
		       const struct nfs4_sequence *sequence, const struct nfs4_range *range)
{
	const uint32_t high = htobe32(range->offset >> 32);
	const uint32_t low = htobe32((uint32_t)range->offset);
	const uint32_t length = htobe32(range->length);
	const uint32_t numbers[] = {htobe32(sequence->sequence), htobe32(sequence->slot),
				    htobe32(sequence->highest_slot)};
	uint8_t *call = xdr_room(out, template->length), *end = out->at;

	if (!call)
		return;
	memcpy(call, template->bytes, template->length);
	memcpy(call + SESSION_AT, sequence->session, sizeof(sequence->session));
	memcpy(call + NUMBERS_AT, numbers, sizeof(numbers));
	if (template->operation == NFS4_READ) {
		const uint32_t tail[] = {high, low, length};

		memcpy(end - READ_TAIL, tail, READ_TAIL);
		store_stateid(end, READ_TAIL, range->stateid);
	} else if (template->operation == NFS4_WRITE) {
		const uint32_t tail[] = {high, low, htobe32(range->stable), length};

		memcpy(end - WRITE_TAIL, tail, WRITE_TAIL);
		store_stateid(end, WRITE_TAIL, range->stateid);
	}
}

void nfs4_get_read(struct xdr_in *in, struct io_result *read)
{
	memset(read, 0, sizeof(*read));
	read->eof = xdr_get_bool(in);
	read->count = xdr_get_u32(in);
}

/* --- clients and sessions --- */

void nfs4_put_exchange_id(struct nfs4_compound *compound, const uint8_t verifier[NFS4_VERIFIER],
			  const void *owner, uint32_t owner_length)
{
	nfs4_put(compound, NFS4_EXCHANGE_ID);
	xdr_put_fixed(compound->out, verifier, NFS4_VERIFIER);
	xdr_put_opaque(compound->out, owner, owner_length);
	xdr_put_u32(compound->out, EXCHANGE_USE_NON_PNFS);
	xdr_put_u32(compound->out, PROTECT_NONE);
	xdr_put_u32(compound->out, 0); /* implementations */
}

void nfs4_get_exchange_id(struct xdr_in *in, struct nfs4_exchange_result *exchange)
{
	struct nfs4_server *server = &exchange->server;
	uint32_t implementations;

	memset(exchange, 0, sizeof(*exchange));
	exchange->client = xdr_get_u64(in);
	exchange->sequence = xdr_get_u32(in);
	exchange->flags = xdr_get_u32(in);
	xdr_require(in, xdr_get_u32(in) == PROTECT_NONE);
	server->minor = xdr_get_u64(in);
	server->major_length = xdr_get_opaque(in, server->major, NFS4_OPAQUE_MAX);
	server->scope_length = xdr_get_opaque(in, server->scope, NFS4_OPAQUE_MAX);
	implementations = xdr_get_u32(in);
	xdr_require(in, implementations <= 1);
	if (implementations) {
		skip_opaque(in);				   /* domain */
		skip_opaque(in);				   /* name */
		xdr_skip(in, sizeof(uint64_t) + sizeof(uint32_t)); /* date */
	}
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

static void get_channel(struct xdr_in *in, struct nfs4_channel *channel)
{
	uint32_t depths;

	xdr_get_u32(in); /* pad of headers */
	channel->request_max = xdr_get_u32(in);
	channel->response_max = xdr_get_u32(in);
	channel->cached_max = xdr_get_u32(in);
	channel->operations_max = xdr_get_u32(in);
	channel->slots = xdr_get_u32(in);
	depths = xdr_get_u32(in);
	xdr_require(in, depths <= 1);
	if (depths)
		xdr_get_u32(in); /* ca_rdma_ird */
}

void nfs4_put_create_session(struct nfs4_compound *compound, uint64_t client, uint32_t sequence,
			     const struct nfs4_channel *fore)
{
	static const struct nfs4_channel back = {
		.request_max = 4096, .response_max = 4096, .operations_max = 2, .slots = 1};
	struct xdr_out *out = compound->out;

	nfs4_put(compound, NFS4_CREATE_SESSION);
	xdr_put_u64(out, client);
	xdr_put_u32(out, sequence);
	xdr_put_u32(out, 0); /* flags */
	put_channel(compound, fore);
	put_channel(compound, &back);
	xdr_put_u32(out, CALLBACK_PROGRAM);
	xdr_put_u32(out, 1); /* one csa_sec_parms: */
	xdr_put_u32(out, 0); /* AUTH_NONE */
}

void nfs4_get_create_session(struct xdr_in *in, struct nfs4_session_result *session)
{
	struct nfs4_channel back;

	memset(session, 0, sizeof(*session));
	xdr_get_fixed(in, session->session, NFS4_SESSIONID);
	xdr_get_u32(in); /* sequence */
	xdr_get_u32(in); /* flags */
	get_channel(in, &session->fore);
	xdr_require(in, session->fore.slots);
	get_channel(in, &back);
}

/* --- results that are skipped --- */

uint32_t nfs4_skip_result(struct nfs4_results *results, enum nfs4_operation operation)
{
	uint32_t status = nfs4_next_result(results, operation), bound;
	struct xdr_in *in = results->in;

	if (status)
		return status;
	switch (operation) {
	case NFS4_BIND_CONN_TO_SESSION:
		xdr_skip(in, NFS4_SESSIONID);
		bound = xdr_get_u32(in);
		xdr_require(in, bound == BOUND_FORE || bound == BOUND_BOTH);
		xdr_get_bool(in); /* RDMA mode */
		break;
	case NFS4_CLOSE: xdr_skip(in, NFS4_STATEID); break; /* meaningless: 18.2.4 */
	case NFS4_RENAME: /* of the source and the target */ skip_change_info(in);
	/* fall through */
	case NFS4_LINK:
	case NFS4_REMOVE: skip_change_info(in); break;
	case NFS4_CREATE: skip_change_info(in);
	/* fall through */
	case NFS4_SETATTR: get_bitmap(in); break; /* a failure also has it, unread */
	default: break;
	}
	return 0;
}
