/* SPDX-License-Identifier: GPL-2.0-only */
#include "sessions.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "util.h"

struct session {
	_Atomic uint64_t serial; /* 0: none */
	uint64_t client;
	_Atomic uint32_t slots;
	_Atomic uint32_t sequences[SLOTS_MAX]; /* the last one of each slot */
};

static struct session sessions[SESSIONS_MAX];
static uint64_t last_serial;
static uint32_t instance;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* not taken by SEQUENCE */

void sessions_init(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	instance = (uint32_t)(now.tv_sec * SEC + now.tv_nsec) ^ (uint32_t)getpid() << 16;
}

uint32_t sessions_instance(void)
{
	return instance;
}

struct session_id sessions_create(uint64_t client, uint32_t slots, uint32_t *granted)
{
	struct session_id id = {.instance = instance};
	struct session *session;

	*granted = min_of(max_of(slots, 1u), (uint32_t)SLOTS_MAX);
	pthread_mutex_lock(&lock);
	id.serial = ++last_serial;
	id.index = id.serial % SESSIONS_MAX;
	session = &sessions[id.index];
	atomic_store(&session->serial, 0);
	session->client = client;
	atomic_store(&session->slots, *granted);
	for (uint32_t i = 0; i < *granted; i++)
		atomic_store_explicit(&session->sequences[i], 0, memory_order_relaxed);
	atomic_store(&session->serial, id.serial);
	pthread_mutex_unlock(&lock);
	return id;
}

static struct session *find(struct session_id id)
{
	struct session *session = &sessions[id.index % SESSIONS_MAX];
	uint64_t serial = atomic_load_explicit(&session->serial, memory_order_acquire);

	return id.instance == instance && id.serial && id.serial == serial ? session : NULL;
}

uint32_t sessions_find(struct session_id id)
{
	return find(id) ? NFS4_OK : NFS4ERR_BADSESSION;
}

uint32_t sessions_destroy(struct session_id id)
{
	struct session *session;

	pthread_mutex_lock(&lock);
	session = find(id);
	if (session)
		atomic_store(&session->serial, 0);
	pthread_mutex_unlock(&lock);
	return session ? NFS4_OK : NFS4ERR_BADSESSION;
}

bool sessions_of(uint64_t client)
{
	bool any = false;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < SESSIONS_MAX && !any; i++)
		any = sessions[i].serial && sessions[i].client == client;
	pthread_mutex_unlock(&lock);
	return any;
}

/*
 * Load and store, without a locked instruction: a slot has one call at a time, and two threads that
 * serve one call twice do no harm here.
 */
uint32_t sessions_step(struct session_id id, uint32_t slot, uint32_t sequence, uint32_t *slots)
{
	struct session *session = find(id);
	uint32_t last;

	if (!session)
		return NFS4ERR_BADSESSION;
	*slots = atomic_load_explicit(&session->slots, memory_order_relaxed);
	if (slot >= *slots)
		return NFS4ERR_BADSLOT;
	last = atomic_load_explicit(&session->sequences[slot], memory_order_relaxed);
	if (sequence == last)
		return NFS4ERR_RETRY_UNCACHED_REP;
	if (sequence != last + 1)
		return NFS4ERR_SEQ_MISORDERED;
	atomic_store_explicit(&session->sequences[slot], sequence, memory_order_relaxed);
	return NFS4_OK;
}
