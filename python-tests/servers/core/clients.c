/* SPDX-License-Identifier: GPL-2.0-only */
#include "core/clients.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "util.h"

/* --- what there is --- */

bool clients_init(struct clients *clients, uint32_t sessions, uint32_t slots)
{
	struct slot *all = calloc((size_t)sessions * slots, sizeof(*all));

	*clients = (struct clients){
		.session_count = sessions,
		.slot_count = slots,
		.sessions = calloc(sessions, sizeof(struct session)),
	};
	if (!all || !clients->sessions)
		return false;
	for (uint32_t i = 0; i < sessions; i++)
		clients->sessions[i].slot = all + (size_t)i * slots;
	clients->open_count = CLIENTS_OPENS;
	return !pthread_mutex_init(&clients->lock, NULL);
}

void clients_forget_opens(struct clients *clients)
{
	memset(clients->opens, 0, sizeof(clients->opens));
}

void clients_forget_sessions(struct clients *clients)
{
	for (uint32_t i = 0; i < clients->session_count; i++)
		clients->sessions[i].number = 0;
}

static void end_client(struct client *client)
{
	client->id = 0;
	client->confirmed = client->reclaimed = client->told = false;
	client->completed = NULL;
	client->created = NULL;
}

void clients_forget_one(struct clients *clients, struct client *client)
{
	for (uint32_t i = 0; i < clients->session_count; i++)
		if (clients->sessions[i].client == client->id)
			clients->sessions[i].number = 0;
	for (uint32_t i = 0; i < clients->open_count; i++)
		if (clients->opens[i].client == client->id)
			clients->opens[i].number = 0;
	end_client(client);
}

void clients_forget(struct clients *clients)
{
	clients_forget_sessions(clients);
	clients_forget_opens(clients);
	for (uint32_t i = 0; i < clients->client_count; i++)
		end_client(&clients->all[i]);
}

void clients_begin(struct clients *clients)
{
	clients_forget_sessions(clients);
	clients_forget_opens(clients);
	memset(clients->all, 0, sizeof(clients->all));
	clients->client_count = 0;
	clients->sessions_made = clients->opens_made = clients->uses = 0;
	clients->grace_until = 0;
}

void clients_restart(struct clients *clients)
{
	clients_forget(clients);
	clients->instance++;
	clients->grace_until = clients->now + clients->grace;
}

struct clients_kept clients_kept(const struct clients *clients)
{
	struct clients_kept kept = {0};

	for (uint32_t i = 0; i < clients->client_count; i++)
		kept.clients += clients->all[i].id != 0;
	for (uint32_t i = 0; i < clients->session_count; i++)
		kept.sessions += clients->sessions[i].number != 0;
	for (uint32_t i = 0; i < clients->open_count; i++)
		if (clients->opens[i].number) {
			kept.opens++;
			kept.access |= clients->opens[i].access;
		}
	return kept;
}

static uint64_t random_below(const struct clients *clients, uint64_t below)
{
	return clients->random ? clients->random(below) : 0;
}

/* --- clients --- */

/* `id`; for 0, which the latest client may have been told, the one that it has here. */
static uint64_t known_id(const struct nfs_call *call, uint64_t id)
{
	const struct clients *clients = call->clients;

	return call->limits->zero_id && !id && clients->client_count
		       ? clients->all[clients->client_count - 1].id
		       : id;
}

/* An ID ends with its client's place. NULL: no client that is kept has it. */
static struct client *find_client(struct clients *clients, uint64_t id)
{
	struct client *client = &clients->all[id % CLIENTS_MAX];

	return id && client->id == id ? client : NULL;
}

/* The same, for a call that names it, or uses what it has. */
static struct client *find_used(struct nfs_call *call, uint64_t id)
{
	struct client *client = find_client(call->clients, id);

	if (client)
		front_uses(call, client);
	return client;
}

static bool is_known(struct nfs_call *call, uint64_t id)
{
	return call->clients->keeps ? find_used(call, id) != NULL
				    : id >> 32 == call->clients->instance;
}

static struct client *find_named(struct clients *clients, struct xdr_in owner)
{
	const uint32_t length = (uint32_t)(owner.end - owner.at);
	struct client *client = clients->all, *end = client + clients->client_count;

	while (client < end &&
	       (client->name_length != length || memcmp(client->name, owner.at, length)))
		client++;
	if (client < end)
		return client;
	if (clients->client_count++ == CLIENTS_MAX || length > CLIENTS_NAME)
		abort(); /* no test has so many */
	client->name_length = length;
	memcpy(client->name, owner.at, length);
	return client;
}

/* Where clients are not kept, each has one ID at all addresses, and another after it restarts. */
struct exchanged clients_exchange(struct nfs_call *call, struct xdr_in owner)
{
	struct clients *clients = call->clients;
	const uint64_t instance = (uint64_t)clients->instance << 32;
	struct client *client;
	uint32_t sequence;
	uint64_t verifier;

	if (!clients->keeps)
		return (struct exchanged){instance | words_sum(owner), 1, false};
	verifier = xdr_get_u64(&owner);
	client = find_named(clients, owner);
	if (client->id && client->verifier != verifier) /* it has begun anew (18.35.4) */
		clients_forget_one(clients, client);
	client->verifier = verifier;
	if (!client->id) {
		client->id = instance | ((1ull + clients->sessions_made) * CLIENTS_MAX +
					 (uint64_t)(client - clients->all));
		client->sequence = 1 + (uint32_t)random_below(clients, 1000);
	}
	front_uses(call, client);
	sequence = client->sequence;
	if (client->confirmed && call->limits->next_session)
		sequence = call->limits->next_session - 1;
	return (struct exchanged){call->limits->zero_id ? 0 : client->id, sequence,
				  client->confirmed};
}

/* RFC 8881, 18.50.3: not while it has sessions or opens. */
uint32_t clients_destroy(struct nfs_call *call, uint64_t id)
{
	struct clients *clients = call->clients;
	bool any = false;

	id = known_id(call, id);
	if (!is_known(call, id))
		return NFS4ERR_STALE_CLIENTID;
	pthread_mutex_lock(&clients->lock);
	for (uint32_t i = 0; i < clients->session_count; i++)
		any |= clients->sessions[i].number && clients->sessions[i].client == id;
	pthread_mutex_unlock(&clients->lock);
	for (uint32_t i = 0; clients->keeps && i < clients->open_count; i++)
		any |= clients->opens[i].number && clients->opens[i].client == id;
	if (any)
		return NFS4ERR_CLIENTID_BUSY;
	if (clients->keeps)
		clients_forget_one(clients, find_client(clients, id));
	return NFS4_OK;
}

/* --- sessions --- */

static inline struct session *find_session(const struct nfs_call *call)
{
	const struct session_id id = call->asked->session;
	const struct clients *clients = call->clients;
	struct session *session;
	uint32_t number;

	if (id.instance != clients->instance || id.index >= clients->session_count)
		return NULL;
	session = &clients->sessions[id.index];
	number = atomic_load_explicit(&session->number, memory_order_acquire);
	return number && number == id.number && !id.high ? session : NULL;
}

static void bind_to(struct session *session, uint32_t connection)
{
	session->bound[session->bindings++ % CLIENTS_BOUND] = connection;
}

static bool is_bound(const struct session *session, uint32_t connection)
{
	for (int i = 0; i < CLIENTS_BOUND; i++)
		if (session->bound[i] == connection)
			return true;
	return false;
}

/* The first that is free, or the oldest. */
static struct session *place_of_session(const struct clients *clients)
{
	struct session *oldest = clients->sessions;

	for (uint32_t i = 0; i < clients->session_count && oldest->number; i++)
		if (clients->sessions[i].number < oldest->number)
			oldest = &clients->sessions[i];
	return oldest;
}

static struct session *new_session(struct clients *clients, uint64_t client, uint32_t slots)
{
	struct session *session = place_of_session(clients);
	uint32_t most = clients->terms->slots;

	most = min_of(most ?: 1 + (uint32_t)random_below(clients, clients->slot_count),
		      clients->slot_count);
	slots = min_of(max_of(slots, 1u), most);
	atomic_store(&session->number, 0);
	session->client = client;
	session->bindings = 0;
	memset(session->bound, 0, sizeof(session->bound));
	for (uint32_t i = 0; i < slots; i++)
		session->slot[i] = (struct slot){.results = session->slot[i].results};
	session->granted = slots;
	atomic_store(&session->slots, slots);
	atomic_store(&session->target, slots);
	atomic_store(&session->number, ++clients->sessions_made);
	return session;
}

/* That call may come again: then it gives the same session. NULL: it is misordered. */
static struct session *create_session(struct clients *clients, uint64_t id, uint32_t sequence,
				      uint32_t slots)
{
	struct client *client = clients->keeps ? find_client(clients, id) : NULL;

	if (!client)
		return new_session(clients, id, slots);
	if (sequence == client->sequence) {
		client->sequence++;
		client->confirmed = true;
		client->completed = NULL; /* another may get the place of that session */
		client->created = new_session(clients, id, slots);
	} else if (sequence + 1 != client->sequence) {
		return NULL;
	}
	return client->created && client->created->number ? client->created : NULL;
}

uint32_t clients_create_session(struct nfs_call *call, struct channel *channel)
{
	struct arguments *asked = call->asked;
	const uint64_t client = known_id(call, asked->client);
	struct clients *clients = call->clients;
	struct session *session;

	if (!is_known(call, client))
		return NFS4ERR_STALE_CLIENTID;
	pthread_mutex_lock(&clients->lock);
	session = create_session(clients, client, asked->client_sequence, channel->slots);
	if (session) {
		bind_to(session, call->connection);
		channel->slots = session->slots;
		session->request_max = channel->request_max;
		session->response_max = channel->response_max;
		asked->session = (struct session_id){clients->instance,
						     (uint32_t)(session - clients->sessions), 0,
						     session->number};
	}
	pthread_mutex_unlock(&clients->lock);
	return session ? NFS4_OK : NFS4ERR_SEQ_MISORDERED;
}

void clients_refuse_session(struct nfs_call *call, uint64_t id)
{
	struct client *client;

	pthread_mutex_lock(&call->clients->lock);
	client = find_client(call->clients, known_id(call, id));
	if (client) {
		client->sequence++;
		client->created = NULL;
	}
	pthread_mutex_unlock(&call->clients->lock);
}

uint32_t clients_bind_session(struct nfs_call *call)
{
	struct session *session;

	pthread_mutex_lock(&call->clients->lock);
	session = find_session(call);
	if (session)
		bind_to(session, call->connection);
	if (session && call->clients->keeps)
		find_used(call, session->client);
	pthread_mutex_unlock(&call->clients->lock);
	return session ? NFS4_OK : NFS4ERR_BADSESSION;
}

uint32_t clients_destroy_session(struct nfs_call *call)
{
	struct session *session;
	uint32_t status = NFS4_OK;

	pthread_mutex_lock(&call->clients->lock);
	session = find_session(call);
	if (session && call->clients->keeps)
		find_used(call, session->client);
	if (!session)
		status = NFS4ERR_BADSESSION;
	else if (call->clients->terms->binds && !is_bound(session, call->connection))
		status = NFS4ERR_CONN_NOT_BOUND_TO_SESSION; /* RFC 8881, 18.37.3 */
	else
		atomic_store(&session->number, 0);
	pthread_mutex_unlock(&call->clients->lock);
	return status;
}

/* --- slots --- */

static uint32_t take_again(struct nfs_call *call, struct slot *slot)
{
	const struct xdr_in *whole = &call->compound->whole;

	if (whole->end - whole->at != slot->call_length || words_sum(*whole) != slot->call_sum)
		return NFS4ERR_SEQ_FALSE_RETRY;
	if (slot->pending && !slot->length)
		return NFS4ERR_DELAY; /* the first copy has not been answered */
	call->slot = slot;
	slot->uncached = !slot->length;
	if (!slot->length)
		return NFS4ERR_RETRY_UNCACHED_REP;
	call->compound->kept = slot;
	call->in->at = call->in->end;
	return NFS4_OK;
}

/* What a retry is compared with, and what it gets, is kept. Apart, as the sink need not do it. */
static __attribute__((noinline)) uint32_t keep(struct nfs_call *call, struct session *session,
					       struct slot *slot)
{
	struct client *client = find_used(call, session->client);
	const uint32_t length = (uint32_t)(call->compound->whole.end - call->compound->whole.at);
	uint32_t status;

	call->client = session->client;
	if (call->asked->sequence == slot->sequence)
		return take_again(call, slot);
	if (call->asked->sequence != slot->sequence + 1)
		return NFS4ERR_SEQ_MISORDERED;
	if (call->call_header + length > session->request_max)
		return NFS4ERR_REQ_TOO_BIG;
	call->compound->response_max = session->response_max;
	slot->results = slot->results ?: malloc(CLIENTS_REPLY_MAX);
	if (!slot->results)
		abort();
	status = front_take_slot(call, session, slot);
	if (status)
		return status;
	if (client && client->completed == slot && !slot->uncached) /* it goes on over the slot */
		client->told = true;
	slot->use = ++call->clients->uses;
	slot->pending = slot->length = 0;
	slot->answered = false;
	slot->uncached = call->clients->terms->thrifty && !call->asked->keep;
	slot->call_length = length;
	slot->call_sum = words_sum(call->compound->whole);
	call->slot = slot;
	slot->sequence = call->asked->sequence;
	return NFS4_OK;
}

/*
 * Load and store, without a locked instruction: a slot has one call at a time, and two threads that
 * serve one call twice do no harm where no reply is kept.
 */
uint32_t clients_sequence(struct nfs_call *call, uint32_t *slots, uint32_t *target)
{
	const struct arguments *asked = call->asked;
	struct session *session = find_session(call);
	uint32_t last, status = NFS4_OK;
	struct slot *slot;

	if (!session)
		return NFS4ERR_BADSESSION;
	if (call->clients->terms->binds && !is_bound(session, call->connection))
		return NFS4ERR_CONN_NOT_BOUND_TO_SESSION;
	*slots = atomic_load_explicit(&session->slots, memory_order_relaxed);
	if (asked->slot >= *slots)
		return NFS4ERR_BADSLOT;
	slot = &session->slot[asked->slot];
	last = atomic_load_explicit(&slot->sequence, memory_order_relaxed);
	if (call->clients->keeps)
		status = keep(call, session, slot);
	else if (asked->sequence != last + 1)
		return asked->sequence == last ? NFS4ERR_RETRY_UNCACHED_REP
					       : NFS4ERR_SEQ_MISORDERED;
	else
		atomic_store_explicit(&slot->sequence, asked->sequence, memory_order_relaxed);
	*target = atomic_load_explicit(&session->target, memory_order_relaxed);
	return status;
}

/* Long results are not kept. */
uint32_t clients_begin_reply(struct clients *clients, struct slot *slot, const uint8_t *results,
			     uint32_t length)
{
	if (!slot->length && !slot->uncached && !clients->terms->uncached &&
	    length <= CLIENTS_REPLY_MAX) {
		slot->length = (uint16_t)length;
		memcpy(slot->results, results, length);
	}
	slot->pending++;
	return slot->use;
}

void clients_end_reply(struct slot *slot, uint32_t number, bool left)
{
	if (slot->use != number)
		return; /* the session is another by now */
	slot->pending--;
	slot->answered = slot->answered || left;
}

/* --- opens: where none is kept, a stateid is that of its file --- */

uint32_t clients_may_open(struct nfs_call *call, enum nfs4_claim claim)
{
	struct clients *clients = call->clients;
	const struct client *client = find_client(clients, call->client);

	if (!clients->keeps)
		return NFS4_OK;
	if (!client)
		return NFS4ERR_EXPIRED;
	if (claim != NFS4_CLAIM_PREVIOUS) /* RFC 8881, 18.51.4 */
		return client->reclaimed ? NFS4_OK : NFS4ERR_GRACE;
	return clients->now < clients->grace_until && !client->reclaimed ? NFS4_OK
									 : NFS4ERR_NO_GRACE;
}

/* The owner's open of that file, or NULL. */
static struct clients_open *find_open(const struct nfs_call *call, uint64_t file, uint32_t owner)
{
	struct clients *clients = call->clients;

	for (uint32_t i = 0; clients->joins && i < clients->open_count; i++) {
		struct clients_open *open = &clients->opens[i];

		if (open->number && open->client == call->client && open->owner == owner &&
		    open->file == file && open->access)
			return open;
	}
	return NULL;
}

static struct clients_open *new_open(const struct nfs_call *call, uint64_t file, uint32_t owner)
{
	struct clients *clients = call->clients;
	uint32_t number = ++clients->opens_made;
	struct clients_open *open = &clients->opens[number % clients->open_count];

	*open = (struct clients_open){number, owner, 0, call->client, file};
	return open;
}

struct stateid clients_open(struct nfs_call *call, uint64_t file, uint32_t access,
			    struct xdr_in owner)
{
	uint32_t number = (uint32_t)file, sum;
	struct clients_open *open;

	if (call->clients->keeps) {
		sum = words_sum(owner);
		open = find_open(call, file, sum) ?: new_open(call, file, sum);
		open->access |= access;
		number = open->number;
	}
	return (struct stateid){{1, 0, call->clients->instance, number}};
}

struct stateid clients_delegate(struct nfs_call *call, uint64_t file)
{
	return (struct stateid){{1, 0, call->clients->instance, new_open(call, file, 0)->number}};
}

/* Zeros or ones throughout: a special one, which is nobody's. */
uint32_t clients_use(struct nfs_call *call, uint64_t file, const struct stateid *stateid)
{
	const struct clients *clients = call->clients;
	const uint32_t *words = stateid->words, number = words[3];
	const struct clients_open *open;

	if (words[1] || words[2] != clients->instance) {
		if ((words[0] & words[1] & words[2] & words[3]) == UINT32_MAX)
			return NFS4_OK;
		if (words[1] || words[2] || words[3])
			return NFS4ERR_STALE_STATEID;
		return words[0] ? NFS4ERR_BAD_STATEID : NFS4_OK;
	}
	if (!clients->keeps)
		return number == file ? NFS4_OK : NFS4ERR_BAD_STATEID;
	open = &clients->opens[number % clients->open_count];
	if (!number || open->number != number || open->file != file)
		return NFS4ERR_BAD_STATEID;
	find_used(call, open->client);
	return NFS4_OK;
}

uint32_t clients_close(struct nfs_call *call, uint64_t file, const struct stateid *stateid)
{
	struct clients *clients = call->clients;
	uint32_t status = clients_use(call, file, stateid);

	if (!status && stateid->words[2] != clients->instance)
		return NFS4ERR_BAD_STATEID; /* a special one, which is no open's (RFC 8881, 8.2.3)
					     */
	if (!status && clients->keeps)
		clients->opens[stateid->words[3] % clients->open_count].number = 0;
	return status;
}

uint32_t clients_reclaim_complete(struct nfs_call *call)
{
	struct client *client = find_client(call->clients, call->client);

	if (!call->clients->keeps)
		return NFS4_OK;
	if (!client)
		return NFS4ERR_EXPIRED;
	if (client->reclaimed)
		return NFS4ERR_COMPLETE_ALREADY;
	client->reclaimed = true;
	client->completed = call->slot;
	return NFS4_OK;
}
