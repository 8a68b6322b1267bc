/* SPDX-License-Identifier: GPL-2.0-only */
#include "server4.h"

#include <endian.h>
#include <string.h>

#include "core/clients.h"
#include "core/files.h"
#include "core/serve4.h"
#include "namespace.h"
#include "server.h"
#include "util.h"
#include "world.h"

enum { SLOTS = 64, SESSIONS = 32, OPENS = 64, BOUND = 16, REPLY_ROOM = 512 };

static const uint64_t GRACE = 2 * SEC;

struct server4_slot {
	uint32_t sequence;
	uint32_t use;	      /* another for each call that it ever carried */
	unsigned int pending; /* replies to the latest call that have not left */
	bool answered;	      /* one has */
	uint32_t call_length; /* of the latest call: a retry is the same */
	uint32_t call_sum;
	bool uncached;	 /* a retry was told that they are not */
	uint32_t length; /* of the kept results; 0: none are kept */
	uint8_t results[REPLY_ROOM];
};

struct session {
	bool alive;
	uint32_t number; /* in its id */
	uint32_t slots, target;
	uint32_t bound[BOUND], bindings; /* the latest connections that are */
	struct server4_slot slot[SLOTS];
};

static struct {
	uint32_t incarnation;
	uint64_t grace_until, forgot_at;
	uint64_t client; /* 0: none */
	bool confirmed, reclaimed;
	bool destroyed;	   /* the client has said farewell */
	uint32_t sequence; /* of the next CREATE_SESSION */
	struct session *created;
	uint32_t sessions_made, opens_made, uses;
	uint32_t opens[OPENS];	/* their numbers; 0: none */
	object_t opened[OPENS]; /* of which file each is */
	struct session sessions[SESSIONS];
} state;

/* Of one compound. */
struct compound {
	const struct server4_connection *from;
	struct server4_answer *answer;
	struct scenario_fate fate;  /* of the operation under way */
	struct scenario_call came;  /* what is the same for each operation */
	struct server4_slot before; /* the slot, as it was before this call */
};

/* --- what is remembered --- */

void server4_forget_opens(void)
{
	memset(state.opens, 0, sizeof(state.opens));
}

void server4_forget_sessions(void)
{
	for (int i = 0; i < SESSIONS; i++)
		state.sessions[i].alive = false;
}

void server4_forget_client(void)
{
	server4_forget_sessions();
	server4_forget_opens();
	state.client = 0;
	state.confirmed = state.reclaimed = false;
	state.created = NULL;
}

void server4_begin(void)
{
	memset(&state, 0, sizeof(state));
	state.incarnation = 1;
}

void server4_restart(void)
{
	server4_forget_client();
	state.incarnation++;
	state.grace_until = world.clock.now + GRACE;
}

const char *server4_keeps(void)
{
	for (int i = 0; i < SESSIONS; i++)
		if (state.sessions[i].alive)
			return "sessions";
	for (int i = 0; i < OPENS; i++)
		if (state.opens[i])
			return "opens";
	return state.client && !state.destroyed ? "a client" : "";
}

static bool in_grace(void)
{
	return world.clock.now < state.grace_until && !state.reclaimed;
}

static void forget_by_chance(void)
{
	if (world_chance(server.terms.nfs4.forget_session_in)) {
		world_tell("server: forgets a session");
		state.sessions[world_random(SESSIONS)].alive = false;
	}
	if (world_chance(server.terms.nfs4.forget_client_in)) {
		world_tell("server: forgets the client");
		server4_forget_client();
	}
	/* An open that is refused right after it was made again ends the I/O: such a server has
	 * none. */
	if (world.clock.now > state.forgot_at + SEC &&
	    world_chance(server.terms.nfs4.forget_open_in)) {
		state.forgot_at = world.clock.now;
		world_tell("server: forgets an open");
		state.opens[world_random(OPENS)] = 0;
	}
}

/* --- clients and sessions --- */

/* The one client never restarts. */
void clients_exchange(struct front *front, const uint8_t *owner, size_t length,
		      struct exchange *exchange)
{
	state.destroyed = false;
	if (!state.client) {
		state.client = (uint64_t)state.incarnation << 32 | (1 + state.sessions_made);
		state.sequence = 1 + (uint32_t)world_random(1000);
	}
	*exchange = (struct exchange){
		.client = state.client,
		.sequence = state.sequence,
		.confirmed = state.confirmed,
		.minor = server.terms.nfs4.spans ? 0 : front->compound->from->address,
		.server = "simulated",
	};
}

/* A client ID is known on, as names and data are one client here. */
uint32_t clients_destroy(struct front *front, uint64_t client)
{
	state.destroyed = true;
	return NFS4_OK;
}

static struct session *find_session(struct session_id id)
{
	struct session *session = &state.sessions[id.index % SESSIONS];

	return id.instance == state.incarnation && session->alive && session->number == id.number
		       ? session
		       : NULL;
}

static void bind_to(struct session *session, const struct server4_connection *from)
{
	session->bound[session->bindings++ % BOUND] = from->number;
}

static bool is_bound(const struct session *session, const struct server4_connection *from)
{
	for (int i = 0; i < BOUND; i++)
		if (session->bound[i] == from->number)
			return true;
	return false;
}

static struct session *new_session(uint32_t slots)
{
	for (int i = 0; i < SESSIONS; i++) {
		struct session *session = &state.sessions[i];

		if (session->alive)
			continue;
		memset(session, 0, sizeof(*session));
		session->alive = true;
		session->number = ++state.sessions_made;
		session->slots =
			min_of(slots, server.terms.nfs4.slots ?: 1 + (uint32_t)world_random(SLOTS));
		session->target = session->slots - 1;
		return session;
	}
	return NULL;
}

uint32_t clients_create_session(struct front *front, uint64_t client, uint32_t sequence,
				uint32_t *slots, struct session_id *id)
{
	struct session *session;

	if (client != state.client)
		return NFS4ERR_STALE_CLIENTID;
	if (sequence == state.sequence) {
		state.created = new_session(*slots);
		if (!state.created) {
			world_violated("the client keeps %d sessions", SESSIONS);
			return NFS4ERR_INVAL;
		}
		state.sequence++;
		state.confirmed = true;
	} else if (sequence + 1 != state.sequence || !state.created || !state.created->alive) {
		return NFS4ERR_SEQ_MISORDERED;
	}
	session = state.created;
	bind_to(session, front->compound->from);
	*slots = session->slots;
	*id = (struct session_id){state.incarnation, (uint32_t)(session - state.sessions),
				  session->number};
	return NFS4_OK;
}

uint32_t clients_bind_session(struct front *front, struct session_id id)
{
	struct session *session = find_session(id);

	if (session)
		bind_to(session, front->compound->from);
	return session ? NFS4_OK : NFS4ERR_BADSESSION;
}

uint32_t clients_destroy_session(struct front *front, struct session_id id)
{
	struct session *session = find_session(id);

	if (session)
		session->alive = false;
	return session ? NFS4_OK : NFS4ERR_BADSESSION;
}

/* The table grows or shrinks: the client is told by each SEQUENCE. */
static void resize(struct session *session)
{
	if (world_chance(server.terms.nfs4.resize_in))
		session->target = (uint32_t)world_random(session->slots);
}

static uint32_t take_again(struct server4_slot *slot, struct front *front,
			   struct sequence *sequence)
{
	if (slot->pending && !slot->length)
		return NFS4ERR_DELAY; /* the first copy has not been answered */
	front->compound->answer->slot = slot;
	slot->uncached = !slot->length;
	if (!slot->length)
		return NFS4ERR_RETRY_UNCACHED_REP;
	sequence->kept = slot->results;
	sequence->kept_length = slot->length;
	front->in->at = front->in->end;
	return NFS4_OK;
}

uint32_t clients_sequence(struct front *front, struct xdr_in in, struct sequence *sequence)
{
	const uint32_t length = (uint32_t)(in.end - in.at), sum = server_sum(in);
	const uint32_t number = sequence->sequence, index = sequence->slot;
	struct session *session = find_session(sequence->session);
	struct server4_slot *slot;

	if (!session)
		return NFS4ERR_BADSESSION;
	if (server.terms.nfs4.binds && !is_bound(session, front->compound->from))
		return NFS4ERR_CONN_NOT_BOUND_TO_SESSION;
	if (index >= session->slots)
		return NFS4ERR_BADSLOT;
	slot = &session->slot[index];
	front->compound->before = *slot;
	if (number == slot->sequence) {
		if (length != slot->call_length || sum != slot->call_sum)
			world_violated("slot %u was used for two calls with number %u", index,
				       number);
		return take_again(slot, front, sequence);
	}
	if (number != slot->sequence + 1) {
		world_violated("slot %u: number %u after %u", index, number, slot->sequence);
		return NFS4ERR_SEQ_MISORDERED;
	}
	if (slot->sequence && !slot->answered)
		world_violated("slot %u was used twice at once: number %u is not answered", index,
			       slot->sequence);
	if (world_chance(server.terms.nfs4.busy_in)) {
		world.failures[FAILED_DELAY]++;
		return NFS4ERR_DELAY; /* the slot does not count that call */
	}
	slot->sequence = number;
	slot->use = ++state.uses;
	slot->pending = 0;
	slot->answered = slot->uncached = false;
	slot->call_length = length;
	slot->call_sum = sum;
	slot->length = 0;
	front->compound->answer->slot = slot;
	resize(session);
	sequence->slots = session->slots;
	sequence->target = session->target + 1;
	return NFS4_OK;
}

/* Long results are not kept. */
uint32_t server4_begin_reply(struct server4_slot *slot, const uint8_t *results, uint32_t length)
{
	if (!slot->length && !slot->uncached && !server.terms.nfs4.uncached &&
	    length <= REPLY_ROOM) {
		slot->length = length;
		memcpy(slot->results, results, length);
	}
	slot->pending++;
	return slot->use;
}

void server4_end_reply(struct server4_slot *slot, uint32_t number, bool left)
{
	if (slot->use != number)
		return; /* the session is another by now */
	slot->pending--;
	slot->answered = slot->answered || left;
}

/* --- opens --- */

uint32_t clients_may_open(struct front *front, enum nfs4_claim claim)
{
	bool reclaims = claim == NFS4_CLAIM_PREVIOUS;

	if (reclaims == in_grace())
		return NFS4_OK;
	return reclaims ? NFS4ERR_NO_GRACE : NFS4ERR_GRACE;
}

struct stateid clients_open(struct front *front, uint64_t file)
{
	state.opens_made++;
	state.opens[state.opens_made % OPENS] = state.opens_made;
	state.opened[state.opens_made % OPENS] = file;
	return (struct stateid){{1, 0, state.incarnation, state.opens_made}};
}

/* *open: whose it is; NULL: nobody's. */
static uint32_t find_open(object_t file, const struct stateid *stateid, uint32_t **open)
{
	const uint32_t *words = stateid->words;

	*open = NULL;
	if (!words[1] && !words[2] && !words[3])
		return words[0] ? NFS4ERR_BAD_STATEID : NFS4_OK;
	if (words[1] || words[2] != state.incarnation)
		return NFS4ERR_STALE_STATEID;
	for (int i = 0; i < OPENS && !*open; i++)
		if (words[3] && state.opens[i] == words[3] && state.opened[i] == file)
			*open = &state.opens[i];
	return *open ? NFS4_OK : NFS4ERR_BAD_STATEID;
}

uint32_t clients_use(struct front *front, uint64_t file, const struct stateid *stateid)
{
	uint32_t *open;

	return find_open(file, stateid, &open);
}

uint32_t clients_close(struct front *front, uint64_t file, const struct stateid *stateid)
{
	uint32_t *open, status = find_open(file, stateid, &open);

	if (open)
		*open = 0;
	return status;
}

uint32_t clients_reclaim_complete(struct front *front)
{
	if (state.reclaimed)
		return NFS4ERR_COMPLETE_ALREADY;
	state.reclaimed = true;
	return NFS4_OK;
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

/* An OPEN's claim (18.16), behind its owner and what is to be made. */
static uint32_t claim_of(struct xdr_in in)
{
	xdr_skip(&in, 3 * 4 + 8);
	xdr_skip(&in, xdr_get_u32(&in));
	if (xdr_get_u32(&in)) {
		xdr_get_u32(&in);
		xdr_skip(&in, 4 * xdr_get_u32(&in));
		xdr_skip(&in, xdr_get_u32(&in));
	}
	return xdr_get_u32(&in);
}

static void read_sequence(struct scenario_call *call, struct xdr_in in)
{
	xdr_skip(&in, 2 * 4 + 4); /* the id up to the lower half of the session's number */
	call->session = xdr_get_u32(&in);
	call->sequence = xdr_get_u32(&in);
	call->slot = xdr_get_u32(&in);
}

static void read_transfer(struct scenario_call *call, struct xdr_in in)
{
	if (call->procedure != NFS4_COMMIT)
		xdr_skip(&in, NFS4_STATEID);
	call->offset = xdr_get_u64(&in);
	if (call->procedure == NFS4_WRITE)
		call->stable = xdr_get_u32(&in);
	call->count = xdr_get_u32(&in);
}

/* The operation's fate; where that is about the message, it is the whole compound's. */
static void decide(struct compound *compound, enum nfs4_operation operation, struct xdr_in in,
		   object_t file)
{
	struct scenario_fate fate = {0};
	struct scenario_call call;

	compound->came.procedure = operation;
	if (operation == NFS4_SEQUENCE)
		read_sequence(&compound->came, in);
	call = compound->came;
	call.file = namespace_file(file);
	if (operation == NFS4_READ || operation == NFS4_WRITE || operation == NFS4_COMMIT)
		read_transfer(&call, in);
	if (operation == NFS4_OPEN)
		call.claim = claim_of(in);
	compound->answer->call = scenario_received(&call, &fate);
	if (fate.unheard || fate.restarts || fate.mute || fate.delay || fate.end || fate.fragment)
		*compound->answer->fate = fate;
	compound->fate = fate;
}

uint32_t clients_begin(struct front *front, enum nfs4_operation operation, uint64_t file)
{
	struct compound *compound = front->compound;
	struct server4_answer *answer = compound->answer;

	decide(compound, operation, *front->in, file);
	if (compound->fate.unheard || compound->fate.restarts) { /* nor has SEQUENCE come */
		if (answer->slot)
			*answer->slot = compound->before;
		answer->slot = NULL;
		answer->call = NULL;
		return NFS4ERR_DELAY; /* which is not sent */
	}
	world_tell("server:   %s", nfs4_operation_name(operation));
	if (!compound->fate.status && is_delayed(operation))
		return NFS4ERR_DELAY;
	return compound->fate.status;
}

void clients_end(struct front *front, enum nfs4_operation operation, uint32_t status)
{
	struct scenario_call *call = front->compound->answer->call;

	if (call)
		call->status = status;
	if (!status)
		return;
	world_tell("server:   status %u", status);
	front->in->at = front->in->end;
}

void server4_answer(const struct server4_connection *from, struct xdr_in *in,
		    struct server4_answer *answer)
{
	struct compound compound = {
		.from = from,
		.answer = answer,
		.came = {.version = 4,
			 .xid = answer->xid,
			 .connection = from->number,
			 .address = from->address},
	};
	struct front front = {.in = in, .fate = &compound.fate, .compound = &compound};
	const struct limits limits = server_limits();
	struct nfs_call call = {.front = &front, .limits = &limits, .in = in, .out = answer->out};

	forget_by_chance();
	serve_nfs4(&call, true);
	if (call.data)
		xdr_put_fixed(answer->out, call.data, call.data_length);
}
