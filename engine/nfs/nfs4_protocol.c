/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4_protocol.c - struct protocol for NFSv4.1 (RFC 8881): READ, WRITE and COMMIT as compounds
 * that begin with SEQUENCE, and how a call goes on after its answer.
 */
#include <errno.h>

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

/* --- slots --- */

static bool needs_slot(const struct call *call)
{
	return call->io || asks_meta(call) ||
	       (call->request && nfs4_is_sequenced(request_of(call)->operation));
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

static void put_return(struct nfs4_compound *compound, const struct call *call)
{
	const struct entries *entries = meta_entries(call);
	const struct conn_io *io = call->io;
	const struct nfs4_open_result *opened = &io->meta->left.opened;
	char name[ENTRY_NAME_MAX];

	entries_name(entries, io->offset, false, name);
	nfs4_put_return(compound, entries_directory(entries, io->offset), name, returning(call),
			io->meta->left.open ? &opened->stateid : &opened->delegation);
}

/* True if the request must not be carried out twice. */
static bool changes(const struct call *call)
{
	if (asks_meta(call))
		return meta_changes(meta_request_of(call)->arguments.op);
	switch (request_of(call)->operation) {
	case NFS4_OPEN:
	case NFS4_CLOSE:
	case NFS4_DELEGRETURN: return true;
	default: return false;
	}
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
		nfs4_put_request(request_of(call), &compound);
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
		return call_fail(result, nfs4_errno(status), NULL);
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
				 : nfs4_status_name(status);
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
			result->status = nfs4_status_name(status);
		}
		break;
	default: break;
	}
	return call_fail(result, nfs4_errno(status), call->epoch ? NULL : remedy(status));
}

/* Reads SEQUENCE's results. False: SEQUENCE failed with *status, or more bytes are needed. */
static bool read_sequence(struct nfs4_results *results, struct call *call, uint32_t *status)
{
	const struct nfs4_session *session = &state_of(call)->session;
	struct nfs4_sequence_result sequence;

	*status = nfs4_next_result(results, NFS4_SEQUENCE);
	if (*status)
		return false;
	nfs4_get_sequence(results, &sequence);
	if (results->in->bad)
		return false;
	call->slot_used = true;
	if (!slot_valid(call->rpc, call))
		return true;
	if (sequence.slot != call->slot || sequence.sequence != session->sequence[call->slot])
		results->broken = true;
	else
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
	case IO_READ: nfs4_get_read(results, data); break;
	case IO_WRITE: nfs4_get_write(results, data); break;
	case IO_COMMIT: nfs4_get_commit(results, data); break;
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
	result->status = nfs4_status_name(status);
	if ((status == NFS4ERR_NOT_SAME || status == NFS4ERR_BAD_COOKIE) &&
	    meta_asked(call) == META_READDIR)
		return meta_restart_listing(call, nfs4_errno(status), result);
	if (status == NFS4ERR_EXIST || status == NFS4ERR_NOENT || status == NFS4ERR_STALE ||
	    status == NFS4ERR_FHEXPIRED) /* of the entry */
		return meta_refused(call, nfs4_errno(status), result);
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
	if (!status || nfs4_tolerates(request, status))
		return CALL_DONE;
	result->status = nfs4_status_name(status);
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
		status = nfs4_get_return(&results, returning(call));
	else if (goes_on && is_meta(call))
		status = nfs4_get_meta(&results, meta_asked(call), !meta_directory(call)->length,
				       closes(call), &meta);
	else if (goes_on && call->io)
		status = read_io(&results, call, &data);
	else if (goes_on && asks_meta(call))
		status = get_meta_request(&results, &meta_request_of(call)->arguments, &meta);
	else if (goes_on)
		status = nfs4_get_request(request_of(call), &results);
	if (in->bad && results.status)
		result->status = nfs4_status_name(results.status);
	if (in->bad)
		return CALL_DONE;
	if (!nfs4_results_sound(&results))
		return call_fail(result, EPROTO, "the reply contradicts the call or itself");
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
