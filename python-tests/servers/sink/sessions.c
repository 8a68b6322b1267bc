/* SPDX-License-Identifier: GPL-2.0-only */
#include "sessions.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "core/clients.h"
#include "service.h"
#include "util.h"

enum { SESSIONS_MAX = 4096, SLOTS_MAX = 1024 };

struct session {
	_Atomic uint64_t number; /* never given out again; 0: none */
	uint64_t client;
	_Atomic uint32_t slots;
	_Atomic uint32_t sequences[SLOTS_MAX]; /* the last one of each slot */
};

static struct session sessions[SESSIONS_MAX];
static uint64_t last_number;
static const char *server_name;
/* Differs from that of a sink that ran before; in all that a client refers to by number. */
static uint32_t instance;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* not taken by SEQUENCE */

void sessions_init(const char *name)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	instance = (uint32_t)(now.tv_sec * SEC + now.tv_nsec) ^ (uint32_t)getpid() << 16;
	server_name = name;
}

uint32_t clients_begin(struct front *front, enum nfs4_operation operation, uint64_t file)
{
	return NFS4_OK;
}

void clients_end(struct front *front, enum nfs4_operation operation, uint32_t status)
{
	if (!status)
		front->counts->nfs4[operation]++;
}

/* --- clients --- */

static bool is_known(uint64_t client)
{
	return client >> 32 == instance;
}

/* One client has one number at all addresses, and another after it restarts. None is kept. */
void clients_exchange(struct front *front, const uint8_t *owner, size_t length,
		      struct exchange *exchange)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ owner[i]) * 16777619u;
	*exchange = (struct exchange){
		.client = (uint64_t)instance << 32 | hash,
		.sequence = 1, /* which is not checked */
		.server = server_name,
	};
}

uint32_t clients_destroy(struct front *front, uint64_t client)
{
	bool any = false;

	if (!is_known(client))
		return NFS4ERR_STALE_CLIENTID;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < SESSIONS_MAX && !any; i++)
		any = sessions[i].number && sessions[i].client == client;
	pthread_mutex_unlock(&lock);
	return any ? NFS4ERR_CLIENTID_BUSY : NFS4_OK;
}

/* --- sessions --- */

uint32_t clients_create_session(struct front *front, uint64_t client, uint32_t sequence,
				uint32_t *slots, struct session_id *id)
{
	struct session *session;

	if (!is_known(client))
		return NFS4ERR_STALE_CLIENTID;
	*slots = min_of(max_of(*slots, 1u), (uint32_t)SLOTS_MAX);
	pthread_mutex_lock(&lock);
	*id = (struct session_id){instance, (last_number + 1) % SESSIONS_MAX, last_number + 1};
	last_number++;
	session = &sessions[id->index];
	atomic_store(&session->number, 0);
	session->client = client;
	atomic_store(&session->slots, *slots);
	for (uint32_t i = 0; i < *slots; i++)
		atomic_store_explicit(&session->sequences[i], 0, memory_order_relaxed);
	atomic_store(&session->number, id->number);
	pthread_mutex_unlock(&lock);
	return NFS4_OK;
}

static struct session *find(struct session_id id)
{
	struct session *session = &sessions[id.index % SESSIONS_MAX];
	uint64_t number = atomic_load_explicit(&session->number, memory_order_acquire);

	return id.instance == instance && id.number && id.number == number ? session : NULL;
}

/* SEQUENCE is served on any connection. */
uint32_t clients_bind_session(struct front *front, struct session_id id)
{
	return find(id) ? NFS4_OK : NFS4ERR_BADSESSION;
}

uint32_t clients_destroy_session(struct front *front, struct session_id id)
{
	struct session *session;

	pthread_mutex_lock(&lock);
	session = find(id);
	if (session)
		atomic_store(&session->number, 0);
	pthread_mutex_unlock(&lock);
	return session ? NFS4_OK : NFS4ERR_BADSESSION;
}

/*
 * Load and store, without a locked instruction: a slot has one call at a time, and two threads that
 * serve one call twice do no harm here.
 */
uint32_t clients_sequence(struct front *front, struct xdr_in in, struct sequence *sequence)
{
	struct session *session = find(sequence->session);
	uint32_t last, slot = sequence->slot;

	if (!session)
		return NFS4ERR_BADSESSION;
	sequence->slots = atomic_load_explicit(&session->slots, memory_order_relaxed);
	sequence->target = sequence->slots;
	if (slot >= sequence->slots)
		return NFS4ERR_BADSLOT;
	last = atomic_load_explicit(&session->sequences[slot], memory_order_relaxed);
	if (sequence->sequence == last)
		return NFS4ERR_RETRY_UNCACHED_REP;
	if (sequence->sequence != last + 1)
		return NFS4ERR_SEQ_MISORDERED;
	atomic_store_explicit(&session->sequences[slot], last + 1, memory_order_relaxed);
	return NFS4_OK;
}

uint32_t clients_reclaim_complete(struct front *front)
{
	return NFS4_OK;
}

/* --- opens, of which nothing is kept --- */

uint32_t clients_may_open(struct front *front, enum nfs4_claim claim)
{
	return NFS4_OK;
}

struct stateid clients_open(struct front *front, uint64_t file)
{
	return (struct stateid){{1, SINK_MAGIC, instance, (uint32_t)file}};
}

/* One of this instance and file, or a special one: all zeros, all ones, or the current one. */
uint32_t clients_use(struct front *front, uint64_t file, const struct stateid *stateid)
{
	const uint32_t *words = stateid->words;

	if (words[1] == SINK_MAGIC)
		return words[2] == instance && words[3] == file ? NFS4_OK : NFS4ERR_BAD_STATEID;
	if (!words[1] && !words[2] && !words[3])
		return NFS4_OK;
	return (words[0] & words[1] & words[2] & words[3]) == UINT32_MAX ? NFS4_OK
									 : NFS4ERR_BAD_STATEID;
}

uint32_t clients_close(struct front *front, uint64_t file, const struct stateid *stateid)
{
	return clients_use(front, file, stateid);
}
