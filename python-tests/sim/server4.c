/* SPDX-License-Identifier: GPL-2.0-only */
#include "server.h"

#include <stdlib.h>
#include <string.h>

#include "core/files.h"
#include "core/call.h"
#include "util.h"
#include "world.h"

enum { SLOTS = 64, SESSIONS = 32, SESSIONS_MAX = 192, OPENS = 64 };

static const uint64_t GRACE = 2 * SEC;

struct clients server_clients;

static uint64_t forgot_at;

/* --- what is remembered --- */

void server4_begin(uint32_t count)
{
	struct clients *clients = &server_clients;

	if (!clients->sessions && !clients_init(clients, SESSIONS_MAX, SLOTS))
		abort();
	clients->session_count = SESSIONS + 2 * count;
	clients->open_count = count ? CLIENTS_OPENS : OPENS;
	clients_begin(clients);
	clients->terms = &server.terms.nfs4.clients;
	clients->name = "simulated";
	clients->instance = 1;
	clients->keeps = true;
	clients->joins = count;
	clients->grace = GRACE;
	clients->random = world_random;
	forgot_at = 0;
}

void server4_restart(void)
{
	server_clients.now = world.clock.now;
	clients_restart(&server_clients);
}

const char *server4_keeps(void)
{
	const struct clients_kept kept = clients_kept(&server_clients);

	if (kept.sessions)
		return "sessions";
	if (kept.opens)
		return "opens";
	return kept.clients ? "a client" : "";
}

static void forget_client(void)
{
	uint32_t count = server_clients.client_count;
	struct client *client = &server_clients.all[count > 1 ? world_apart(count) : 0];

	world_tell("server: forgets client %u", client->user);
	clients_forget_one(&server_clients, client);
}

static void forget_by_chance(void)
{
	if (world_chance(server.terms.nfs4.forget_session_in)) {
		world_tell("server: forgets a session");
		server_clients.sessions[world_random(server_clients.session_count)].number = 0;
	}
	if (world_chance(server.terms.nfs4.forget_client_in))
		forget_client();
	/* An open that is refused right after it was made again ends the I/O: such a server has
	 * none. */
	if (world.clock.now > forgot_at + SEC && world_chance(server.terms.nfs4.forget_open_in)) {
		forgot_at = world.clock.now;
		world_tell("server: forgets an open");
		server_clients.opens[world_random(server_clients.open_count)].number = 0;
	}
}

/* --- clients and sessions (core/clients.h) --- */

/* Each of the job's clients has one name here, and no other sends that, or what belongs to it. */
void front_uses(struct nfs_call *call, struct client *client)
{
	uint32_t caller = call->front->came.client;

	if (client->user && client->user != caller + 1)
		world_violated("client %u sends what is client %u's", caller, client->user - 1);
	for (uint32_t i = 0; !client->user && i < server_clients.client_count; i++)
		if (server_clients.all[i].user == caller + 1)
			world_violated("client %u has two names", caller);
	client->user = caller + 1;
}

uint32_t front_take_slot(struct nfs_call *call, struct session *session, struct slot *slot)
{
	struct front *front = call->front;

	if (slot->sequence && !slot->answered)
		world_violated("slot %u was used twice at once: number %u is not answered",
			       (uint32_t)(slot - session->slot), slot->sequence);
	if (world_chance(server.terms.nfs4.busy_in)) {
		world.failures[FAILED_DELAY]++;
		return NFS4ERR_DELAY;
	}
	/* The table grows or shrinks: the client is told by each SEQUENCE. */
	if (world_chance(server.terms.nfs4.resize_in))
		session->target = 1 + (uint32_t)world_random(session->slots);
	front->taken = slot;
	front->before = *slot;
	return NFS4_OK;
}

/* What a client must not do. */
static void judge(const struct nfs_call *by, enum nfs4_operation operation, uint32_t status)
{
	const struct scenario_call *call = &by->front->came;
	uint32_t sessions = 0;

	/* One of many clients, with one session: once in the life of its ID (RFC 8881, 18.51.3),
	 * unless it cannot know that it was heard. */
	if (operation == NFS4_RECLAIM_COMPLETE && status == NFS4ERR_COMPLETE_ALREADY &&
	    call->client && server_clients.all[by->client % CLIENTS_MAX].told)
		world_violated("client %u sends RECLAIM_COMPLETE once more", call->client);
	if (operation == NFS4_SEQUENCE && status == NFS4ERR_SEQ_FALSE_RETRY)
		world_violated("slot %u was used for two calls with number %u", call->slot,
			       call->sequence);
	if (operation == NFS4_SEQUENCE && status == NFS4ERR_SEQ_MISORDERED)
		world_violated("slot %u: number %u is not the next", call->slot, call->sequence);
	for (uint32_t i = 0; operation == NFS4_CREATE_SESSION && i < server_clients.session_count;
	     i++)
		sessions += server_clients.sessions[i].number != 0;
	if (sessions == server_clients.session_count)
		world_violated("the clients keep %u sessions", sessions);
}

/* --- the whole --- */

/* One of those about names asks to wait, though others before it in the compound were done. */
static bool is_delayed(enum nfs4_operation operation)
{
	switch (operation) {
	case NFS4_READ:
	case NFS4_WRITE:
	case NFS4_COMMIT: return false; /* files_read() and the like do */
	default: return operation < NFS4_BIND_CONN_TO_SESSION && server_delays();
	}
}

/* A READ or WRITE is by an open's stateid, which comes first. */
static void judge_stateid(const struct front *front, const struct xdr_in *in)
{
	static const uint8_t special[NFS4_STATEID];

	if (!memcmp(in->at, special, sizeof(special)))
		world_violated("client %u sends no open's stateid", front->came.client);
}

/* A CREATE_SESSION has the number of the one before it: it gives the same session. */
static void repeat_session(struct xdr_in *in)
{
	enum { SEQUENCE_AT = 8 + 3 }; /* its last byte, behind the client's ID */

	--*(uint8_t *)(in->at + SEQUENCE_AT);
}

uint32_t front_begin(struct nfs_call *call, enum nfs4_operation operation, uint64_t file)
{
	struct front *front = call->front;
	const struct scenario_fate *fate = &front->operation;

	if (operation == NFS4_READ || operation == NFS4_WRITE)
		judge_stateid(front, call->in);
	server_decide(front, operation, *call->in, file);
	/* What is about the message is the whole compound's. */
	if (fate->unheard || fate->restarts || fate->mute || fate->delay || fate->end ||
	    fate->fragment)
		front->fate = *fate;
	if (front->operation.unheard || front->operation.restarts) { /* nor has SEQUENCE come */
		if (front->taken)
			*front->taken = front->before;
		call->slot = NULL;
		front->logged = NULL;
		return NFS4ERR_DELAY; /* which is not sent */
	}
	world_tell("server:   %s", nfs4_operation_name(operation));
	if (front->operation.repeats)
		repeat_session(call->in);
	if (!front->operation.status && is_delayed(operation))
		return NFS4ERR_DELAY;
	return front->operation.status;
}

uint32_t front_end(struct nfs_call *call, enum nfs4_operation operation, uint32_t status)
{
	const struct front *front = call->front;

	if (!front->operation.status)
		judge(call, operation, status);
	if (front->logged)
		front->logged->status = status;
	if (status) {
		world_tell("server:   status %u", status);
		call->in->at = call->in->end;
	}
	return status;
}

void server4_answer(struct nfs_call *call)
{
	const struct front *front = call->front;

	world_tell("server: xid %08x", front->rpc.xid);
	if (front->rpc.procedure == NFS4_NULL)
		return;
	call->clients = &server_clients;
	call->connection = front->came.connection;
	call->address = front->came.address;
	server_clients.now = world.clock.now;
	forget_by_chance();
	serve_nfs4(call, true);
}
