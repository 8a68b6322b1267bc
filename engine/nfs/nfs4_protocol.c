/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4_protocol.c - struct protocol for NFSv4.1 (RFC 8881): READ, WRITE and COMMIT as compounds
 * that begin with SEQUENCE, the requests that set up clients and sessions, and how a call goes on
 * after its answer.
 */
#include <errno.h>
#include <stdlib.h>

#include "nfs/meta_call.h"
#include "nfs/io_result.h"
#include "nfs/nfs3.h"
#include "nfs/nfs4_client.h"
#include "nfs/nfs4_meta.h"
#include "nfs/status.h"
#include "nfs/version.h"
#include "wire/message.h"
#include "client/client.h"

static struct nfs4_state *state_of(const struct call *call)
{
	return call->rpc->state;
}

static struct nfs4_request *request_of(const struct call *call)
{
	return container_of(call->request, struct nfs4_request, base);
}

enum { OWNER_MAX = 160 }; /* bytes: struct nfs4_path's owner, a session ID and a slot */

static bool is_meta(const struct call *call)
{
	return call->io && call->io->op == IO_META;
}

/* True if the operation is done, but its open or delegation must still be returned. */
static bool gives_back(const struct call *call)
{
	return is_meta(call) && call->io->meta->left.path == meta_path(call);
}

/* CLOSE first, then DELEGRETURN, each by a call of its own. */
static enum nfs4_operation returning(const struct call *call)
{
	return call->io->meta->left.open ? NFS4_CLOSE : NFS4_DELEGRETURN;
}

/* The call's request is a struct meta_request; any other request is a struct nfs4_request. */
static bool asks_meta(const struct call *call)
{
	return call->request && call->request->meta;
}

static enum nfs4_operation operation_of(const struct call *call)
{
	if (asks_meta(call))
		return nfs4_meta_operation(meta_request_of(call)->arguments.op);
	if (!call->io)
		return request_of(call)->operation;
	if (gives_back(call))
		return returning(call);
	return is_meta(call) ? nfs4_meta_operation(meta_asked(call))
			     : nfs4_file_of(call)->calls[call->io->op].operation;
}

static const char *operation(const struct call *call)
{
	return call->io || call->request ? nfs4_operation_name(operation_of(call)) : "NULL";
}

/* --- requests --- */

enum {
	NAMES_MESSAGE = 8192, /* bytes: enough for a session that carries no data */
	OPERATIONS_MAX = 8,   /* of a compound */
	BIND_FORE = 1,	      /* RFC 8881, 18.34.1: CDFC4_FORE */
	WRAPPED_ROOM = 1024,  /* extra bytes for krb5i and krb5p: knfsd reserves 800 */
};

/* Requests messages as large as rsize and wsize need: the server's limits are not known yet. */
static void put_create_session(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	const struct nfs4_path *path;
	uint32_t rsize = 0, wsize = 0, reply_room = NFS4_MESSAGE_ROOM;
	struct nfs4_channel fore;

	LIST_FOREACH (path, &request->client->paths, link) {
		rsize = max_of(rsize, path->path->config.rsize);
		wsize = max_of(wsize, path->path->config.wsize);
		if (path->path->config.terms.security >= SEC_KRB5I)
			reply_room = NFS4_MESSAGE_ROOM + WRAPPED_ROOM;
	}
	fore = (struct nfs4_channel){
		.request_max = max_of(wsize + NFS4_MESSAGE_ROOM, (uint32_t)NAMES_MESSAGE),
		.response_max = max_of(rsize + reply_room, (uint32_t)NAMES_MESSAGE),
		/* A larger reply cache may cost slots, and only names need it. */
		.cached_max = request->session->names ? reply_room : 0,
		.operations_max = OPERATIONS_MAX,
		.slots = request->session->wanted,
	};

	nfs4_put_create_session(compound, request->client->id, request->client->sequence, &fore);
}

/* True if the operation is on a file or directory; others are on the client or a session. */
static bool by_handle(enum nfs4_operation operation)
{
	switch (operation) {
	case NFS4_OPEN:
	case NFS4_CLOSE:
	case NFS4_DELEGRETURN:
	case NFS4_SECINFO:
	case NFS4_SECINFO_NO_NAME: return true;
	default: return false;
	}
}

/* True if SEQUENCE precedes the operation, so that its call needs a slot. */
static bool is_sequenced(enum nfs4_operation operation)
{
	return by_handle(operation) || operation == NFS4_SEQUENCE ||
	       operation == NFS4_RECLAIM_COMPLETE;
}

static void put_request(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	enum nfs4_operation operation = request->operation;
	struct xdr_out *out = compound->out;

	if (by_handle(operation))
		nfs4_put_handle(compound, &request->handle);
	switch (operation) {
	case NFS4_EXCHANGE_ID:
		nfs4_put_exchange_id(compound, request->client->verifier, request->client->owner,
				     (uint32_t)strlen(request->client->owner));
		break;
	case NFS4_CREATE_SESSION: put_create_session(request, compound); break;
	case NFS4_BIND_CONN_TO_SESSION: /* 18.34: the fore channel; RDMA is not switched on later */
		nfs4_put(compound, operation);
		xdr_put_fixed(out, request->session->id, NFS4_SESSIONID);
		xdr_put_u32(out, BIND_FORE);
		xdr_put_u32(out, false);
		break;
	case NFS4_DESTROY_SESSION: /* 18.37 */
		nfs4_put(compound, operation);
		xdr_put_fixed(out, request->session->id, NFS4_SESSIONID);
		break;
	case NFS4_DESTROY_CLIENTID: /* 18.50 */
		nfs4_put(compound, operation);
		xdr_put_u64(out, request->client->id);
		break;
	case NFS4_OPEN:
		nfs4_put_open(compound, &request->open);
		if (request->open.claim == NFS4_CLAIM_NULL)
			nfs4_put(compound, NFS4_GETFH);
		break;
	case NFS4_SECINFO:
	case NFS4_SECINFO_NO_NAME: nfs4_put_secinfo(compound, request->name); break;
	case NFS4_CLOSE:
	case NFS4_DELEGRETURN: nfs4_put_give_back(compound, operation, &request->stateid); break;
	case NFS4_RECLAIM_COMPLETE: /* 18.51: for all file systems at once */
		nfs4_put(compound, operation);
		xdr_put_u32(out, false);
		break;
	default: break; /* SEQUENCE alone */
	}
}

static bool is_same(const struct nfs4_server *a, const struct nfs4_server *b)
{
	return a->major_length == b->major_length && a->scope_length == b->scope_length &&
	       !memcmp(a->major, b->major, a->major_length) &&
	       !memcmp(a->scope, b->scope, a->scope_length);
}

/* The job's one structure of this server, so that equal servers have equal pointers; NULL: out of
 * memory. */
static const struct nfs4_known_server *known_server(struct nfs4_job *job,
						    const struct nfs4_server *server)
{
	struct nfs4_known_server *known;

	SLIST_FOREACH (known, &job->servers, link)
		if (is_same(&known->server, server))
			return known;
	known = malloc(sizeof(*known));
	if (known) {
		known->server = *server;
		SLIST_INSERT_HEAD(&job->servers, known, link);
	}
	return known;
}

static void get_exchange_id(struct nfs4_request *request, struct xdr_in *in)
{
	struct nfs4_exchanged *exchanged = &request->exchanged;
	struct nfs4_exchange_result result;

	nfs4_get_exchange_id(in, &result);
	if (in->bad)
		return;
	*exchanged = (struct nfs4_exchanged){
		.client = result.client,
		.sequence = result.sequence,
		.flags = result.flags,
		.minor = result.server.minor,
		.server = known_server(request->client->job, &result.server),
	};
	xdr_require(in, exchanged->server);
}

/* Returns the first status that is not 0. */
static uint32_t get_request(struct nfs4_request *request, struct nfs4_results *results)
{
	enum nfs4_operation operation = request->operation;
	struct xdr_in *in = results->in;
	uint32_t status = 0;

	if (by_handle(operation))
		status = nfs4_next_result(results,
					  request->handle.length ? NFS4_PUTFH : NFS4_PUTROOTFH);
	if (status || operation == NFS4_SEQUENCE)
		return status;
	status = nfs4_skip_result(results, operation); /* up to a body that is read below */
	if (status)
		return status;
	switch (operation) {
	case NFS4_EXCHANGE_ID: get_exchange_id(request, in); break;
	case NFS4_CREATE_SESSION: nfs4_get_create_session(in, &request->granted); break;
	case NFS4_SECINFO:
	case NFS4_SECINFO_NO_NAME: nfs4_get_secinfo(in, &request->flavors); break;
	case NFS4_OPEN:
		nfs4_get_open(in, &request->opened);
		if (request->open.claim == NFS4_CLAIM_NULL &&
		    !(status = nfs4_next_result(results, NFS4_GETFH)))
			nfs_handle_get(in, NFS4_FHSIZE, &request->found);
		break;
	default: break;
	}
	return status;
}

/* True for a status that the request's caller handles. */
static bool tolerates(const struct nfs4_request *request, uint32_t status)
{
	switch (request->operation) {
	case NFS4_EXCHANGE_ID:
	case NFS4_CREATE_SESSION:
	case NFS4_SECINFO:
	case NFS4_SECINFO_NO_NAME: return false;
	case NFS4_BIND_CONN_TO_SESSION: /* with needs_reset the session is destroyed next anyway */
		if (!request->session->needs_reset) /* the server may have forgotten it */
			return status == NFS4ERR_BADSESSION || status == NFS4ERR_DEADSESSION;
		break;
	case NFS4_OPEN: /* reopening: one file's failure must not stop the others */
		if (request->open.claim == NFS4_CLAIM_NULL || request->first)
			return false;
	/* fall through */
	case NFS4_CLOSE: /* a refusal is accepted: the server may have forgotten the state */
	case NFS4_DELEGRETURN: return status != NFS4ERR_DELAY && status != NFS4ERR_GRACE;
	case NFS4_RECLAIM_COMPLETE: return status == NFS4ERR_COMPLETE_ALREADY;
	default: break;
	}
	return status != NFS4ERR_DELAY;
}

/* --- slots --- */

static bool needs_slot(const struct call *call)
{
	return call->io || asks_meta(call) ||
	       (call->request && is_sequenced(request_of(call)->operation));
}

static bool acquire(struct rpc_client *rpc, struct call *call)
{
	struct nfs4_state *state = rpc->state;
	uint64_t now = rpc->clock->now;

	if (!needs_slot(call))
		return true;
	if (!state->session.alive || state->session.needs_reset) {
		rpc->prepared = false; /* first replace the session */
		return false;
	}
	if (nfs4_session_acquire(&state->session, call)) {
		const struct nfs4_file *file = nfs4_file_of(call);

		/* The call keeps this stateid, even if the file is opened again later, since a
		 * retry must have the same bytes (RFC 8881, 2.10.6.1.3). */
		if (file)
			memcpy(call->stateid, file->stateid.bytes, sizeof(call->stateid));
		state->session.used_at = now;
		return true;
	}
	/*
	 * Calls of lost connections may hold all slots while they wait for set-up, which needs one:
	 * no answer will free a slot, so the session is replaced.
	 */
	if (call == rpc->setup &&
	    now - state->session.used_at > path_detour_time(&meta_path(call)->config))
		state->session.needs_reset = state->unbound = true;
	return false;
}

static void release(struct rpc_client *rpc, struct call *call, bool answered)
{
	struct nfs4_state *state = rpc->state;

	nfs4_session_release(&state->session, call, answered);
	if (!answered && state->session.needs_reset)
		state->unbound = true; /* set-up binds the next channel, then ends the session */
}

static bool slot_valid(const struct rpc_client *rpc, const struct call *call)
{
	const struct nfs4_state *state = rpc->state;

	return !call->epoch || call->epoch == state->session.epoch;
}

/* --- calls --- */

static void put_io(struct xdr_out *out, const struct call *call)
{
	const struct conn_io *io = call->io;
	const struct nfs4_file *file = io->state;
	const struct nfs4_range range = {io->offset + io->done, call_rest(call), io->stable,
					 call->stateid};
	struct nfs4_sequence sequence;

	nfs4_session_sequence(&state_of(call)->session, call, false, &sequence);
	nfs4_template_put(&file->calls[io->op], out, &sequence, &range);
}

/*
 * Writes the open-owner of a call: one for each slot of each session. Two OPENs of one owner and
 * file would share a stateid, which the first CLOSE ends (RFC 8881, 9.9).
 */
static uint32_t put_owner(char owner[OWNER_MAX], const struct nfs4_path *mine,
			  const struct nfs4_sequence *sequence)
{
	char *at = stpcpy(owner, mine->owner);

	at = mempcpy(at, sequence->session, sizeof(sequence->session));
	at = mempcpy(at, &sequence->slot, sizeof(sequence->slot));
	return (uint32_t)(at - owner);
}

static void put_meta(struct nfs4_compound *compound, const struct call *call,
		     const struct nfs4_sequence *sequence)
{
	const struct nfs4_path *mine = state_of(call)->mine;
	const struct link *link = &call->rpc->link;
	uint32_t reply_max = link->channel->head_max;
	struct meta_arguments arguments;
	char owner[OWNER_MAX];

	meta_begin(call);
	reply_max = min_of(reply_max, mine->client->response_max ?: reply_max);
	meta_fill_arguments(call, reply_max, &arguments);
	if (arguments.op == META_OPEN || arguments.op == META_CREATE) {
		arguments.client = mine->client->id;
		arguments.owner = owner;
		arguments.owner_length = put_owner(owner, mine, sequence);
		if (call->tries == 1)
			call->io->meta->closes = !mine->client->closes_apart;
		arguments.closes = call->io->meta->closes;
	}
	nfs4_put_meta(compound, &arguments);
}

/* The compound of the operation has OPEN and CLOSE. */
static bool closes(const struct call *call)
{
	return nfs4_meta_operation(meta_asked(call)) == NFS4_OPEN && call->io->meta->closes;
}

/* Finds the file by LOOKUP, and returns a stateid of it. */
static void put_return(struct nfs4_compound *compound, const struct call *call)
{
	const struct entries *entries = meta_entries(call);
	const struct conn_io *io = call->io;
	const struct nfs4_open_result *opened = &io->meta->left.opened;
	char name[ENTRY_NAME_MAX];

	entries_name(entries, io->offset, false, name);
	nfs4_put_handle(compound, entries_directory(entries, io->offset));
	nfs4_put(compound, NFS4_LOOKUP);
	xdr_put_opaque(compound->out, name, (uint32_t)strlen(name));
	nfs4_put_give_back(compound, returning(call),
			   io->meta->left.open ? &opened->stateid : &opened->delegation);
}

/* True if the request must not be carried out twice. */
static bool changes(const struct call *call)
{
	enum nfs4_operation operation;

	if (asks_meta(call))
		return meta_changes(meta_request_of(call)->arguments.op);
	operation = request_of(call)->operation;
	return operation == NFS4_OPEN || operation == NFS4_CLOSE || operation == NFS4_DELEGRETURN;
}

/* Puts any compound but put_io()'s. In a session for names, replies to changes are cached. */
static void put_compound(struct xdr_out *out, const struct call *call)
{
	const struct nfs4_session *session = &state_of(call)->session;
	struct nfs4_sequence sequence;
	struct nfs4_compound compound;

	nfs4_begin(&compound, out, meta_path(call)->config.terms.version);
	if (needs_slot(call)) {
		nfs4_session_sequence(session, call, !call->io && session->names && changes(call),
				      &sequence);
		nfs4_put_sequence(&compound, &sequence);
	}
	if (gives_back(call))
		put_return(&compound, call);
	else if (call->io)
		put_meta(&compound, call, &sequence);
	else if (asks_meta(call))
		nfs4_put_meta(&compound, &meta_request_of(call)->arguments);
	else
		put_request(request_of(call), &compound);
}

static uint8_t *encode(struct xdr_out *out, struct call *call, struct rpc_credentials *credentials)
{
	bool asks = call->io || call->request;
	uint8_t *arguments;

	rpc_encode_call(out, call->xid, NFS_PROGRAM, NFS_V4, asks ? NFS4_COMPOUND : NFS4_NULL,
			credentials, &call->stamp);
	arguments = out->at;
	if (call->io && !is_meta(call))
		put_io(out, call);
	else if (asks)
		put_compound(out, call);
	return arguments;
}

/* RPC denied the call. A denied CLOSE or DELEGRETURN does not undo the operation before it. */
static void denied(struct call *call)
{
	if (!gives_back(call))
		meta_denied(call);
}

/* --- answers --- */

#define ANEW " as soon as the file was opened again: does the server tie opens to a session?"
#define UNUSABLE(status)                                                \
	(trunks ? "NFS4ERR_" #status ANEW " Use open=none or version=3" \
		: "NFS4ERR_" #status ANEW " Use trunking=session, open=none or version=3")

/* A remedy for a server that refuses the stateid of each OPEN. */
static const char *unusable(uint32_t status, bool trunks)
{
	switch (status) {
	case NFS4ERR_EXPIRED: return UNUSABLE(EXPIRED);
	case NFS4ERR_OLD_STATEID: return UNUSABLE(OLD_STATEID);
	case NFS4ERR_STALE_STATEID: return UNUSABLE(STALE_STATEID);
	case NFS4ERR_ADMIN_REVOKED: return UNUSABLE(ADMIN_REVOKED);
	case NFS4ERR_DELEG_REVOKED: return UNUSABLE(DELEG_REVOKED);
	default: return UNUSABLE(BAD_STATEID);
	}
}

/*
 * The server refused the call's stateid. The file is opened again once for each I/O and session: a
 * server that refuses a new stateid once will refuse the next one too. If another connection has
 * opened the file again since, the call is only repeated with the latest stateid.
 */
static enum disposition stateid_refused(struct call *call, uint32_t status,
					struct call_result *result)
{
	const struct nfs4_path *mine = state_of(call)->mine;
	const struct nfs4_file *file = nfs4_file_of(call);

	if (!nfs4_file_is_meant(file, call))
		return CALL_RECOVER;
	if (call->reopened == call->epoch) {
		result->status = unusable(status, mine->trunks);
		return call_fail(result, nfs4_status(status)->error, NULL);
	}
	call->reopened = call->epoch;
	return CALL_RECOVER;
}

/* A remedy, or NULL, for a server that refuses session set-up. */
static const char *remedy(uint32_t status)
{
	switch (status) {
	case NFS4ERR_MINOR_VERS_MISMATCH:
		return "NFS4ERR_MINOR_VERS_MISMATCH: the server does not serve this minor version: "
		       "version= chooses another";
	case NFS4ERR_NOSPC:
		return "NFS4ERR_NOSPC: the server has no room for another session: end other "
		       "clients, or use a lower nconnect or iodepth";
	case NFS4ERR_TOOSMALL:
		return "NFS4ERR_TOOSMALL: the server wants larger messages than the session asks "
		       "for: use a larger rsize and wsize";
	default: return NULL;
	}
}

static enum disposition refused(struct call *call, uint32_t status, bool by_sequence,
				struct call_result *result)
{
	bool outdated = call->epoch && !slot_valid(call->rpc, call);
	const struct nfs4_file *file = nfs4_file_of(call);

	result->status = status == NFS4ERR_WRONGSEC
				 ? "NFS4ERR_WRONGSEC: the export wants other security: security= "
				   "or xprtsec= chooses it"
				 : nfs4_status(status)->name;
	result->code = status;
	switch (status) {
	case NFS4ERR_DELAY: /* from SEQUENCE: an earlier copy is still under way */
		return by_sequence && call->tries > 1 ? CALL_RETRY_SAME_SLOT : CALL_BACKOFF;
	case NFS4ERR_GRACE: return CALL_BACKOFF;
	case NFS4ERR_RETRY_UNCACHED_REP: /* the call was carried out, but its reply is lost */
		call->slot_used = true;
		return call->tries > 1 ? CALL_RETRY_NOW : CALL_RETRY_LATER;
	case NFS4ERR_BADSESSION:
	case NFS4ERR_DEADSESSION:
	case NFS4ERR_BADSLOT:
	case NFS4ERR_BAD_HIGH_SLOT:
	case NFS4ERR_SEQ_MISORDERED:
	case NFS4ERR_SEQ_FALSE_RETRY:
	case NFS4ERR_CONN_NOT_BOUND_TO_SESSION:
		if (by_sequence)
			return outdated ? CALL_RETRY_NOW : CALL_RECOVER;
		break;
	case NFS4ERR_STALE_CLIENTID: return outdated ? CALL_RETRY_NOW : CALL_RECOVER;
	case NFS4ERR_EXPIRED:
		if (by_sequence)
			return outdated ? CALL_RETRY_NOW : CALL_RECOVER;
		result->code = NFS4ERR_BAD_STATEID;
	/* fall through */
	case NFS4ERR_BAD_STATEID:
	case NFS4ERR_OLD_STATEID:
	case NFS4ERR_STALE_STATEID:
	case NFS4ERR_ADMIN_REVOKED:
	case NFS4ERR_DELEG_REVOKED:
		if (file && !file->stateless && !file->gone)
			return stateid_refused(call, status, result);
		if (file && file->gone) { /* it could not be opened again */
			status = file->gone;
			result->status = nfs4_status(status)->name;
		}
		break;
	default: break;
	}
	return call_fail(result, nfs4_status(status)->error, call->epoch ? NULL : remedy(status));
}

/* Reads SEQUENCE's results. False: SEQUENCE failed with *status, or more bytes are needed. */
static bool read_sequence(struct nfs4_results *results, struct call *call, uint32_t *status)
{
	const struct nfs4_session *session = &state_of(call)->session;
	struct nfs4_sequence_result sequence;

	*status = nfs4_next_result(results, NFS4_SEQUENCE);
	if (*status)
		return false;
	nfs4_get_sequence(results->in, &sequence);
	if (results->in->bad == XDR_SHORT)
		return false;
	call->slot_used = true;
	if (!slot_valid(call->rpc, call))
		return true;
	xdr_require(results->in, sequence.slot == call->slot &&
					 sequence.sequence == session->sequence[call->slot]);
	if (!results->in->bad)
		nfs4_session_resize(&state_of(call)->session, sequence.highest_slot,
				    sequence.target_highest_slot);
	return true;
}

static uint32_t read_io(struct nfs4_results *results, const struct call *call,
			struct io_result *data)
{
	uint32_t status = nfs4_next_result(results, NFS4_PUTFH)
				  ?: nfs4_next_result(results, operation_of(call));

	if (status)
		return status;
	switch (call->io->op) {
	case IO_READ: nfs4_get_read(results->in, data); break;
	case IO_WRITE: io_result_get_write(results->in, data); break;
	case IO_COMMIT: io_result_get_commit(results->in, data); break;
	case IO_META: break; /* decode() reads it */
	}
	return 0;
}

/*
 * Further calls return what a finished operation left at the server: an open whose CLOSE was
 * refused, or not in the compound, and a delegation that OPEN did not want. The operation counts as
 * sent: if the path is given up before those calls are answered, another path repeats the
 * operation, and finds it done.
 */
static enum disposition give_back(const struct call *call, const struct nfs4_meta_result *meta,
				  enum disposition disposition)
{
	const struct nfs4_path *mine = state_of(call)->mine;
	struct conn_io *io = call->io;
	bool open = nfs4_meta_operation(meta_asked(call)) == NFS4_OPEN &&
		    (!io->meta->closes || meta->close);

	if (meta->close == NFS4ERR_BAD_STATEID)
		mine->client->closes_apart = true;
	if (!open && !meta->opened.delegated)
		return disposition;
	io->meta->left.path = meta_path(call);
	io->meta->left.open = open;
	io->meta->left.opened = meta->opened;
	return CALL_PARTIAL;
}

/* A refused CLOSE or DELEGRETURN does not fail the operation before it. */
static enum disposition judge_return(struct call *call, uint32_t status, struct call_result *result)
{
	enum disposition disposition = status ? refused(call, status, false, result) : CALL_DONE;

	if (disposition != CALL_DONE && disposition != CALL_FAIL)
		return disposition;
	if (returning(call) == NFS4_CLOSE && call->io->meta->left.opened.delegated) {
		call->io->meta->left.open = false;
		return CALL_PARTIAL;
	}
	call->io->meta->left.path = NULL;
	return CALL_DONE;
}

static enum disposition judge_meta(struct call *call, uint32_t status,
				   const struct nfs4_meta_result *meta, struct call_result *result)
{
	enum disposition disposition;

	if (!status)
		return give_back(call, meta, meta_answered(call, &meta->all, result));
	result->status = nfs4_status(status)->name;
	if ((status == NFS4ERR_NOT_SAME || status == NFS4ERR_BAD_COOKIE) &&
	    meta_asked(call) == META_READDIR)
		return meta_restart_listing(call, nfs4_status(status)->error, result);
	if (status == NFS4ERR_EXIST || status == NFS4ERR_NOENT || status == NFS4ERR_STALE ||
	    status == NFS4ERR_FHEXPIRED) /* of the entry */
		return meta_refused(call, nfs4_status(status)->error, result);
	disposition = refused(call, status, false, result);
	if (disposition == CALL_BACKOFF && !meta->carried_out) /* the server did not carry it out */
		meta_not_begun(call);
	return disposition;
}

static enum disposition judge_request(struct call *call, uint32_t status,
				      struct call_result *result)
{
	struct nfs4_request *request = request_of(call);

	request->status = status;
	if (!status || tolerates(request, status))
		return CALL_DONE;
	result->status = nfs4_status(status)->name;
	if (request->operation == NFS4_CREATE_SESSION &&
	    (status == NFS4ERR_SEQ_MISORDERED || status == NFS4ERR_STALE_CLIENTID))
		return CALL_RETRY_LATER; /* with a new sequence, or a new client ID */
	return refused(call, status, false, result);
}

static uint32_t get_meta_request(struct nfs4_results *results,
				 const struct meta_arguments *arguments,
				 struct nfs4_meta_result *meta)
{
	bool by_handle = meta_by_handle(arguments->op);
	const struct nfs_handle *at = by_handle ? &arguments->handle : arguments->directory;

	return nfs4_get_meta(results, arguments->op, !at->length, false, meta);
}

static enum disposition decode(struct xdr_in *in, struct call *call, struct call_result *result)
{
	struct io_result data = {0};
	struct nfs4_meta_result meta;
	struct nfs4_results results;
	uint32_t status = 0;
	bool goes_on;

	if (!call->io && !call->request)
		return CALL_DONE;
	nfs4_read_results(&results, in);
	goes_on = !call->epoch || read_sequence(&results, call, &status);
	if (goes_on && gives_back(call))
		status = nfs4_next_result(&results, NFS4_PUTFH)
				 ?: nfs4_next_result(&results, NFS4_LOOKUP)
				 ?: nfs4_skip_result(&results, returning(call));
	else if (goes_on && is_meta(call))
		status = nfs4_get_meta(&results, meta_asked(call), !meta_directory(call)->length,
				       closes(call), &meta);
	else if (goes_on && call->io)
		status = read_io(&results, call, &data);
	else if (goes_on && asks_meta(call))
		status = get_meta_request(&results, &meta_request_of(call)->arguments, &meta);
	else if (goes_on)
		status = get_request(request_of(call), &results);
	xdr_require(in, !results.left);
	if (in->bad == XDR_SHORT && results.status)
		result->status = nfs4_status(results.status)->name;
	if (in->bad)
		return CALL_DONE;
	if (!goes_on && is_meta(call) && !gives_back(call) && call->tries == 1)
		meta_not_begun(call);
	if (!goes_on)
		return refused(call, status, true, result);
	if (asks_meta(call))
		return status ? refused(call, status, false, result)
			      : meta_request_take(call, &meta.all);
	if (!call->io)
		return judge_request(call, status, result);
	if (gives_back(call))
		return judge_return(call, status, result);
	if (is_meta(call))
		return judge_meta(call, status, &meta, result);
	return status ? refused(call, status, false, result) : io_result_judge(call, &data, result);
}

const struct protocol nfs4_protocol = {
	.program = NFS_PROGRAM,
	.version = NFS_V4,
	.read_head = NFS4_READ_HEAD,
	.sends_once = true,
	.operation = operation,
	.attach = nfs4_client_attach,
	.detach = nfs4_client_detach,
	.prepare = nfs4_client_prepare,
	.acquire = acquire,
	.release = release,
	.slot_valid = slot_valid,
	.encode = encode,
	.decode = decode,
	.denied = denied,
	.recover = nfs4_client_recover,
	.tick = nfs4_client_tick,
	.due = nfs4_client_due,
	.lease = nfs4_client_lease,
};
