/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs4_client.h"

#include <stdlib.h>
#include <sys/random.h>

#include "client/client.h"

enum { LEASE_PARTS = 3 }; /* an idle session renews the lease after a third of it */
enum { NAMES_SLOTS = 8 }; /* slots of a session for names: the server caches their replies */

/* --- a job's clients --- */

/* Each job of each run has a co_ownerid of its own (RFC 8881, 2.4). */
static struct nfs4_job *job_of(struct path *path)
{
	struct nfs4_job *job = *path->job.state;
	uint64_t chance;
	char host[40] = "";

	if (job)
		return job;
	job = calloc(1, sizeof(*job));
	if (!job || getrandom(&chance, sizeof(chance), 0) != sizeof(chance) ||
	    getrandom(job->verifier, sizeof(job->verifier), 0) != sizeof(job->verifier)) {
		free(job);
		return NULL;
	}
	gethostname(host, sizeof(host) - 1);
	snprintf(job->owner, sizeof(job->owner), "nfsmulti %s %d %016llx", host, getpid(),
		 (unsigned long long)chance);
	*path->job.state = job;
	return job;
}

static void free_job(struct nfs4_job *job)
{
	struct nfs4_known_server *server;

	while ((server = SLIST_FIRST(&job->servers))) {
		SLIST_REMOVE_HEAD(&job->servers, link);
		free(server);
	}
	free(job);
}

/* A path with a client; NULL: out of memory. */
static struct nfs4_path *new_path(struct path *path, struct nfs4_job *job)
{
	struct nfs4_path *mine = calloc(1, sizeof(*mine));
	struct nfs4_client *client = calloc(1, sizeof(*client));

	if (!mine || !client) {
		free(mine);
		free(client);
		return NULL;
	}
	TAILQ_INIT(&mine->files);
	mine->path = path;
	mine->client = client;
	snprintf(mine->owner, sizeof(mine->owner), "%s %u", job->owner, ++job->paths);
	client->job = job;
	client->owner = job->owner;
	memcpy(client->verifier, job->verifier, sizeof(client->verifier));
	LIST_INSERT_HEAD(&client->paths, mine, link);
	return mine;
}

/*
 * The state of `path`, made at the first call; NULL: out of memory. Each path begins with a client
 * of its own; adopt() joins those that lead to one server.
 */
static struct nfs4_path *state_of(struct path *path)
{
	struct nfs4_job *job = job_of(path);
	struct nfs4_path *mine = path->state;

	if (mine || !job || !(mine = new_path(path, job)))
		return mine;
	LIST_INSERT_HEAD(&job->clients, mine->client, link);
	path->state = mine;
	return mine;
}

/* nclients=: the state of connection number `own` alone. Its owner is the prefix of its opens'. */
static struct nfs4_path *new_own(const struct nfs4_path *names, uint32_t own)
{
	struct nfs4_path *mine = new_path(names->path, names->client->job);

	if (!mine)
		return NULL;
	mine->client->own = own;
	mine->client->owner = mine->owner;
	mine->client->lease_time = names->client->lease_time;
	for (size_t i = 0; i < sizeof(own); i++)
		mine->client->verifier[i] ^= (uint8_t)(own >> 8 * i);
	return mine;
}

static void free_client(struct nfs4_client *client)
{
	struct nfs4_state *state;

	while ((state = LIST_FIRST(&client->sessions))) {
		LIST_REMOVE(state, link);
		free(state);
	}
	if (!client->own)
		LIST_REMOVE(client, link);
	free(client);
}

static void free_own(struct nfs4_path *mine)
{
	struct nfs4_file *file;

	while ((file = TAILQ_FIRST(&mine->files)))
		nfs4_client_free_file(file);
	free_client(mine->client);
	free(mine);
}

void nfs4_path_free(struct path *path)
{
	struct nfs4_path *mine = path->state;
	struct nfs4_client *client = mine->client;
	struct nfs4_job *job = client->job;
	struct nfs4_state *state;

	LIST_FOREACH (state, &client->sessions, link)
		if (state->path == path)
			state->path = NULL;
	LIST_REMOVE(mine, link);
	if (LIST_EMPTY(&client->paths) && client->waited)
		path_say(path,
			 "the server grants a session %u slot%s, and calls waited for one "
			 "%llu times: use a lower iodepth or a higher nconnect",
			 client->slots, client->slots == 1 ? "" : "s",
			 (unsigned long long)client->waited);
	if (LIST_EMPTY(&client->paths))
		free_client(client);
	if (LIST_EMPTY(&job->clients)) {
		*path->job.state = NULL;
		free_job(job);
	}
	path->state = NULL;
	free(mine);
}

/* --- sessions --- */

static struct nfs4_state *new_state(struct rpc_client *rpc)
{
	uint32_t wanted =
		min_of(rpc->calls_max, (uint32_t)(rpc->names ? NAMES_SLOTS : NFS4_SLOTS_MAX));
	uint32_t most = rpc->own ? wanted : NFS4_SLOTS_MAX; /* of thousands, none needs more */
	struct nfs4_path *mine = state_of(rpc->server);
	struct nfs4_state *state =
		mine ? calloc(1, sizeof(*state) + most * sizeof(*state->sequences)) : NULL;

	if (state && rpc->own && !(mine = new_own(mine, rpc->own))) {
		free(state);
		return NULL;
	}
	if (!state)
		return NULL;
	state->mine = mine;
	state->client = mine->client;
	state->path = rpc->server;
	state->session.names = rpc->names;
	state->session.wanted = wanted;
	state->session.slots_max = most;
	state->session.sequence = state->sequences;
	LIST_INSERT_HEAD(&mine->client->sessions, state, link);
	return state;
}

int nfs4_client_attach(struct rpc_client *rpc)
{
	struct path *path = rpc->server;
	struct nfs4_path *mine = path->state;
	bool shares = mine && mine->trunks && !rpc->names;
	struct nfs4_state *state = shares ? mine->client->shared : NULL;
	struct nfs4_request *renewal = calloc(1, sizeof(*renewal));

	if (renewal && !state)
		state = new_state(rpc);
	if (!renewal || !state) {
		free(renewal);
		return -ENOMEM;
	}
	renewal->base.done = true;
	rpc->renewal = renewal;
	if (shares)
		state->client->shared = state;
	state->users++;
	rpc->state = state;
	return 0;
}

/* A session that the server may still have stays in the client's list, for teardown. */
void nfs4_client_detach(struct rpc_client *rpc)
{
	struct nfs4_state *state = rpc->state;
	struct nfs4_client *client = state->client;

	rpc->state = NULL;
	free(rpc->renewal);
	if (client->busy == rpc)
		client->busy = NULL;
	if (--state->users)
		return;
	if (client->shared == state)
		client->shared = NULL;
	if (state->session.waited && !rpc->names && !client->own) {
		struct nfs4_path *path = state->path->state;

		path->client->waited += state->session.waited;
		path->client->slots = state->session.slots;
	}
	if (client->own) {
		free_own(state->mine);
		return;
	}
	if (state->session.alive || client->creating == &state->session)
		return;
	LIST_REMOVE(state, link);
	free(state);
}

/* --- taking answers --- */

/* The first of the client's files for which `what` returns true, or NULL. */
static struct nfs4_file *find_file(const struct nfs4_client *client,
				   bool (*what)(struct nfs4_file *file))
{
	const struct nfs4_path *path;
	struct nfs4_file *file;

	LIST_FOREACH (path, &client->paths, link) {
		TAILQ_FOREACH (file, &path->files, link) {
			if (what(file))
				return file;
		}
	}
	return NULL;
}

static bool lose_file(struct nfs4_file *file)
{
	file->lost = !file->stateless && !file->closing;
	file->delegated = false;
	return false;
}

static bool is_lost(struct nfs4_file *file)
{
	return file->lost;
}

static bool is_closing(struct nfs4_file *file)
{
	return file->closing;
}

static bool is_delegated(struct nfs4_file *file)
{
	return file->delegated;
}

struct nfs4_file *nfs4_client_new_file(struct nfs4_path *path, uint32_t number,
				       const struct nfs4_template *calls)
{
	size_t own = calls ? 0 : (IO_COMMIT + 1) * sizeof(*calls);
	struct nfs4_file *file = calloc(1, sizeof(*file) + own);

	if (!file)
		return NULL;
	snprintf(file->owner, sizeof(file->owner), "%s %u", path->owner, number);
	file->path = path;
	file->calls = calls ?: file->own_calls;
	file->stateless = path->path->config.terms.stateless;
	return file;
}

void nfs4_client_file_opened(struct nfs4_file *file, const struct nfs4_stateid *stateid,
			     uint64_t now)
{
	static const enum nfs4_operation operations[] = {
		[IO_READ] = NFS4_READ, [IO_WRITE] = NFS4_WRITE, [IO_COMMIT] = NFS4_COMMIT};

	file->stateid = *stateid;
	file->opened_at = now;
	file->lost = false;
	for (enum io_op op = IO_READ; op <= IO_COMMIT && file->calls == file->own_calls; op++)
		nfs4_template_make(&file->own_calls[op], operations[op],
				   file->path->path->config.terms.version, &file->handle, stateid);
}

void nfs4_client_free_file(struct nfs4_file *file)
{
	struct nfs4_state *state;

	LIST_FOREACH (state, &file->path->client->sessions, link)
		if (state->reopening == file)
			state->reopening = NULL;
	TAILQ_REMOVE(&file->path->files, file, link);
	free(file);
}

/* The server has forgotten the client, with its sessions and opens. */
static void lose_state(struct nfs4_client *client)
{
	struct nfs4_state *state;

	LIST_FOREACH (state, &client->sessions, link)
		state->session.alive = false;
	find_file(client, lose_file);
	client->complete = false;
	client->reclaims = true;
}

/* Moves the path of `state` to `client`, since both have the same server. */
static void adopt(struct nfs4_state *state, struct nfs4_client *client)
{
	struct nfs4_client *own = state->client;
	struct nfs4_path *path = state->mine;

	LIST_REMOVE(path, link);
	LIST_INSERT_HEAD(&client->paths, path, link);
	LIST_REMOVE(state, link);
	LIST_INSERT_HEAD(&client->sessions, state, link);
	path->client = state->client = client;
	free_client(own);
}

/*
 * EXCHANGE_ID's sequence is meaningless once the client ID is confirmed (RFC 8881, 18.35.3). We
 * still use it if it differs from our count only by CREATE_SESSIONs in doubt, or if ours is wrong.
 */
static void take_sequence(struct nfs4_client *client, const struct nfs4_exchanged *result)
{
	bool confirmed =
		client->named && client->id == result->client && result->flags & NFS4_CONFIRMED;
	uint32_t step = result->sequence - (client->sequence - client->ahead);

	if (confirmed && !client->sequence_unknown && step > max_of(client->ahead, 1u))
		return;
	client->sequence = result->sequence;
	client->ahead = 0;
	client->sequence_unknown = false;
}

static void exchanged(struct nfs4_state *state, const struct nfs4_exchanged *result)
{
	struct nfs4_client *client = state->client, *other;

	state->mine->server_minor = result->minor;
	if (!client->named && !client->own)
		LIST_FOREACH (other, &client->job->clients, link) {
			if (other->named && other->id == result->client &&
			    other->server == result->server) {
				adopt(state, other);
				return;
			}
		}
	/* A server that restarts within a second may give the same ID again, unconfirmed. */
	if (client->named && (result->client != client->id || !(result->flags & NFS4_CONFIRMED)))
		lose_state(client);
	take_sequence(client, result);
	client->server = result->server;
	client->id = result->client;
	client->named = client->known = true;
	client->creating = NULL;
}

/* How often in a row we drop a CREATE_SESSION reply that has another connection's session. Then we
 * use that session: the server may have one session ID for all. */
static const int SHARED_MOST = 3;

/*
 * True if the session belongs to another connection. A slow server may give two connections the
 * same sequence by EXCHANGE_ID: the second CREATE_SESSION then gets the reply to the first.
 */
static bool is_anothers(const struct nfs4_state *state, const struct nfs4_session_result *granted)
{
	const struct nfs4_state *other;

	LIST_FOREACH (other, &state->client->sessions, link)
		if (other != state && other->session.alive &&
		    !memcmp(other->session.id, granted->session, sizeof(granted->session)))
			return true;
	return false;
}

/*
 * Called when CREATE_SESSION is answered. If it made no session of ours, the server may or may not
 * have counted it: we assume that it did, until SEQ_MISORDERED refuses the next one.
 */
static void count_created(struct nfs4_client *client, uint32_t status, bool ours)
{
	if (status != NFS4ERR_SEQ_MISORDERED) {
		client->sequence++;
		client->ahead = ours ? 0 : client->ahead + 1;
	} else if (client->ahead) {
		client->sequence--;
		client->ahead--;
	} else {
		client->sequence_unknown = true;
	}
}

static void created(struct nfs4_state *state, const struct nfs4_request *request)
{
	struct nfs4_client *client = state->client;
	bool ours = !request->status &&
		    (!is_anothers(state, &request->granted) || state->shared++ >= SHARED_MOST);

	client->creating = NULL;
	count_created(client, request->status, ours);
	if (!ours) {
		client->known = false;
		return;
	}
	state->shared = 0;
	if (!state->session.names) {
		const struct nfs4_channel *fore = &request->granted.fore;

		client->request_max = min_of(client->request_max ?: UINT32_MAX, fore->request_max);
		client->response_max =
			min_of(client->response_max ?: UINT32_MAX, fore->response_max);
	}
	state->unbound = false;
	nfs4_session_begin(&state->session, ++client->epochs, &request->granted);
}

static void reopened(struct nfs4_state *state, const struct nfs4_request *request, uint64_t now)
{
	struct nfs4_file *file = state->reopening;

	state->reopening = NULL;
	if (!file)
		return; /* closed meanwhile */
	if (!request->status) {
		nfs4_client_file_opened(file, &request->opened.stateid, now);
		file->delegated = request->opened.delegated;
		file->delegation = request->opened.delegation;
	} else if (request->open.claim == NFS4_CLAIM_PREVIOUS) {
		state->client->reclaims = false; /* too late: CLAIM_FH is next */
	} else {
		file->gone = request->status;
		file->lost = false;
	}
}

/*
 * True where another connection got an answer after this EXCHANGE_ID was sent: the client ID may be
 * confirmed by now, and the sequence in this answer out of date.
 */
static bool is_outdated(const struct nfs4_state *state)
{
	return state->client->known && state->client->answers != state->asked_after;
}

static void take_answer(struct nfs4_state *state, uint64_t now)
{
	const struct nfs4_request *request = &state->setup;

	state->asked = false;
	switch (request->operation) {
	case NFS4_EXCHANGE_ID:
		if (is_outdated(state))
			break;
		state->client->answers++;
		exchanged(state, &request->exchanged);
		break;
	case NFS4_CREATE_SESSION:
		created(state, request);
		state->client->answers++;
		break;
	case NFS4_OPEN: reopened(state, request, now); break;
	case NFS4_DELEGRETURN: /* never sent again, whatever its status */
		if (state->reopening)
			state->reopening->delegated = false;
		state->reopening = NULL;
		break;
	case NFS4_CLOSE:
		if (state->reopening)
			nfs4_client_free_file(state->reopening);
		break;
	case NFS4_RECLAIM_COMPLETE: state->client->complete = true; break;
	case NFS4_DESTROY_SESSION: state->session.alive = false; break;
	case NFS4_DESTROY_CLIENTID: state->client->named = false; break;
	case NFS4_BIND_CONN_TO_SESSION:
		state->unbound = false;
		if (request->status && !state->session.needs_reset)
			state->session.alive = false; /* with needs_reset it is destroyed next */
		break;
	default: break;
	}
}

/* --- preparing --- */

void nfs4_ask(struct nfs4_request *request, enum nfs4_operation operation,
	      const struct nfs4_client *client, const struct nfs4_session *session)
{
	*request = (struct nfs4_request){
		.operation = operation,
		.client = client,
		.session = session,
	};
}

/* Sets up an OPEN by the file's handle. */
static void reopen(struct nfs4_state *state, struct nfs4_file *file, enum nfs4_claim claim)
{
	state->reopening = file;
	nfs4_ask(&state->setup, NFS4_OPEN, state->client, NULL);
	state->setup.handle = file->handle;
	state->setup.first = state->client->own && claim == NFS4_CLAIM_FH && !file->opened_at;
	state->setup.open = (struct nfs4_open){
		.client = state->client->id,
		.owner = file->owner,
		.owner_length = (uint32_t)strlen(file->owner),
		.access = file->access,
		.claim = claim,
	};
}

/* Sets up a CLOSE, or a DELEGRETURN. */
static void give_back(struct nfs4_state *state, struct nfs4_file *file,
		      enum nfs4_operation operation, const struct nfs4_stateid *stateid)
{
	state->reopening = file;
	nfs4_ask(&state->setup, operation, state->client, NULL);
	state->setup.handle = file->handle;
	state->setup.stateid = *stateid;
}

/* next_request() for a client that leaves, whose session is bound. */
static bool next_farewell(struct nfs4_state *state)
{
	struct nfs4_client *client = state->client;
	struct nfs4_file *file = find_file(client, is_closing);

	if (state->session.alive && file)
		give_back(state, file, NFS4_CLOSE, &file->stateid);
	else if (state->session.alive)
		nfs4_ask(&state->setup, NFS4_DESTROY_SESSION, client, &state->session);
	else if (file && client->known) /* CLOSE needs a session, and DESTROY_CLIENTID the CLOSE */
		nfs4_ask(&state->setup, NFS4_CREATE_SESSION, client, &state->session);
	else if (client->named)
		nfs4_ask(&state->setup, NFS4_DESTROY_CLIENTID, client, NULL);
	else
		return false;
	return true;
}

/*
 * Fills state->setup with the next request; false: there is none. Asks EXCHANGE_ID for the next
 * sequence if a CREATE_SESSION for another session may have been carried out.
 */
static bool next_request(struct nfs4_state *state)
{
	struct nfs4_client *client = state->client;
	struct nfs4_session *session = &state->session;
	struct nfs4_file *file;

	if (session->alive && state->unbound) {
		nfs4_ask(&state->setup, NFS4_BIND_CONN_TO_SESSION, client, session);
	} else if (session->alive && session->needs_reset) {
		nfs4_ask(&state->setup, NFS4_DESTROY_SESSION, client, session);
	} else if (client->leaving) {
		return next_farewell(state);
	} else if (!client->known ||
		   (!session->alive && client->creating && client->creating != session)) {
		nfs4_ask(&state->setup, NFS4_EXCHANGE_ID, client, NULL);
	} else if (!session->alive) {
		client->creating = session;
		nfs4_ask(&state->setup, NFS4_CREATE_SESSION, client, session);
	} else if ((file = find_file(client, is_lost)) && client->reclaims &&
		   (file->opened_at || !client->own)) {
		reopen(state, file, NFS4_CLAIM_PREVIOUS);
	} else if (!client->complete) {
		nfs4_ask(&state->setup, NFS4_RECLAIM_COMPLETE, client, NULL);
	} else if (file) {
		reopen(state, file, NFS4_CLAIM_FH);
	} else if ((file = find_file(client, is_delegated))) {
		give_back(state, file, NFS4_DELEGRETURN, &file->delegation);
	} else if ((file = find_file(client, is_closing))) {
		give_back(state, file, NFS4_CLOSE, &file->stateid);
	} else {
		return false;
	}
	return true;
}

/*
 * True if another connection is setting up. Other sessions wait at most a second after its latest
 * call: perhaps nobody polls that connection, since the job polls names or data, not both.
 */
static bool is_busy(const struct nfs4_client *client, const struct rpc_client *rpc)
{
	const struct rpc_client *busy = client->busy;

	return busy && busy != rpc && busy->setup &&
	       (busy->state == rpc->state ||
		rpc->clock->read(rpc->clock) - busy->setup->last_sent < SEC);
}

enum preparation nfs4_client_prepare(struct rpc_client *rpc, struct rpc_request **request)
{
	struct nfs4_state *state = rpc->state;
	struct nfs4_client *client = state->client;
	const struct nfs4_request *setup = &state->setup;

	if (is_busy(client, rpc))
		return PREPARE_WAIT;
	/*
	 * A server may cache its refusal of a CREATE_SESSION and repeat it for the same sequence
	 * (RFC 8881, 18.36): a refusal counts as an answer, and EXCHANGE_ID comes next.
	 */
	if (state->asked &&
	    (setup->base.done || (setup->operation == NFS4_CREATE_SESSION && setup->status)))
		take_answer(state, rpc->clock->read(rpc->clock));
	client = state->client; /* adopt() may have replaced it */
	if (!next_request(state)) {
		client->busy = NULL;
		client->reclaims = false;
		return PREPARED;
	}
	client->busy = rpc;
	state->asked = true;
	state->asked_after = client->answers;
	*request = &state->setup.base;
	return PREPARE_ASK;
}

void nfs4_client_recover(struct rpc_client *rpc, const struct call *call,
			 const struct call_result *result)
{
	struct nfs4_state *state = rpc->state;
	struct nfs4_file *file;

	switch (result->code) {
	case NFS4ERR_STALE_CLIENTID:
	case NFS4ERR_EXPIRED:
		state->client->known = false;
		state->session.alive = false;
		break;
	case NFS4ERR_BADSESSION: state->session.alive = false; break;
	case NFS4ERR_DEADSESSION:
	case NFS4ERR_BADSLOT:
	case NFS4ERR_BAD_HIGH_SLOT:
	case NFS4ERR_SEQ_MISORDERED:
	case NFS4ERR_SEQ_FALSE_RETRY: /* a refused SEQUENCE may not have bound the connection */
		state->session.needs_reset = state->unbound = true;
		break;
	case NFS4ERR_CONN_NOT_BOUND_TO_SESSION: state->unbound = true; break;
	default:
		file = nfs4_file_of(call);
		if (file && nfs4_file_is_meant(file, call))
			file->lost = true;
	}
}

/* --- clients of one connection's own --- */

int nfs4_own_file(struct rpc_client *rpc, uint32_t number, const void *file, void **out)
{
	struct nfs4_state *state = rpc->state;
	const struct nfs4_file *found = file;
	struct nfs4_file *own = nfs4_client_new_file(state->mine, number, found->calls);

	if (!own)
		return -ENOMEM;
	own->handle = found->handle;
	own->access = found->access;
	lose_file(own); /* a stateless file has the special stateid already: zeros */
	TAILQ_INSERT_TAIL(&own->path->files, own, link);
	rpc->prepared = false;
	*out = own;
	return 0;
}

void nfs4_close_own_file(struct rpc_client *rpc, void *file)
{
	struct nfs4_state *state = rpc->state;
	struct nfs4_file *own = file;

	if (own->stateless || own->gone || (own->lost && state->reopening != own)) {
		nfs4_client_free_file(own);
		return;
	}
	state->setup.first =
		state->setup.first && state->reopening != own; /* nobody waits for it */
	own->lost = false; /* an OPEN under way is answered first */
	own->closing = true;
	rpc->prepared = false;
}

void nfs4_leave(struct rpc_client *rpc)
{
	struct nfs4_state *state = rpc->state;

	if (!state->client->leaving || state->setup.operation == NFS4_OPEN)
		rpc->setup_at = 0; /* what the server asked to wait for is not sent again */
	if (state->client->leaving)
		return;
	state->client->leaving = true;
	state->unbound = state->unbound || rpc->counters->reconnects;
	rpc->prepared = false;
}

/* --- trunking --- */

int nfs4_path_check_trunking(struct nfs4_path *mine)
{
	const struct nfs4_client *client, *oldest = mine->client;
	const struct nfs4_path *one, *first = mine; /* the job's first path */
	const struct path *path = mine->path;

	if (!path->config.terms.trunking)
		return 0;
	LIST_FOREACH (client, &mine->client->job->clients, link)
		oldest = client;
	LIST_FOREACH (one, &oldest->paths, link)
		first = one;
	if (mine->client->server != first->client->server) {
		path_say(path,
			 "trunking=session: this is another server than %s leads to "
			 "(server_owner, RFC 8881, 2.10.5): use trunking=clientid",
			 first->path->config.label);
		return -EINVAL;
	}
	mine->trunks = mine->client == first->client && mine->server_minor == first->server_minor;
	if (!mine->trunks)
		path_say(path,
			 "trunking=session: the server does not span a session over this "
			 "address and %s (RFC 8881, 2.10.5): trunking=clientid here",
			 first->path->config.label);
	return 0;
}

/* --- the lease --- */

uint64_t nfs4_client_lease(const struct rpc_client *rpc)
{
	const struct nfs4_state *state = rpc->state;

	return state->client->lease_time * SEC;
}

/*
 * The clients of nclients= begin at almost the same time. If they also fell idle together, all
 * would renew their leases together: so the first renewal of each comes early by a part of its own.
 */
uint64_t nfs4_client_due(const struct rpc_client *rpc)
{
	const struct nfs4_state *state = rpc->state;
	const struct nfs4_client *client = state->client;
	uint64_t time = nfs4_client_lease(rpc) / LEASE_PARTS;

	if (!time)
		return UINT64_MAX;
	if (client->own && !client->renewed) /* a share of 0 to 1, evenly spread (Knuth) */
		time = time * (client->own * 2654435761u >> 16) >> 16;
	return state->session.used_at + time;
}

/* Each connection of a shared session has a renewal of its own: a lost connection keeps its renewal
 * until it is connected again. */
void nfs4_client_tick(struct rpc_client *rpc, uint64_t now)
{
	struct nfs4_state *state = rpc->state;
	struct nfs4_request *renewal = rpc->renewal;

	if (!renewal->base.done || !rpc->prepared || now < nfs4_client_due(rpc))
		return;
	state->client->renewed = true;
	nfs4_ask(renewal, NFS4_SEQUENCE, state->client, NULL);
	client_request(rpc, &renewal->base);
}
