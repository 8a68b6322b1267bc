/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs4_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "session/session.h"

enum {
	REQUEST_ROOM = 1024,  /* of a message, beside its data */
	NAMES_MESSAGE = 8192, /* of a session that carries no data */
	OPERATIONS_MAX = 8,   /* of a compound */
	LEASE_PARTS = 3,      /* an idle client renews it after a third */
	FEW = 8,	      /* slots */
};

/* --- the client --- */

/* One name for each path of each job, and another for the next run (RFC 8881, 2.4). */
static int name_client(struct nfs4_client *client)
{
	uint64_t chance;
	char host[64] = "";

	if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance) ||
	    getrandom(client->verifier, sizeof(client->verifier), 0) != sizeof(client->verifier))
		return -EIO;
	gethostname(host, sizeof(host) - 1);
	snprintf(client->owner, sizeof(client->owner), "nfsmulti %s %d %016llx", host, getpid(),
		 (unsigned long long)chance);
	return 0;
}

struct nfs4_client *nfs4_client_of(struct path *path)
{
	struct nfs4_client *client = path->state;

	if (client)
		return client;
	client = calloc(1, sizeof(*client));
	if (!client || name_client(client)) {
		free(client);
		return NULL;
	}
	client->path = path;
	client->minor = path->config.minor;
	path->state = client;
	return client;
}

void nfs4_client_free(struct nfs4_client *client)
{
	struct nfs4_session *session;

	while ((session = LIST_FIRST(&client->sessions))) {
		LIST_REMOVE(session, link);
		free(container_of(session, struct nfs4_state, session));
	}
	client->path->state = NULL;
	free(client);
}

/* --- its sessions --- */

int nfs4_client_attach(struct session *session)
{
	struct nfs4_client *client = nfs4_client_of(session->path);
	struct nfs4_state *state = client ? calloc(1, sizeof(*state)) : NULL;

	if (!state)
		return -ENOMEM;
	state->client = client;
	state->session.wanted = min_of(session->calls_max, (uint32_t)NFS4_SLOTS_MAX);
	LIST_INSERT_HEAD(&client->sessions, &state->session, link);
	session->state = state;
	return 0;
}

/* What the server may still know of it stays, for the leave that the client takes. */
void nfs4_client_detach(struct session *session)
{
	struct nfs4_state *state = session->state;

	if (state->client->busy && state->client->busy->session == session)
		state->client->busy = NULL;
	session->state = NULL;
	if (state->session.alive || state->client->creating == &state->session)
		return;
	LIST_REMOVE(&state->session, link);
	free(state);
}

/* --- requests, in the order in which they are needed --- */

static void put_exchange_id(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	const struct nfs4_client *client = request->client;

	nfs4_put_exchange_id(compound, client->verifier, client->owner,
			     (uint32_t)strlen(client->owner));
}

static uint32_t get_exchange_id(struct nfs4_request *request, struct nfs4_results *results)
{
	uint32_t status = nfs4_next_result(results, NFS4_EXCHANGE_ID);

	if (!status)
		nfs4_get_exchange_id(results, &request->exchanged);
	return status;
}

static void exchange_id(struct nfs4_state *state)
{
	state->setup = (struct nfs4_request){
		.operation = NFS4_EXCHANGE_ID,
		.put = put_exchange_id,
		.get = get_exchange_id,
		.client = state->client,
	};
}

/* Messages of the size that the path's I/O needs, once that is known. */
static void put_create_session(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	const struct path *path = request->client->path;
	const struct nfs4_channel fore = {
		.request_max = max_of(path->write_max + REQUEST_ROOM, (uint32_t)NAMES_MESSAGE),
		.response_max = max_of(path->read_max + REQUEST_ROOM, (uint32_t)NAMES_MESSAGE),
		/* Servers may count slots by the room for replies that they keep: names need it,
		 * and a session with many slots carries data. */
		.cached_max = request->session->wanted > FEW ? 0 : REQUEST_ROOM,
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

static void create_session(struct nfs4_state *state)
{
	state->setup = (struct nfs4_request){
		.operation = NFS4_CREATE_SESSION,
		.put = put_create_session,
		.get = get_create_session,
		.bears = bears_create_session,
		.client = state->client,
		.session = &state->session,
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

static void reopen(struct nfs4_state *state, struct nfs4_file *file, enum nfs4_claim claim)
{
	const struct nfs4_client *client = state->client;

	state->reopening = file;
	state->setup = (struct nfs4_request){
		.operation = NFS4_OPEN,
		.sequenced = true,
		.put = put_open,
		.get = get_open,
		.bears = bears_open,
		.handle = file->handle,
		.open = {.client = client->id,
			 .owner = client->owner,
			 .owner_length = (uint32_t)strlen(client->owner),
			 .access = file->access,
			 .claim = claim},
	};
}

static void put_reclaim_complete(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	(void)request;
	nfs4_put_reclaim_complete(compound);
}

static uint32_t get_reclaim_complete(struct nfs4_request *request, struct nfs4_results *results)
{
	(void)request;
	return nfs4_next_result(results, NFS4_RECLAIM_COMPLETE);
}

static bool bears_reclaim_complete(uint32_t status)
{
	return status == NFS4ERR_COMPLETE_ALREADY;
}

static void reclaim_complete(struct nfs4_state *state)
{
	state->setup = (struct nfs4_request){
		.operation = NFS4_RECLAIM_COMPLETE,
		.sequenced = true,
		.put = put_reclaim_complete,
		.get = get_reclaim_complete,
		.bears = bears_reclaim_complete,
	};
}

static void put_destroy_session(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	nfs4_put_destroy_session(compound, request->session->id);
}

static uint32_t get_destroy_session(struct nfs4_request *request, struct nfs4_results *results)
{
	(void)request;
	return nfs4_next_result(results, NFS4_DESTROY_SESSION);
}

static bool bears_all(uint32_t status)
{
	return status != NFS4ERR_DELAY;
}

void nfs4_destroy_session(struct nfs4_request *request, const struct nfs4_session *session)
{
	*request = (struct nfs4_request){
		.operation = NFS4_DESTROY_SESSION,
		.put = put_destroy_session,
		.get = get_destroy_session,
		.bears = bears_all,
		.session = session,
	};
}

static void put_destroy_clientid(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	nfs4_put_destroy_clientid(compound, request->client->id);
}

static uint32_t get_destroy_clientid(struct nfs4_request *request, struct nfs4_results *results)
{
	(void)request;
	return nfs4_next_result(results, NFS4_DESTROY_CLIENTID);
}

void nfs4_destroy_clientid(struct nfs4_request *request, const struct nfs4_client *client)
{
	*request = (struct nfs4_request){
		.operation = NFS4_DESTROY_CLIENTID,
		.put = put_destroy_clientid,
		.get = get_destroy_clientid,
		.bears = bears_all,
		.client = client,
	};
}

/* --- what the answers mean --- */

/* The server has forgotten the client: its sessions and opens are gone as well. */
static void lose_state(struct nfs4_client *client)
{
	const struct path *path = client->path;
	struct nfs4_session *session;

	LIST_FOREACH(session, &client->sessions, link)
	session->alive = false;
	for (uint32_t i = 0; i < path->job.file_count; i++) {
		struct nfs4_file *file = path->files[i].state;

		if (file && !file->stateless)
			file->lost = true;
	}
	client->complete = false;
	client->reclaims = true;
}

static void exchanged(struct nfs4_client *client, const struct nfs4_exchange_result *result)
{
	if (client->id && result->client != client->id)
		lose_state(client);
	client->id = result->client;
	client->sequence = result->sequence;
	client->known = true;
	client->creating = NULL;
}

static void created(struct nfs4_state *state, const struct nfs4_request *request)
{
	struct nfs4_client *client = state->client;

	client->creating = NULL;
	if (request->status) {
		client->known = false;
		return;
	}
	client->sequence++;
	nfs4_session_begin(&state->session, ++client->epochs, &request->granted);
}

static void reopened(struct nfs4_state *state, const struct nfs4_request *request)
{
	struct nfs4_file *file = state->reopening;

	state->reopening = NULL;
	if (!request->status) {
		file->stateid = request->opened.stateid;
		file->opened_at = clock_now();
		file->lost = false;
	} else if (request->open.claim == NFS4_CLAIM_PREVIOUS) {
		state->client->reclaims = false; /* too late: as if for the first time */
	} else {
		file->gone = request->status;
		file->lost = false;
	}
}

static void take_answer(struct nfs4_state *state)
{
	const struct nfs4_request *request = &state->setup;

	state->asked = false;
	switch (request->operation) {
	case NFS4_EXCHANGE_ID: exchanged(state->client, &request->exchanged); break;
	case NFS4_CREATE_SESSION: created(state, request); break;
	case NFS4_OPEN: reopened(state, request); break;
	case NFS4_RECLAIM_COMPLETE: state->client->complete = true; break;
	case NFS4_DESTROY_SESSION: state->session.alive = false; break;
	default: break;
	}
}

/* --- preparing --- */

static struct nfs4_file *next_lost(const struct nfs4_client *client)
{
	const struct path *path = client->path;

	for (uint32_t i = 0; i < path->job.file_count; i++) {
		struct nfs4_file *file = path->files[i].state;

		if (file && file->lost)
			return file;
	}
	return NULL;
}

/*
 * Fills state->setup with what is to be asked next; false: nothing. The server knows a client by
 * the number of its next CREATE_SESSION: where one of another session may have been carried out,
 * the number is asked for anew.
 */
static bool next_request(struct nfs4_state *state)
{
	struct nfs4_client *client = state->client;
	struct nfs4_session *session = &state->session;
	struct nfs4_file *file;

	if (session->alive && session->doubtful) {
		nfs4_destroy_session(&state->setup, session);
	} else if (!client->known ||
		   (!session->alive && client->creating && client->creating != session)) {
		exchange_id(state);
	} else if (!session->alive) {
		client->creating = session;
		create_session(state);
	} else if ((file = next_lost(client)) && client->reclaims) {
		reopen(state, file, NFS4_CLAIM_PREVIOUS);
	} else if (!client->complete) {
		reclaim_complete(state);
	} else if (file) {
		reopen(state, file, NFS4_CLAIM_FH);
	} else {
		return false;
	}
	return true;
}

enum preparation nfs4_client_prepare(struct session_channel *channel, struct request **request)
{
	struct nfs4_state *state = channel->session->state;
	struct nfs4_client *client = state->client;

	if (client->busy && client->busy != channel && client->busy->setup)
		return PREPARE_WAIT;
	client->busy = channel;
	if (state->asked && state->setup.base.done)
		take_answer(state);
	if (!next_request(state)) {
		client->busy = NULL;
		client->reclaims = false;
		return PREPARED;
	}
	state->asked = true;
	*request = &state->setup.base;
	return PREPARE_ASK;
}

void nfs4_client_recover(struct session *session, const struct call *call,
			 const struct call_result *result)
{
	struct nfs4_state *state = session->state;
	struct nfs4_file *file;

	switch (result->code) {
	case NFS4ERR_STALE_CLIENTID:
	case NFS4ERR_EXPIRED:
		state->client->known = false;
		state->session.alive = false;
		break;
	case NFS4ERR_BADSESSION:
	case NFS4ERR_DEADSESSION:
	case NFS4ERR_BADSLOT:
	case NFS4ERR_BAD_HIGH_SLOT:
	case NFS4ERR_SEQ_MISORDERED:
	case NFS4ERR_SEQ_FALSE_RETRY:
	case NFS4ERR_CONN_NOT_BOUND_TO_SESSION: state->session.alive = false; break;
	default:
		file = call->io ? session->path->files[call->io->file].state : NULL;
		if (file && file->opened_at <= call->last_sent)
			file->lost = true;
	}
}

/* --- the lease --- */

static void put_nothing(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	(void)request, (void)compound;
}

static uint32_t get_nothing(struct nfs4_request *request, struct nfs4_results *results)
{
	(void)request, (void)results;
	return 0;
}

void nfs4_client_tick(struct session_channel *channel, uint64_t now)
{
	struct nfs4_state *state = channel->session->state;
	uint64_t lease = state->client->lease_time * SEC;

	if (state->renewing && !state->renewal.base.done)
		return;
	state->renewing = false;
	if (!lease || !channel->prepared || now - state->session.used_at < lease / LEASE_PARTS)
		return;
	state->renewal = (struct nfs4_request){
		.operation = NFS4_SEQUENCE,
		.sequenced = true,
		.put = put_nothing,
		.get = get_nothing,
		.bears = bears_all,
	};
	state->renewing = true;
	session_request(channel, &state->renewal.base);
}
