/* SPDX-License-Identifier: GPL-2.0-only */
#include "server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/nfs3.h"
#include "util.h"
#include "wire/record.h"
#include "world.h"

enum { CALL_ROOM = SERVER_FILE + 1024, REPLY_ROOM = RECORD_MARK_SIZE + CALL_ROOM };
enum { XID = 4 }; /* bytes of a reply */

struct server server;

/* What the server keeps of a connection, and of a call that has not come in full. */
struct connection {
	uint32_t number; /* no other has it */
	uint32_t client; /* 1 + the one whose calls it carries; 0: there were none */
	uint8_t bytes[RECORD_MARK_SIZE + CALL_ROOM];
	size_t have;
};

/* A call that is carried out (servers/core/), and its reply, until that has left. */
struct front {
	LIST_ENTRY(front) link;
	struct link_end *end; /* NULL: its connection is gone */
	struct rpc_call rpc;
	uint32_t sum;		/* of the call; by Kerberos: of its arguments, xor its procedure */
	struct xdr_in call, in; /* from its xid on; its arguments, as far as they are not read */
	struct xdr_out out;
	struct arguments asked;
	const struct cached *replayed;	/* the call has come again; or NULL */
	struct scenario_call came;	/* what is under way: the call, or its operation */
	struct scenario_call *logged;	/* it, or its last operation, or NULL */
	struct scenario_fate fate;	/* of the message */
	struct scenario_fate operation; /* of what is under way */

	/* NFSv4.1's */
	struct slot *slot;	    /* that the call came over, or NULL */
	uint32_t use;		    /* of the slot */
	struct slot *taken, before; /* by this call, or NULL; and what it was then */
	uint8_t bytes[];	    /* of the reply, with room for the mark; then the call's */
};

/*
 * The reply cache (RFC 1813, 4.5): what was answered is not carried out twice. Connections may have
 * the same xids, so that it compares calls as well.
 */
enum { CACHED = 1024, CACHED_ROOM = 160 };

static struct {
	uint64_t count;	       /* replies that were kept, since the server is up */
	uint32_t xids[CACHED]; /* apart, since they are looked through */
	struct cached {
		uint32_t sum, length;
		uint8_t bytes[CACHED_ROOM]; /* with the mark's room */
	} replies[CACHED];
} cache;

enum { SLOTS = 64, SESSIONS = 32, SESSIONS_MAX = 192, OPENS = 64 };

static const uint64_t GRACE = 2 * SEC;

struct clients server_clients;

static uint64_t forgot_at;

/* --- clients of NFSv4.1 (core/clients.h) --- */

static void begin_clients(uint32_t count)
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

const char *server4_keeps(void)
{
	const struct clients_kept kept = clients_kept(&server_clients);

	if (kept.sessions)
		return "sessions";
	if (kept.opens)
		return "opens";
	return kept.clients ? "a client" : "";
}

/* --- all of it --- */

void server_begin(const struct server_terms *terms, const struct scenario *job)
{
	memset(&server, 0, sizeof(server));
	cache.count = 0;
	namespace_begin();
	server.terms = *terms;
	server.clients = job->nclients;
	server.files = job->files;
	server.size = job->size ?: SERVER_FILE / job->files;
	begin_clients(job->nclients);
	contexts_begin();
	server.up = true;
	server.verifier = world_random(UINT64_MAX);
}

uint32_t server_place(uint32_t file)
{
	return file * (SERVER_FILE / server.files);
}

/* --- restarts --- */

static void come_up(void *context)
{
	if (server.up)
		return;
	world_tell("server: up, verifier %016llx", (unsigned long long)server.verifier);
	server.up = true;
	network_listen(true);
}

void server_forget(void)
{
	memcpy(server.memory, server.disk, sizeof(server.memory));
	server.verifier = world_random(UINT64_MAX);
}

static void restart(uint64_t down)
{
	world_tell("server: restarts, for %.3f s", (double)down / SEC);
	world.failures[FAILED_CRASH]++;
	cache.count = 0;
	server_clients.now = world.clock.now;
	clients_restart(&server_clients);
	contexts_restart();
	server_forget();
	server.up = false;
	network_listen(false);
	world_plan(down, come_up, NULL, NULL);
}

void server_heal(void)
{
	server.fails = (struct server_fails){0};
	come_up(NULL);
}

/* --- replies --- */

static LIST_HEAD(, front) fronts;

static void forget_call(void *context)
{
	struct front *front = context;

	LIST_REMOVE(front, link);
	free(front);
}

static void end_connection(const struct front *front)
{
	if (!front->end)
		return;
	if (front->fate.end == SCENARIO_RESET)
		network_reset(front->end, "by the server");
	else if (front->fate.end == SCENARIO_CLOSE)
		network_finish(front->end);
}

/* Its record, in fragments (RFC 5531, 11): a mark takes the place of bytes that have left. */
static void send_record(struct front *front, uint32_t length)
{
	const uint32_t most = front->fate.fragment ?: length;
	uint32_t left = length - RECORD_MARK_SIZE, part;

	for (uint8_t *at = front->bytes; left && front->end; at += part) {
		uint32_t mark;

		part = min_of(left, most);
		left -= part;
		mark = htobe32(part | (left ? 0 : RECORD_LAST_FRAGMENT));
		memcpy(at, &mark, RECORD_MARK_SIZE);
		network_send(front->end, at, RECORD_MARK_SIZE + part);
	}
}

static void send_reply(void *context)
{
	struct front *front = context;
	uint32_t garbage = 40;
	uint32_t length = front->fate.garbage ? RECORD_MARK_SIZE + garbage
					      : (uint32_t)(front->out.at - front->bytes);

	if (server.fails.fragments)
		front->fate.fragment = 1 + (uint32_t)world_apart(server.fails.fragments);
	if (front->fate.garbage)
		memset(front->bytes + RECORD_MARK_SIZE, 0xff, garbage);
	if (front->fate.is_call)
		memset(front->bytes + RECORD_MARK_SIZE + sizeof(uint32_t), 0, sizeof(uint32_t));
	if (front->slot)
		clients_end_reply(front->slot, front->use, front->end);
	if (front->end) {
		scenario_answered(front->logged);
		send_record(front, length);
	}
	end_connection(front);
	forget_call(front);
}

/* Of as much as Linux's server looks at. */
static uint32_t sum_of(struct xdr_in call)
{
	call.end = call.at + min_of(call.end - call.at, (ptrdiff_t)256);
	return words_sum(call);
}

/* A call that has come; it may wait for a thread before it is served. */
static struct front *begin_call(struct link_end *end, const uint8_t *call, size_t length)
{
	const struct connection *connection = end->context;
	struct front *front = malloc(sizeof(*front) + REPLY_ROOM + length);
	uint8_t *bytes = front->bytes, *copy = bytes + REPLY_ROOM;
	const struct rpc_call *rpc = &front->rpc;

	memcpy(copy, call, length);
	*front = (struct front){
		.end = end,
		.call = {copy, copy + length, false},
		.out = {bytes + RECORD_MARK_SIZE, bytes + REPLY_ROOM, false},
	};
	front->in = front->call;
	if (!rpc_get_call(&front->in, &front->rpc))
		abort();
	front->came = (struct scenario_call){
		.version = rpc->version,
		.procedure = rpc->procedure,
		.xid = rpc->xid,
		.connection = connection->number,
		.address = end->address,
	};
	LIST_INSERT_HEAD(&fronts, front, link);
	rpc_put_accepted(&front->out, rpc->xid, ACCEPT_SUCCESS);
	return front;
}

/* --- the reply cache --- */

/* READs change nothing: they are carried out again. */
static void keep(const struct front *front)
{
	size_t length = (size_t)(front->out.at - front->bytes);
	uint32_t at = cache.count % CACHED;

	if (front->rpc.procedure == NFS3_READ || length > CACHED_ROOM)
		return;
	cache.count++;
	cache.xids[at] = front->rpc.xid;
	cache.replies[at].sum = front->sum;
	cache.replies[at].length = (uint32_t)length;
	memcpy(cache.replies[at].bytes, front->bytes, length);
}

static const struct cached *find_reply(const struct front *front)
{
	for (uint32_t i = 0; i < min_of(cache.count, (uint64_t)CACHED); i++)
		if (cache.xids[i] == front->rpc.xid && cache.replies[i].sum == front->sum)
			return &cache.replies[i];
	return NULL;
}

static void replay(struct front *front)
{
	memcpy(front->bytes, front->replayed->bytes, front->replayed->length);
	front->out.at = front->bytes + front->replayed->length;
}

/* --- data (core/files.h) --- */

static bool delays(void)
{
	return world_fails(FAILED_DELAY, server.fails.delay_in);
}

/* How much is moved: a part of what was asked for, where that is to happen. */
static uint32_t length_of(const struct transfer *transfer, const struct scenario_fate *fate)
{
	uint64_t left = server.size - min_of(transfer->offset, (uint64_t)server.size);
	uint32_t length = (uint32_t)min_of(left, (uint64_t)transfer->length);

	if (length > 1 && world_fails(FAILED_SHORT, server.fails.short_in))
		length = 1 + (uint32_t)world_random(length - 1);
	return fate->limit ? min_of(length, fate->limit) : length;
}

static uint64_t verifier_of(const struct scenario_fate *fate)
{
	return fate->renames ? world_random(UINT64_MAX) : server.verifier;
}

uint32_t files_read(struct front *front, uint64_t file, struct transfer *read)
{
	if (delays())
		return STATUS_DELAY;
	server.moves[front->came.client]++;
	read->length = length_of(read, &front->operation);
	read->end = read->offset + read->length >= server.size;
	read->data = server.memory + server_place(namespace_file(file)) +
		     min_of(read->offset, (uint64_t)server.size);
	return 0;
}

uint32_t files_write(struct front *front, uint64_t file, struct transfer *write)
{
	const uint8_t *data = xdr_skip(&front->in, write->length);
	uint64_t at = server_place(namespace_file(file)) + write->offset;

	if (delays())
		return STATUS_DELAY;
	if (!data || world_chance(server.fails.full_in))
		return STATUS_NOSPC;
	server.moves[front->came.client]++;
	write->verifier = verifier_of(&front->operation);
	write->length = length_of(write, &front->operation);
	if (world_chance(server.terms.eager_in))
		write->stable = IO_FILE_SYNC;
	if (front->operation.committed)
		write->stable = front->operation.committed - 1;
	if (!write->length)
		return 0;
	memcpy(server.memory + at, data, write->length);
	if (write->stable != IO_UNSTABLE)
		memcpy(server.disk + at, data, write->length);
	return 0;
}

uint32_t files_commit(struct front *front, uint64_t file, struct transfer *commit)
{
	uint32_t at = server_place(namespace_file(file));

	if (delays())
		return STATUS_DELAY;
	commit->verifier = verifier_of(&front->operation);
	memcpy(server.disk + at, server.memory + at, SERVER_FILE / server.files);
	return 0;
}

/* --- calls --- */

static struct limits limits_now(void)
{
	return (struct limits){
		.read_max = SERVER_FILE,
		.write_max = SERVER_FILE,
		.attributes = attribute(NFS4_ATTR_TYPE) | attribute(NFS4_ATTR_SIZE) |
			      attribute(NFS4_ATTR_LEASE_TIME) | attribute(NFS4_ATTR_MAXREAD) |
			      attribute(NFS4_ATTR_MAXWRITE),
		.lease = server.terms.nfs4.lease ?: 90,
		.terse = true,
		.closes_apart = server.terms.nfs4.closes_apart,
	};
}

static bool moves_data(uint32_t procedure)
{
	return procedure == NFS3_READ || procedure == NFS3_WRITE || procedure == NFS3_COMMIT;
}

static void decide(struct front *front)
{
	const struct arguments *asked = &front->asked;
	struct scenario_call *call = &front->came;

	call->procedure = asked->number;
	call->file = namespace_file(asked->file);
	call->offset = asked->offset;
	call->count = asked->count;
	call->stable = asked->stable;
	call->claim = asked->claim;
	call->session = asked->session.number;
	call->sequence = asked->sequence;
	call->slot = asked->slot;
	front->operation = (struct scenario_fate){0};
	front->logged = scenario_received(call, &front->operation);
}

/* The call does not count as received. */
static bool is_lost(const struct scenario_fate *fate)
{
	return fate->unheard || fate->restarts;
}

static uint32_t begin3(struct front *front)
{
	const struct scenario_fate *fate = &front->fate;

	decide(front);
	front->fate = front->operation;
	if (front->logged)
		front->logged->status = fate->status;
	front->replayed = find_reply(front);
	if (fate->unserved || is_lost(fate) || front->replayed)
		return STATUS_DELAY; /* which is not sent */
	if (!fate->status && front->asked.number != NFS3_NULL && !moves_data(front->asked.number) &&
	    delays())
		return STATUS_DELAY;
	return fate->status;
}

/* The answer to a call of NFSv3: true where that is kept. */
static bool answer3(struct nfs_call *call)
{
	struct front *front = call->front;
	const struct xdr_out begin = front->out;

	world_tell("server: xid %08x %s", front->rpc.xid,
		   nfs3_procedure_name((enum nfs3_procedure)front->rpc.procedure));
	if (!serve_nfs3(call, front->rpc.procedure))
		abort(); /* no engine sends it */
	if (front->fate.unserved) {
		front->out.at = begin.at - sizeof(uint32_t);
		xdr_put_u32(&front->out, ACCEPT_PROG_UNAVAIL);
	} else if (!is_lost(&front->fate)) {
		if (!front->replayed)
			return true;
		replay(front);
	}
	call->in->at = call->in->end;
	return false;
}

/* --- NFSv4.1's calls --- */

static void forget_client(void)
{
	uint32_t count = server_clients.client_count;
	struct client *client = &server_clients.all[count > 1 ? world_apart(count) : 0];

	world_tell("server: forgets client %u", client->user);
	clients_forget_one(&server_clients, client);
}

static void forget_by_chance(void)
{
	if (world_chance(server.fails.forget_session_in)) {
		world_tell("server: forgets a session");
		server_clients.sessions[world_random(server_clients.session_count)].number = 0;
	}
	if (world_chance(server.fails.forget_client_in))
		forget_client();
	/* An open that is refused right after it was made again ends the I/O: such a server has
	 * none. */
	if (world.clock.now > forgot_at + SEC && world_chance(server.fails.forget_open_in)) {
		forgot_at = world.clock.now;
		world_tell("server: forgets an open");
		server_clients.opens[world_random(server_clients.open_count)].number = 0;
	}
}

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
	if (world_fails(FAILED_DELAY, server.fails.busy_in))
		return NFS4ERR_DELAY;
	/* The table grows or shrinks: the client is told by each SEQUENCE. */
	if (world_chance(server.fails.resize_in))
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

/* One of those about names asks to wait, though others before it in the compound were done. */
static bool is_delayed(enum nfs4_operation operation)
{
	bool moves = operation == NFS4_READ || operation == NFS4_WRITE || operation == NFS4_COMMIT;

	return !moves && operation < NFS4_BIND_CONN_TO_SESSION && delays();
}

/* A READ or WRITE is by an open's stateid. */
static void judge_stateid(const struct front *front)
{
	static const struct stateid special;

	if (!memcmp(&front->asked.stateid, &special, sizeof(special)))
		world_violated("client %u sends no open's stateid", front->came.client);
}

static uint32_t begin4(struct nfs_call *call)
{
	struct front *front = call->front;
	const struct scenario_fate *fate = &front->operation;
	const enum nfs4_operation operation = (enum nfs4_operation)front->asked.number;

	if (operation == NFS4_READ || operation == NFS4_WRITE)
		judge_stateid(front);
	decide(front);
	/* What is about the message is the whole compound's. */
	if (is_lost(fate) || fate->mute || fate->delay || fate->end || fate->fragment)
		front->fate = *fate;
	if (is_lost(fate)) { /* nor has SEQUENCE come */
		if (front->taken)
			*front->taken = front->before;
		call->slot = NULL;
		front->logged = NULL;
		return NFS4ERR_DELAY; /* which is not sent */
	}
	world_tell("server:   %s", nfs4_operation_name(operation));
	if (fate->repeats) /* a CREATE_SESSION has the number of the one before: the same session */
		front->asked.client_sequence--;
	if (!fate->status && is_delayed(operation))
		return NFS4ERR_DELAY;
	return fate->status;
}

uint32_t front_begin(struct nfs_call *call)
{
	return call->clients ? begin4(call) : begin3(call->front);
}

uint32_t front_end(struct nfs_call *call, uint32_t status)
{
	const struct front *front = call->front;

	if (!call->clients)
		return status;
	if (!front->operation.status)
		judge(call, (enum nfs4_operation)front->asked.number, status);
	if (front->logged)
		front->logged->status = status;
	if (status) {
		world_tell("server:   status %u", status);
		call->in->at = call->in->end;
	}
	return status;
}

static void answer4(struct nfs_call *call)
{
	const struct front *front = call->front;

	world_tell("server: xid %08x", front->rpc.xid);
	if (front->rpc.procedure == NFS4_NULL)
		return;
	call->clients = &server_clients;
	call->call_header = (uint32_t)(call->in->at - front->call.at);
	call->reply_header = RPC_ACCEPTED;
	call->connection = front->came.connection;
	call->address = front->came.address;
	server_clients.now = world.clock.now;
	forget_by_chance();
	serve_nfs4(call, true);
}

static void answer_nfs(struct front *front)
{
	struct xdr_in *in = &front->in;
	const struct limits limits = limits_now();
	struct nfs_call call = {.front = front,
				.limits = &limits,
				.in = in,
				.asked = &front->asked,
				.out = &front->out};
	struct xdr_in results = {front->out.at, front->out.end, false};
	bool keeps = false;

	if (front->rpc.version == NFS_V3)
		keeps = answer3(&call);
	else
		answer4(&call);
	if (call.data)
		xdr_put_fixed(call.out, call.data, call.data_length);
	results.end = front->out.at;
	front->slot = call.slot;
	if (front->slot)
		front->use = clients_begin_reply(&server_clients, front->slot, results.at,
						 (uint32_t)(results.end - results.at));
	if (keeps) {
		keep(front);
		if (xdr_get_u32(&results)) /* what is refused is not read to its end */
			in->at = in->end;
	}
	if (in->bad || in->at != in->end) {
		world_tell("server: a call that is none");
		abort();
	}
}

/* The answer goes out, or is lost. */
static void end_reply(struct front *front)
{
	const struct scenario_fate *fate = &front->fate;
	bool lost = !is_lost(fate) && (fate->mute || world_chance(server.fails.lose_reply_in));

	if (lost) {
		world_tell("server: the reply to xid %08x is lost", front->rpc.xid);
		world.failures[FAILED_REPLY]++;
		if (front->slot)
			clients_end_reply(front->slot, front->use, false);
	}
	if (!lost && !is_lost(fate)) {
		world_plan(fate->delay ?: world_random(server.fails.service + 1), send_reply,
			   forget_call, front);
		return;
	}
	if (fate->restarts)
		restart(MSEC);
	else
		end_connection(front);
	forget_call(front);
}

/* The same by RPCSEC_GSS. False: there is no answer, and perhaps no connection any more. */
static bool answer_gss(struct front *front)
{
	uint8_t *header = front->bytes + RECORD_MARK_SIZE + XID, *results = front->out.at;
	struct link_end *end = front->end;
	struct contexts_call context;

	front->out.at = header;
	switch (contexts_open(&context, front->call.at, &front->in, &front->out)) {
	case CONTEXTS_ANSWERED: return true;
	case CONTEXTS_DROP:
		world_tell("server: xid %08x: number %u is behind the window", front->rpc.xid,
			   context.number);
		forget_call(front);
		if (server.terms.gss.cuts)
			network_reset(end, "by the server");
		return false;
	case CONTEXTS_SERVE: break;
	}
	front->out.at = results;
	front->sum =
		sum_of(front->in) ^ front->rpc.procedure; /* by another number: the same call */
	answer_nfs(front);
	contexts_seal(&context, header, results, &front->out);
	return true;
}

/* AUTH_SYS: the client is the number in its machine's name, from 1; 0: that has none. */
static uint32_t get_client(struct xdr_in credentials)
{
	enum { SYS = 1 };
	uint32_t flavor = xdr_get_u32(&credentials), length;
	char name[16] = "";
	const uint8_t *bytes;

	xdr_skip(&credentials, 2 * 4); /* length, stamp */
	length = xdr_get_u32(&credentials);
	bytes = xdr_skip(&credentials, length);
	if (flavor != SYS || !bytes || !length || length >= sizeof(name))
		return 0;
	memcpy(name, bytes, length);
	return 1 + (uint32_t)strtoul(name, NULL, 10) % SERVER_CLIENTS_MAX;
}

/* A connection is one client's; over NFSv4.1 the job's own asks for names. */
static void judge_caller(const struct front *front)
{
	struct connection *connection = front->end->context;
	uint32_t client = front->came.client;

	if (connection->client && connection->client != client + 1)
		world_violated("client %u calls over the connection of client %u", client,
			       connection->client - 1);
	if (server.clients && !client && front->rpc.version == NFS_V3)
		world_violated("a call is no client's");
	connection->client = client + 1;
}

static void serve(void *context)
{
	struct front *front = context;

	if (!front->end) { /* it has ended while the call waited */
		forget_call(front);
		return;
	}
	if (world_fails(FAILED_CALL, server.fails.lose_call_in)) {
		world_tell("server: xid %08x is lost", front->rpc.xid);
		forget_call(front);
		return;
	}
	if (server.terms.gss.service) {
		if (!answer_gss(front))
			return;
	} else {
		front->sum = sum_of(front->call);
		front->came.client = get_client(front->in);
		judge_caller(front);
		rpc_skip_credentials(&front->in);
		answer_nfs(front);
	}
	end_reply(front);
	if (world_chance(server.fails.crash_in))
		restart(1 + world_random(server.fails.down));
}

static void wait_for_thread(struct front *front)
{
	uint64_t most = server.fails.service + 1;

	if (world_chance(server.fails.overtake_in))
		most *= 10;
	contexts_note_arrival(front->call.at, (uint32_t)(front->call.end - front->call.at));
	world_plan(world_random(most), serve, forget_call, front);
}

/* --- the network's --- */

void server_gone(struct link_end *end)
{
	struct front *front;

	LIST_FOREACH (front, &fronts, link)
		if (front->end == end)
			front->end = NULL;
	free(end->context);
	end->context = NULL;
}

static struct connection *new_connection(void)
{
	static uint32_t number;
	struct connection *connection = calloc(1, sizeof(*connection));

	connection->number = ++number;
	return connection;
}

/* Serves the calls that are there in full. A restart takes the connection away meanwhile. */
void server_received(struct link_end *end, const uint8_t *bytes, size_t length)
{
	struct connection *connection = end->context ?: new_connection();
	struct front *front;

	end->context = connection;
	while (length) {
		size_t whole = RECORD_MARK_SIZE, part;

		if (connection->have >= RECORD_MARK_SIZE) {
			uint32_t mark;

			memcpy(&mark, connection->bytes, RECORD_MARK_SIZE);
			whole += be32toh(mark) & ~RECORD_LAST_FRAGMENT;
		}
		part = min_of(length, whole - connection->have);
		memcpy(connection->bytes + connection->have, bytes, part);
		connection->have += part;
		bytes += part;
		length -= part;
		if (connection->have < whole || whole == RECORD_MARK_SIZE)
			continue;
		front = begin_call(end, connection->bytes + RECORD_MARK_SIZE,
				   whole - RECORD_MARK_SIZE);
		connection->have = 0;
		if (server.terms.gss.service)
			wait_for_thread(front);
		else
			serve(front);
		if (!end->context)
			return;
	}
}
