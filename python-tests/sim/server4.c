/* SPDX-License-Identifier: GPL-2.0-only */
#include "server4.h"

#include <endian.h>
#include <string.h>

#include "metadata4.h"
#include "nfs/nfs4_meta.h"
#include "server.h"
#include "util.h"
#include "world.h"

enum { STATUS_INVAL = 22, STATUS_NOT_SUPPORTED = 10004, STATUS_NO_GRACE = 10033 };
enum { CONFIRMED = (int)0x80000000u };
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
	struct xdr_in *in;
	struct xdr_out *out;
	struct session *session;
	struct server4_slot *slot;
	struct metadata4 handles;
	uint32_t opened; /* the current stateid; 0: none */
	bool replayed;
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

static uint32_t exchange_id(struct compound *compound)
{
	struct xdr_out *out = compound->out;

	xdr_skip(compound->in, 8); /* the verifier: the one client never restarts */
	xdr_skip(compound->in, xdr_get_u32(compound->in));
	xdr_skip(compound->in, 3 * 4); /* flags, protection, implementation */
	state.destroyed = false;
	if (!state.client) {
		state.client = (uint64_t)state.incarnation << 32 | (1 + state.sessions_made);
		state.sequence = 1 + (uint32_t)world_random(1000);
	}
	xdr_put_u64(out, state.client);
	xdr_put_u32(out, state.sequence);
	xdr_put_u32(out, 0x10000u | (state.confirmed ? (uint32_t)CONFIRMED : 0));
	xdr_put_u32(out, 0); /* SP4_NONE */
	xdr_put_u64(out, server.terms.nfs4.spans ? 0 : compound->from->address);
	xdr_put_opaque(out, "simulated", 9);
	xdr_put_opaque(out, "simulated", 9);
	xdr_put_u32(out, 0);
	return 0;
}

static void put_id(struct xdr_out *out, const struct session *session)
{
	xdr_put_u32(out, state.incarnation);
	xdr_put_u32(out, (uint32_t)(session - state.sessions));
	xdr_put_u64(out, session->number);
}

static struct session *get_session(struct xdr_in *in)
{
	uint32_t incarnation = xdr_get_u32(in), index = xdr_get_u32(in);
	uint64_t number = xdr_get_u64(in);
	struct session *session = &state.sessions[index % SESSIONS];

	return incarnation == state.incarnation && session->alive && session->number == number
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

static void put_channel(struct xdr_out *out, uint32_t slots)
{
	const uint32_t sizes[] = {0, htobe32(1 << 20), htobe32(1 << 20), htobe32(4096),
				  htobe32(16)};

	xdr_put_fixed(out, sizes, sizeof(sizes));
	xdr_put_u32(out, slots);
	xdr_put_u32(out, 0);
}

static uint32_t get_slots(struct xdr_in *in)
{
	uint32_t slots;

	xdr_skip(in, 5 * 4);
	slots = xdr_get_u32(in);
	xdr_skip(in, 4 * xdr_get_u32(in));
	return slots;
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

static uint32_t create_session(struct compound *compound)
{
	struct xdr_in *in = compound->in;
	uint64_t client = xdr_get_u64(in);
	uint32_t sequence = xdr_get_u32(in), slots;

	xdr_get_u32(in); /* flags */
	slots = get_slots(in);
	get_slots(in);
	xdr_skip(in, 3 * 4); /* callbacks */
	if (client != state.client)
		return NFS4ERR_STALE_CLIENTID;
	if (sequence == state.sequence) {
		state.created = new_session(slots);
		if (!state.created) {
			world_violated("the client keeps %d sessions", SESSIONS);
			return STATUS_INVAL;
		}
		state.sequence++;
		state.confirmed = true;
	} else if (sequence + 1 != state.sequence || !state.created || !state.created->alive) {
		return NFS4ERR_SEQ_MISORDERED;
	}
	bind_to(state.created, compound->from);
	put_id(compound->out, state.created);
	xdr_put_u32(compound->out, sequence);
	xdr_put_u32(compound->out, 0);
	put_channel(compound->out, state.created->slots);
	put_channel(compound->out, 1);
	return 0;
}

static uint32_t bind_conn(struct compound *compound)
{
	struct session *session = get_session(compound->in);

	xdr_skip(compound->in, 2 * 4);
	if (!session)
		return NFS4ERR_BADSESSION;
	bind_to(session, compound->from);
	put_id(compound->out, session);
	xdr_put_u32(compound->out, 1); /* fore */
	xdr_put_u32(compound->out, 0);
	return 0;
}

static uint32_t destroy_session(struct compound *compound)
{
	struct session *session = get_session(compound->in);

	if (!session)
		return NFS4ERR_BADSESSION;
	session->alive = false;
	return 0;
}

/* A client ID is known on, as names and data are one client here. */
static uint32_t destroy_client(struct compound *compound)
{
	xdr_get_u64(compound->in);
	state.destroyed = true;
	return 0;
}

static uint32_t sum_of(const struct xdr_in *call)
{
	uint32_t sum = 2166136261u;

	for (const uint8_t *at = call->at; at < call->end; at++)
		sum = (sum ^ *at) * 16777619u;
	return sum;
}

/* The table grows or shrinks: the client is told by each SEQUENCE. */
static void resize(struct session *session)
{
	if (world_chance(server.terms.nfs4.resize_in))
		session->target = (uint32_t)world_random(session->slots);
}

static uint32_t sequence(struct compound *compound)
{
	const struct xdr_in whole = *compound->in;
	struct session *session = get_session(compound->in);
	uint32_t number = xdr_get_u32(compound->in), index = xdr_get_u32(compound->in);
	uint32_t length = (uint32_t)(whole.end - whole.at), sum = sum_of(&whole);
	struct server4_slot *slot;

	xdr_skip(compound->in, 2 * 4); /* highest slot in use, whether to keep the reply */
	if (!session)
		return NFS4ERR_BADSESSION;
	if (server.terms.nfs4.binds && !is_bound(session, compound->from))
		return NFS4ERR_CONN_NOT_BOUND_TO_SESSION;
	if (index >= session->slots)
		return NFS4ERR_BADSLOT;
	slot = &session->slot[index];
	compound->before = *slot;
	compound->session = session;
	if (number == slot->sequence) {
		if (length != slot->call_length || sum != slot->call_sum)
			world_violated("slot %u was used for two calls with number %u", index,
				       number);
		if (slot->pending && !slot->length)
			return NFS4ERR_DELAY; /* the first copy has not been answered */
		compound->slot = slot;
		compound->replayed = slot->length;
		slot->uncached = !slot->length;
		return slot->length ? 0 : NFS4ERR_RETRY_UNCACHED_REP;
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
	compound->slot = slot;
	resize(session);
	put_id(compound->out, session);
	xdr_put_u32(compound->out, number);
	xdr_put_u32(compound->out, index);
	xdr_put_u32(compound->out, session->slots - 1);
	xdr_put_u32(compound->out, session->target);
	xdr_put_u32(compound->out, 0);
	return 0;
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

static void put_stateid(struct xdr_out *out, uint32_t number)
{
	xdr_put_u32(out, 1);
	xdr_put_u64(out, state.incarnation);
	xdr_put_u32(out, number);
}

static uint32_t *find_open(uint32_t number)
{
	for (int i = 0; i < OPENS; i++)
		if (number && state.opens[i] == number)
			return &state.opens[i];
	return NULL;
}

/* *open: whose it is; NULL: nobody's. */
static uint32_t get_stateid(const struct compound *compound, uint32_t **open)
{
	struct xdr_in *in = compound->in;
	uint32_t seq = xdr_get_u32(in);
	uint64_t incarnation = xdr_get_u64(in);
	uint32_t number = xdr_get_u32(in);

	*open = NULL;
	if (!incarnation && !number && (!seq || server.terms.nfs4.closes_apart))
		return seq ? NFS4ERR_BAD_STATEID : 0;
	if (!incarnation && !number) { /* the current one (16.2.3.1.2) */
		incarnation = state.incarnation;
		number = compound->opened;
	}
	if (incarnation != state.incarnation)
		return NFS4ERR_STALE_STATEID;
	*open = find_open(number);
	if (*open && state.opened[*open - state.opens] != compound->handles.current)
		*open = NULL;
	return *open ? 0 : NFS4ERR_BAD_STATEID;
}

static uint32_t open_file(struct compound *compound)
{
	struct xdr_in *in = compound->in;
	uint32_t claim, create, status = 0;

	xdr_skip(in, 3 * 4 + 8);       /* sequence, access, deny, client */
	xdr_skip(in, xdr_get_u32(in)); /* owner */
	create = xdr_get_u32(in);
	if (create) {
		xdr_get_u32(in);		   /* guarded */
		xdr_skip(in, 4 * xdr_get_u32(in)); /* attributes */
		xdr_skip(in, xdr_get_u32(in));
	}
	claim = xdr_get_u32(in);
	if (claim == NFS4_CLAIM_PREVIOUS && !in_grace())
		return STATUS_NO_GRACE;
	if (claim != NFS4_CLAIM_PREVIOUS && in_grace())
		return NFS4ERR_GRACE;
	if (claim == NFS4_CLAIM_PREVIOUS)
		xdr_get_u32(in);
	if (claim == NFS4_CLAIM_NULL)
		status = metadata4_open(&compound->handles, create, in);
	if (status)
		return status;
	compound->opened = ++state.opens_made;
	state.opens[state.opens_made % OPENS] = state.opens_made;
	state.opened[state.opens_made % OPENS] = compound->handles.current;
	put_stateid(compound->out, state.opens_made);
	xdr_put_u32(compound->out, 0); /* change_info4 */
	xdr_put_u64(compound->out, 0);
	xdr_put_u64(compound->out, 0);
	xdr_put_u32(compound->out, 0); /* flags */
	xdr_put_u32(compound->out, 0); /* attributes set */
	xdr_put_u32(compound->out, 0); /* no delegation */
	return 0;
}

static uint32_t close_file(struct compound *compound)
{
	uint32_t status, *open;

	xdr_get_u32(compound->in);
	status = get_stateid(compound, &open);
	if (open)
		*open = 0;
	put_stateid(compound->out, 0);
	return status;
}

static uint32_t reclaim_complete(struct compound *compound)
{
	xdr_get_u32(compound->in);
	if (state.reclaimed)
		return NFS4ERR_COMPLETE_ALREADY;
	state.reclaimed = true;
	return 0;
}

/* --- data --- */

static uint32_t move_data(struct compound *compound, enum nfs4_operation operation,
			  const struct scenario_fate *fate)
{
	struct server_transfer transfer = {
		.kind = SERVER_COMMIT, .file = metadata4_file(&compound->handles), .fate = fate};
	const uint64_t verifier = server_verifier(fate);
	struct xdr_in *in = compound->in;
	uint32_t status = 0, *open;

	if (operation != NFS4_COMMIT)
		status = get_stateid(compound, &open);
	transfer.offset = xdr_get_u64(in);
	if (operation == NFS4_WRITE) {
		transfer.kind = SERVER_WRITE;
		transfer.stable = xdr_get_u32(in);
	}
	transfer.length = xdr_get_u32(in);
	if (operation == NFS4_WRITE)
		transfer.data = xdr_skip(in, transfer.length);
	if (operation == NFS4_READ)
		transfer.kind = SERVER_READ;
	if (status || in->bad)
		return status;
	if (world_chance(server.terms.delay_in)) {
		world.failures[FAILED_DELAY]++;
		return NFS4ERR_DELAY;
	}
	if (operation == NFS4_WRITE && world_chance(server.terms.full_in))
		return NFS4ERR_NOSPC;
	server_move(&transfer);
	switch (operation) {
	case NFS4_READ:
		xdr_put_u32(compound->out, transfer.offset + transfer.length >= server.size);
		xdr_put_opaque(compound->out, transfer.data, transfer.length);
		break;
	case NFS4_WRITE:
		xdr_put_u32(compound->out, transfer.length);
		xdr_put_u32(compound->out, transfer.stable);
		/* fall through */
	default: xdr_put_fixed(compound->out, &verifier, sizeof(verifier));
	}
	return 0;
}

/* --- the whole --- */

/* One of those about names asks to wait, though others before it in the compound were done. */
static bool is_delayed(enum nfs4_operation operation)
{
	if (!metadata4_serves(operation) && operation != NFS4_OPEN && operation != NFS4_CLOSE)
		return false;
	if (!world_chance(server.terms.delay_in))
		return false;
	world.failures[FAILED_DELAY]++;
	return true;
}

static uint32_t answer_operation(struct compound *compound, enum nfs4_operation operation,
				 const struct scenario_fate *fate)
{
	if (fate->status)
		return fate->status;
	if (is_delayed(operation))
		return NFS4ERR_DELAY;
	if (metadata4_serves(operation))
		return metadata4_answer(operation, &compound->handles, compound->in, compound->out);
	switch (operation) {
	case NFS4_EXCHANGE_ID: return exchange_id(compound);
	case NFS4_CREATE_SESSION: return create_session(compound);
	case NFS4_BIND_CONN_TO_SESSION: return bind_conn(compound);
	case NFS4_DESTROY_SESSION: return destroy_session(compound);
	case NFS4_DESTROY_CLIENTID: return destroy_client(compound);
	case NFS4_SEQUENCE: return sequence(compound);
	case NFS4_RECLAIM_COMPLETE: return reclaim_complete(compound);
	case NFS4_OPEN: return open_file(compound);
	case NFS4_CLOSE: return close_file(compound);
	case NFS4_READ:
	case NFS4_WRITE:
	case NFS4_COMMIT: return move_data(compound, operation, fate);
	default: return STATUS_NOT_SUPPORTED;
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
static struct scenario_fate decide(struct compound *compound, enum nfs4_operation operation,
				   struct server4_answer *answer)
{
	struct scenario_fate fate = {0};
	struct scenario_call call;

	compound->came.procedure = operation;
	if (operation == NFS4_SEQUENCE)
		read_sequence(&compound->came, *compound->in);
	call = compound->came;
	call.file = metadata4_file(&compound->handles);
	if (operation == NFS4_READ || operation == NFS4_WRITE || operation == NFS4_COMMIT)
		read_transfer(&call, *compound->in);
	if (operation == NFS4_OPEN)
		call.claim = claim_of(*compound->in);
	answer->call = scenario_received(&call, &fate);
	if (fate.unheard || fate.restarts || fate.mute || fate.delay || fate.end || fate.fragment)
		*answer->fate = fate;
	return fate;
}

void server4_answer(const struct server4_connection *from, struct xdr_in *in,
		    struct server4_answer *answer)
{
	struct xdr_out *out = answer->out;
	struct compound compound = {
		.from = from,
		.in = in,
		.out = out,
		.came = {.version = 4,
			 .xid = answer->xid,
			 .connection = from->number,
			 .address = from->address},
	};
	struct xdr_out status_at = *out, count_at;
	uint32_t count, status = 0, i;

	forget_by_chance();
	xdr_skip(in, xdr_get_u32(in)); /* tag */
	xdr_get_u32(in);	       /* minor version */
	count = xdr_get_u32(in);
	xdr_put_u32(out, 0);
	xdr_put_u32(out, 0);
	count_at = *out;
	xdr_put_u32(out, 0);
	for (i = 0; i < count && !status && !in->bad; i++) {
		uint32_t operation = xdr_get_u32(in);
		struct xdr_out begin = *out;
		struct scenario_fate fate =
			decide(&compound, (enum nfs4_operation)operation, answer);

		if (fate.unheard || fate.restarts) { /* as if SEQUENCE had not come either */
			if (compound.slot)
				*compound.slot = compound.before;
			in->at = in->end;
			return;
		}
		world_tell("server:   %s", nfs4_operation_name((enum nfs4_operation)operation));
		xdr_put_u32(out, operation);
		xdr_put_u32(out, 0);
		status = answer_operation(&compound, (enum nfs4_operation)operation, &fate);
		if (answer->call)
			answer->call->status = status;
		if (compound.replayed) {
			*out = status_at;
			xdr_put_fixed(out, compound.slot->results, compound.slot->length);
			in->at = in->end;
			answer->slot = compound.slot;
			return;
		}
		if (!status)
			continue;
		world_tell("server:   status %u", status);
		*out = begin;
		xdr_put_u32(out, operation);
		xdr_put_u32(out, status);
		in->at = in->end;
	}
	xdr_put_u32(&status_at, status);
	xdr_put_u32(&count_at, i);
	answer->slot = compound.slot;
}
