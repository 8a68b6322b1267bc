/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs4_setup.h"

enum {
	NAMES_MESSAGE = 8192, /* of a session that carries no data */
	OPERATIONS_MAX = 8,   /* of a compound */
	FEW = 8,	      /* slots */
};

/* Of some operations' results the status is all that is wanted. */
static uint32_t get_status(struct nfs4_request *request, struct nfs4_results *results)
{
	return nfs4_skip_result(results, request->operation);
}

static void put_exchange_id(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	const struct nfs4_job *job = request->client->job;

	nfs4_put_exchange_id(compound, job->verifier, job->owner, (uint32_t)strlen(job->owner));
}

static uint32_t get_exchange_id(struct nfs4_request *request, struct nfs4_results *results)
{
	uint32_t status = nfs4_next_result(results, NFS4_EXCHANGE_ID);

	if (!status)
		nfs4_get_exchange_id(results, &request->exchanged);
	return status;
}

void nfs4_ask_exchange_id(struct nfs4_request *request, const struct nfs4_client *client)
{
	*request = (struct nfs4_request){
		.operation = NFS4_EXCHANGE_ID,
		.put = put_exchange_id,
		.get = get_exchange_id,
		.client = client,
	};
}

/* Messages of the size that I/O may need: sessions come before the server tells what it offers. */
static void put_create_session(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	const struct nfs4_path *path;
	uint32_t rsize = 0, wsize = 0;
	struct nfs4_channel fore;

	LIST_FOREACH (path, &request->client->paths, link) {
		rsize = max_of(rsize, path->path->config.rsize);
		wsize = max_of(wsize, path->path->config.wsize);
	}
	fore = (struct nfs4_channel){
		.request_max = max_of(wsize + NFS4_MESSAGE_ROOM, (uint32_t)NAMES_MESSAGE),
		.response_max = max_of(rsize + NFS4_MESSAGE_ROOM, (uint32_t)NAMES_MESSAGE),
		/* Servers may count slots by the room for replies that they keep: names need it,
		 * and a session with many slots carries data. */
		.cached_max = request->session->wanted > FEW ? 0 : NFS4_MESSAGE_ROOM,
		.operations_max = OPERATIONS_MAX,
		.slots = request->session->wanted,
	};

	nfs4_put_create_session(compound, request->client->id, request->client->sequence, &fore);
}

static uint32_t get_create_session(struct nfs4_request *request, struct nfs4_results *results)
{
	uint32_t status = nfs4_next_result(results, NFS4_CREATE_SESSION);

	if (!status)
		nfs4_get_create_session(results, &request->granted);
	return status;
}

/* The client is asked for again, and with it the right sequence. */
static bool bears_create_session(uint32_t status)
{
	return status == NFS4ERR_STALE_CLIENTID || status == NFS4ERR_SEQ_MISORDERED;
}

void nfs4_ask_create_session(struct nfs4_request *request, const struct nfs4_client *client,
			     const struct nfs4_session *session)
{
	*request = (struct nfs4_request){
		.operation = NFS4_CREATE_SESSION,
		.put = put_create_session,
		.get = get_create_session,
		.bears = bears_create_session,
		.client = client,
		.session = session,
	};
}

static void put_open(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	nfs4_put_handle(compound, &request->handle);
	nfs4_put_open(compound, &request->open);
}

static uint32_t get_open(struct nfs4_request *request, struct nfs4_results *results)
{
	uint32_t status =
		nfs4_next_result(results, NFS4_PUTFH) ?: nfs4_next_result(results, NFS4_OPEN);

	if (!status)
		nfs4_get_open(results, &request->opened);
	return status;
}

/* Whatever becomes of one file, the others go on. */
static bool bears_open(uint32_t status)
{
	return status != NFS4ERR_DELAY && status != NFS4ERR_GRACE;
}

void nfs4_ask_open(struct nfs4_request *request, const struct nfs4_client *client,
		   const struct nfs4_file *file, enum nfs4_claim claim)
{
	*request = (struct nfs4_request){
		.operation = NFS4_OPEN,
		.sequenced = true,
		.put = put_open,
		.get = get_open,
		.bears = bears_open,
		.handle = file->handle,
		.open = {.client = client->id,
			 .owner = file->path->owner,
			 .owner_length = (uint32_t)strlen(file->path->owner),
			 .access = file->access,
			 .claim = claim},
	};
}

static bool bears_all(uint32_t status)
{
	return status != NFS4ERR_DELAY;
}

static void put_delegreturn(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	nfs4_put_handle(compound, &request->handle);
	nfs4_put_delegreturn(compound, &request->stateid);
}

static uint32_t get_delegreturn(struct nfs4_request *request, struct nfs4_results *results)
{
	return nfs4_next_result(results, NFS4_PUTFH) ?: get_status(request, results);
}

void nfs4_ask_delegreturn(struct nfs4_request *request, const struct nfs4_file *file)
{
	*request = (struct nfs4_request){
		.operation = NFS4_DELEGRETURN,
		.sequenced = true,
		.put = put_delegreturn,
		.get = get_delegreturn,
		.bears = bears_all,
		.handle = file->handle,
		.stateid = file->delegation,
	};
}

static void put_reclaim_complete(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	(void)request;
	nfs4_put_reclaim_complete(compound);
}

static bool bears_reclaim_complete(uint32_t status)
{
	return status == NFS4ERR_COMPLETE_ALREADY;
}

void nfs4_ask_reclaim_complete(struct nfs4_request *request)
{
	*request = (struct nfs4_request){
		.operation = NFS4_RECLAIM_COMPLETE,
		.sequenced = true,
		.put = put_reclaim_complete,
		.get = get_status,
		.bears = bears_reclaim_complete,
	};
}

static void put_bind_conn(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	nfs4_put_bind_conn_to_session(compound, request->session->id);
}

/* A server may have forgotten the session meanwhile. */
static bool bears_bind_conn(uint32_t status)
{
	return status == NFS4ERR_BADSESSION || status == NFS4ERR_DEADSESSION;
}

/* One that is in doubt is destroyed next, whether it can be bound or not. */
void nfs4_ask_bind_conn(struct nfs4_request *request, const struct nfs4_session *session)
{
	*request = (struct nfs4_request){
		.operation = NFS4_BIND_CONN_TO_SESSION,
		.put = put_bind_conn,
		.get = get_status,
		.bears = session->doubtful ? bears_all : bears_bind_conn,
		.session = session,
	};
}

static void put_destroy_session(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	nfs4_put_destroy_session(compound, request->session->id);
}

void nfs4_ask_destroy_session(struct nfs4_request *request, const struct nfs4_session *session)
{
	*request = (struct nfs4_request){
		.operation = NFS4_DESTROY_SESSION,
		.put = put_destroy_session,
		.get = get_status,
		.bears = bears_all,
		.session = session,
	};
}

static void put_destroy_clientid(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	nfs4_put_destroy_clientid(compound, request->client->id);
}

void nfs4_ask_destroy_clientid(struct nfs4_request *request, const struct nfs4_client *client)
{
	*request = (struct nfs4_request){
		.operation = NFS4_DESTROY_CLIENTID,
		.put = put_destroy_clientid,
		.get = get_status,
		.bears = bears_all,
		.client = client,
	};
}

static void put_nothing(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	(void)request, (void)compound;
}

static uint32_t get_nothing(struct nfs4_request *request, struct nfs4_results *results)
{
	(void)request, (void)results;
	return 0;
}

void nfs4_ask_renewal(struct nfs4_request *request)
{
	*request = (struct nfs4_request){
		.operation = NFS4_SEQUENCE,
		.sequenced = true,
		.put = put_nothing,
		.get = get_nothing,
		.bears = bears_all,
	};
}
