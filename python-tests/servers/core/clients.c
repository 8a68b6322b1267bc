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

void clients_forget(struct clients *clients)
{
	clients_forget_sessions(clients);
	clients_forget_opens(clients);
	clients->client = 0;
	clients->confirmed = clients->reclaimed = false;
	clients->created = NULL;
}

void clients_begin(struct clients *clients)
{
	clients_forget(clients);
	clients->sessions_made = clients->opens_made = clients->uses = 0;
	clients->grace_until = 0;
}

void clients_restart(struct clients *clients)
{
	clients_forget(clients);
	clients->instance++;
	clients->grace_until = clients->now + clients->grace;
}

static uint64_t random_below(const struct clients *clients, uint64_t below)
{
	return clients->random ? clients->random(below) : 0;
}

/* --- clients --- */

static bool is_known(const struct clients *clients, uint64_t id)
{
	return clients->keeps ? id && id == clients->client : id >> 32 == clients->instance;
}

/* Where clients are not kept, each has one ID at all addresses, and another after it restarts. */
uint64_t clients_exchange(struct nfs_call *call, struct xdr_in owner)
{
	struct clients *clients = call->clients;
	const uint64_t instance = (uint64_t)clients->instance << 32;

	if (!clients->keeps)
		return instance | words_sum(owner);
	if (!clients->client) {
		clients->client = instance | (1 + clients->sessions_made);
		clients->sequence = 1 + (uint32_t)random_below(clients, 1000);
	}
	return clients->client;
}

uint32_t clients_destroy(struct nfs_call *call, uint64_t id)
{
	struct clients *clients = call->clients;
	bool any = false;

	if (!is_known(clients, id))
		return NFS4ERR_STALE_CLIENTID;
	if (clients->keeps) /* names and data are one client: both destroy it */
		return NFS4_OK;
	pthread_mutex_lock(&clients->lock);
	for (uint32_t i = 0; i < clients->session_count; i++)
		any |= clients->sessions[i].number && clients->sessions[i].client == id;
	pthread_mutex_unlock(&clients->lock);
	return any ? NFS4ERR_CLIENTID_BUSY : NFS4_OK;
}

/* --- sessions --- */

static struct session *find_session(const struct clients *clients, struct session_id id)
{
	struct session *session;
	uint64_t number;

	if (id.instance != clients->instance || id.index >= clients->session_count)
		return NULL;
	session = &clients->sessions[id.index];
	number = atomic_load_explicit(&session->number, memory_order_acquire);
	return number && number == id.number ? session : NULL;
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
	atomic_store(&session->slots, slots);
	atomic_store(&session->target, slots);
	atomic_store(&session->number, ++clients->sessions_made);
	return session;
}

/* That call may come again: then it gives the same session. NULL: it is misordered. */
static struct session *create_session(struct clients *clients, uint64_t client, uint32_t sequence,
				      uint32_t slots)
{
	if (!clients->keeps)
		return new_session(clients, client, slots);
	if (sequence == clients->sequence) {
		clients->sequence++;
		clients->confirmed = true;
		clients->created = new_session(clients, client, slots);
	} else if (sequence + 1 != clients->sequence) {
		return NULL;
	}
	return clients->created && clients->created->number ? clients->created : NULL;
}

uint32_t clients_create_session(struct nfs_call *call, uint64_t client, uint32_t sequence,
				uint32_t *slots, struct session_id *id)
{
	struct clients *clients = call->clients;
	struct session *session;

	if (!is_known(clients, client))
		return NFS4ERR_STALE_CLIENTID;
	pthread_mutex_lock(&clients->lock);
	session = create_session(clients, client, sequence, *slots);
	if (session) {
		bind_to(session, call->connection);
		*slots = session->slots;
		*id = (struct session_id){clients->instance,
					  (uint32_t)(session - clients->sessions), session->number};
	}
	pthread_mutex_unlock(&clients->lock);
	return session ? NFS4_OK : NFS4ERR_SEQ_MISORDERED;
}

uint32_t clients_bind_session(struct nfs_call *call, struct session_id id)
{
	struct session *session;

	pthread_mutex_lock(&call->clients->lock);
	session = find_session(call->clients, id);
	if (session)
		bind_to(session, call->connection);
	pthread_mutex_unlock(&call->clients->lock);
	return session ? NFS4_OK : NFS4ERR_BADSESSION;
}

uint32_t clients_destroy_session(struct nfs_call *call, struct session_id id)
{
	struct session *session;

	pthread_mutex_lock(&call->clients->lock);
	session = find_session(call->clients, id);
	if (session)
		atomic_store(&session->number, 0);
	pthread_mutex_unlock(&call->clients->lock);
	return session ? NFS4_OK : NFS4ERR_BADSESSION;
}

/* --- slots --- */

static uint32_t take_again(struct nfs_call *call, struct slot *slot, const struct xdr_in *in,
			   struct sequence *sequence)
{
	if (in->end - in->at != slot->call_length || words_sum(*in) != slot->call_sum)
		return NFS4ERR_SEQ_FALSE_RETRY;
	if (slot->pending && !slot->length)
		return NFS4ERR_DELAY; /* the first copy has not been answered */
	call->slot = slot;
	slot->uncached = !slot->length;
	if (!slot->length)
		return NFS4ERR_RETRY_UNCACHED_REP;
	sequence->kept = slot->results;
	sequence->kept_length = slot->length;
	call->in->at = call->in->end;
	return NFS4_OK;
}

static uint32_t take(const struct session *session, struct slot *slot, struct sequence *sequence)
{
	atomic_store_explicit(&slot->sequence, sequence->sequence, memory_order_relaxed);
	sequence->target = atomic_load_explicit(&session->target, memory_order_relaxed);
	return NFS4_OK;
}

/* What a retry is compared with, and what it gets, is kept. Apart, as the sink need not do it. */
static __attribute__((noinline)) uint32_t take_and_keep(struct nfs_call *call,
							struct session *session, struct slot *slot,
							const struct xdr_in *in,
							struct sequence *sequence)
{
	uint32_t status;

	if (sequence->sequence == slot->sequence)
		return take_again(call, slot, in, sequence);
	if (sequence->sequence != slot->sequence + 1)
		return NFS4ERR_SEQ_MISORDERED;
	slot->results = slot->results ?: malloc(CLIENTS_REPLY_MAX);
	if (!slot->results)
		abort();
	status = front_take_slot(call, session, slot);
	if (status)
		return status;
	slot->use = ++call->clients->uses;
	slot->pending = slot->length = 0;
	slot->answered = slot->uncached = false;
	slot->call_length = (uint32_t)(in->end - in->at);
	slot->call_sum = words_sum(*in);
	call->slot = slot;
	return take(session, slot, sequence);
}

/*
 * Load and store, without a locked instruction: a slot has one call at a time, and two threads that
 * serve one call twice do no harm where no reply is kept.
 */
uint32_t clients_sequence(struct nfs_call *call, const struct xdr_in *in, struct sequence *sequence)
{
	const struct clients *clients = call->clients;
	struct session *session = find_session(clients, sequence->session);
	struct slot *slot;
	uint32_t last;

	if (!session)
		return NFS4ERR_BADSESSION;
	if (clients->terms->binds && !is_bound(session, call->connection))
		return NFS4ERR_CONN_NOT_BOUND_TO_SESSION;
	sequence->slots = atomic_load_explicit(&session->slots, memory_order_relaxed);
	if (sequence->slot >= sequence->slots)
		return NFS4ERR_BADSLOT;
	slot = &session->slot[sequence->slot];
	last = atomic_load_explicit(&slot->sequence, memory_order_relaxed);
	if (clients->keeps)
		return take_and_keep(call, session, slot, in, sequence);
	if (sequence->sequence == last)
		return NFS4ERR_RETRY_UNCACHED_REP;
	return sequence->sequence == last + 1 ? take(session, slot, sequence)
					      : NFS4ERR_SEQ_MISORDERED;
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
	const struct clients *clients = call->clients;
	bool reclaims = claim == NFS4_CLAIM_PREVIOUS;

	if (!clients->keeps)
		return NFS4_OK;
	if (reclaims == (clients->now < clients->grace_until && !clients->reclaimed))
		return NFS4_OK;
	return reclaims ? NFS4ERR_NO_GRACE : NFS4ERR_GRACE;
}

struct stateid clients_open(struct nfs_call *call, uint64_t file)
{
	struct clients *clients = call->clients;
	uint32_t number = (uint32_t)file;

	if (clients->keeps) {
		number = ++clients->opens_made;
		clients->opens[number % CLIENTS_OPENS] = (struct clients_open){number, file};
	}
	return (struct stateid){{1, 0, clients->instance, number}};
}

/* Zeros or ones throughout: a special one, which is nobody's. */
uint32_t clients_use(struct nfs_call *call, uint64_t file, const struct stateid *stateid)
{
	const struct clients *clients = call->clients;
	const uint32_t *words = stateid->words, number = words[3];
	const struct clients_open *open = &clients->opens[number % CLIENTS_OPENS];

	if (words[1] || words[2] != clients->instance) {
		if ((words[0] & words[1] & words[2] & words[3]) == UINT32_MAX)
			return NFS4_OK;
		if (words[1] || words[2] || words[3])
			return NFS4ERR_STALE_STATEID;
		return words[0] ? NFS4ERR_BAD_STATEID : NFS4_OK;
	}
	if (!clients->keeps)
		return number == file ? NFS4_OK : NFS4ERR_BAD_STATEID;
	return number && open->number == number && open->file == file ? NFS4_OK
								      : NFS4ERR_BAD_STATEID;
}

uint32_t clients_close(struct nfs_call *call, uint64_t file, const struct stateid *stateid)
{
	struct clients *clients = call->clients;
	uint32_t status = clients_use(call, file, stateid);

	if (!status && stateid->words[2] != clients->instance)
		return NFS4ERR_BAD_STATEID; /* a special one, which is no open's (RFC 8881, 8.2.3)
					     */
	if (!status && clients->keeps)
		clients->opens[stateid->words[3] % CLIENTS_OPENS].number = 0;
	return status;
}

uint32_t clients_reclaim_complete(struct nfs_call *call)
{
	struct clients *clients = call->clients;

	if (!clients->keeps)
		return NFS4_OK;
	if (clients->reclaimed)
		return NFS4ERR_COMPLETE_ALREADY;
	clients->reclaimed = true;
	return NFS4_OK;
}
