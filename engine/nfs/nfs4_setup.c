/* SPDX-License-Identifier: GPL-2.0-only */
#include <stdlib.h>

#include "nfs/nfs4_client.h"

enum {
	NAMES_MESSAGE = 8192, /* bytes: enough for a session that carries no data */
	OPERATIONS_MAX = 8,   /* of a compound */
	BIND_FORE = 1,	      /* RFC 8881, 18.34.1: CDFC4_FORE */
	WRAPPED_ROOM = 1024,  /* extra bytes for krb5i and krb5p: knfsd reserves 800 */
};

/* --- arguments --- */

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

bool nfs4_is_sequenced(enum nfs4_operation operation)
{
	return by_handle(operation) || operation == NFS4_SEQUENCE ||
	       operation == NFS4_RECLAIM_COMPLETE;
}

void nfs4_put_request(const struct nfs4_request *request, struct nfs4_compound *compound)
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

/* --- results --- */

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

static void get_exchange_id(struct nfs4_request *request, struct nfs4_results *results)
{
	struct nfs4_exchanged *exchanged = &request->exchanged;
	struct nfs4_exchange_result result;

	nfs4_get_exchange_id(results, &result);
	if (results->in->bad || results->broken)
		return;
	*exchanged = (struct nfs4_exchanged){
		.client = result.client,
		.sequence = result.sequence,
		.flags = result.flags,
		.minor = result.server.minor,
		.server = known_server(request->client->job, &result.server),
	};
	results->broken = !exchanged->server;
}

uint32_t nfs4_get_request(struct nfs4_request *request, struct nfs4_results *results)
{
	enum nfs4_operation operation = request->operation;
	uint32_t status = 0;

	if (by_handle(operation))
		status = nfs4_next_result(results,
					  request->handle.length ? NFS4_PUTFH : NFS4_PUTROOTFH);
	if (status || operation == NFS4_SEQUENCE)
		return status;
	if (operation == NFS4_BIND_CONN_TO_SESSION || operation == NFS4_CLOSE)
		return nfs4_skip_result(results, operation);
	status = nfs4_next_result(results, operation);
	if (status)
		return status;
	switch (operation) {
	case NFS4_EXCHANGE_ID: get_exchange_id(request, results); break;
	case NFS4_CREATE_SESSION: nfs4_get_create_session(results, &request->granted); break;
	case NFS4_SECINFO:
	case NFS4_SECINFO_NO_NAME: nfs4_get_secinfo(results, &request->flavors); break;
	case NFS4_OPEN:
		nfs4_get_open(results, &request->opened);
		if (request->open.claim == NFS4_CLAIM_NULL &&
		    !(status = nfs4_next_result(results, NFS4_GETFH)))
			nfs4_get_handle(results, &request->found);
		break;
	default: break;
	}
	return status;
}

bool nfs4_tolerates(const struct nfs4_request *request, uint32_t status)
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

/* --- requests --- */

void nfs4_ask(struct nfs4_request *request, enum nfs4_operation operation,
	      const struct nfs4_client *client, const struct nfs4_session *session)
{
	*request = (struct nfs4_request){
		.operation = operation,
		.client = client,
		.session = session,
	};
}
