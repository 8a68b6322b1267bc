/* SPDX-License-Identifier: GPL-2.0-only */
#include "server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "core/nfs4.h"
#include "core/files.h"
#include "core/call.h"
#include "nfs/nfs3.h"
#include "security.h"
#include "util.h"
#include "wire/record.h"
#include "world.h"

enum { CALL_ROOM = SERVER_FILE + 1024 };
enum { XID = 4 }; /* bytes of a reply */

struct server server;

/* What the server keeps of a connection, and of a call that has not come in full. */
struct connection {
	uint32_t number; /* no other has it */
	uint32_t client; /* 1 + the one whose calls it carries; 0: there were none */
	uint8_t bytes[RECORD_MARK_SIZE + CALL_ROOM];
	size_t have;
};

struct arguments {
	struct rpc_call rpc;
	uint32_t client; /* scenario_call's */
	uint32_t sum;	 /* of the whole */
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

void server_begin(const struct server_terms *terms, uint32_t clients)
{
	memset(&server, 0, sizeof(server));
	cache.count = 0;
	namespace_begin();
	server.terms = *terms;
	server.clients = clients;
	server_divide(1, 0);
	server4_begin(clients);
	contexts_begin();
	server.up = true;
	server.verifier = world_random(UINT64_MAX);
}

void server_divide(uint32_t files, uint32_t size)
{
	server.files = files;
	server.size = size ?: SERVER_FILE / files;
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
	server4_restart();
	contexts_restart();
	server_forget();
	server.up = false;
	network_listen(false);
	world_plan(down, come_up, NULL, NULL);
}

void server_heal(void)
{
	server.terms = (struct server_terms){
		.eager_in = server.terms.eager_in,
		.nfs4 = {.closes_apart = server.terms.nfs4.closes_apart,
			 .lease = server.terms.nfs4.lease,
			 .clients = {.binds = server.terms.nfs4.clients.binds,
				     .spans = server.terms.nfs4.clients.spans}},
		.gss = contexts_heal(server.terms.gss),
	};
	come_up(NULL);
}

/* --- replies --- */

struct reply {
	LIST_ENTRY(reply) link;
	struct link_end *end; /* NULL: its connection is gone */
	struct xdr_out out;
	struct slot *slot; /* that it is of, or NULL */
	uint32_t use;	   /* of the slot */
	struct scenario_fate fate;
	struct scenario_call *call; /* that it answers, or NULL */
	uint8_t bytes[RECORD_MARK_SIZE + CALL_ROOM];
};

static LIST_HEAD(, reply) replies;

static void forget_reply(void *context)
{
	struct reply *reply = context;

	LIST_REMOVE(reply, link);
	free(reply);
}

static void end_connection(const struct reply *reply)
{
	if (!reply->end)
		return;
	if (reply->fate.end == SCENARIO_RESET)
		network_reset(reply->end);
	else if (reply->fate.end == SCENARIO_CLOSE)
		network_finish(reply->end);
}

/* Its record, in fragments (RFC 5531, 11): a mark takes the place of bytes that have left. */
static void send_record(struct reply *reply, uint32_t length)
{
	const uint32_t most = reply->fate.fragment ?: length;
	uint32_t left = length - RECORD_MARK_SIZE, part;

	for (uint8_t *at = reply->bytes; left && reply->end; at += part) {
		uint32_t mark;

		part = min_of(left, most);
		left -= part;
		mark = htobe32(part | (left ? 0 : RECORD_LAST_FRAGMENT));
		memcpy(at, &mark, RECORD_MARK_SIZE);
		network_send(reply->end, at, RECORD_MARK_SIZE + part);
	}
}

static void send_reply(void *context)
{
	struct reply *reply = context;
	uint32_t garbage = 40;
	uint32_t length = reply->fate.garbage ? RECORD_MARK_SIZE + garbage
					      : (uint32_t)(reply->out.at - reply->bytes);

	if (server.terms.fragments)
		reply->fate.fragment = 1 + (uint32_t)world_apart(server.terms.fragments);
	if (reply->fate.garbage)
		memset(reply->bytes + RECORD_MARK_SIZE, 0xff, garbage);
	if (reply->fate.is_call)
		memset(reply->bytes + RECORD_MARK_SIZE + sizeof(uint32_t), 0, sizeof(uint32_t));
	if (reply->slot)
		clients_end_reply(reply->slot, reply->use, reply->end);
	if (reply->end) {
		scenario_answered(reply->call);
		send_record(reply, length);
	}
	end_connection(reply);
	forget_reply(reply);
}

static struct reply *begin_reply(struct link_end *end, uint32_t xid)
{
	struct reply *reply = malloc(sizeof(*reply));

	reply->end = end;
	reply->slot = NULL;
	reply->call = NULL;
	reply->fate = (struct scenario_fate){0};
	LIST_INSERT_HEAD(&replies, reply, link);
	reply->out = (struct xdr_out){reply->bytes + RECORD_MARK_SIZE,
				      reply->bytes + sizeof(reply->bytes), false};
	rpc_put_accepted(&reply->out, xid, ACCEPT_SUCCESS);
	return reply;
}

/* --- the reply cache --- */

/* READs change nothing: they are carried out again. */
static void keep(const struct reply *reply, const struct arguments *call)
{
	size_t length = (size_t)(reply->out.at - reply->bytes);
	uint32_t at = cache.count % CACHED;

	if (call->rpc.procedure == NFS3_READ || length > CACHED_ROOM)
		return;
	cache.count++;
	cache.xids[at] = call->rpc.xid;
	cache.replies[at].sum = call->sum;
	cache.replies[at].length = (uint32_t)length;
	memcpy(cache.replies[at].bytes, reply->bytes, length);
}

static const struct cached *find_kept(const struct arguments *call)
{
	for (uint32_t i = 0; i < min_of(cache.count, (uint64_t)CACHED); i++)
		if (cache.xids[i] == call->rpc.xid && cache.replies[i].sum == call->sum)
			return &cache.replies[i];
	return NULL;
}

static bool replay(struct reply *reply, const struct arguments *call)
{
	const struct cached *cached = find_kept(call);

	if (!cached)
		return false;
	memcpy(reply->bytes, cached->bytes, cached->length);
	reply->out.at = reply->bytes + cached->length;
	return true;
}

/* --- data (core/files.h) --- */

bool server_delays(void)
{
	bool delays = world_chance(server.terms.delay_in);

	world.failures[FAILED_DELAY] += delays;
	return delays;
}

/* How much is moved: a part of what was asked for, where that is to happen. */
static uint32_t length_of(const struct transfer *transfer, const struct scenario_fate *fate)
{
	uint64_t left = server.size - min_of(transfer->offset, (uint64_t)server.size);
	uint32_t length = (uint32_t)min_of(left, (uint64_t)transfer->length);

	if (length > 1 && world_chance(server.terms.short_in)) {
		world.failures[FAILED_SHORT]++;
		length = 1 + (uint32_t)world_random(length - 1);
	}
	return fate->limit ? min_of(length, fate->limit) : length;
}

static uint64_t verifier_of(const struct scenario_fate *fate)
{
	return fate->renames ? world_random(UINT64_MAX) : server.verifier;
}

uint32_t files_read(struct front *front, uint64_t file, struct transfer *read)
{
	if (server_delays())
		return STATUS_DELAY;
	server.moves[front->client]++;
	read->length = length_of(read, front->fate);
	read->end = read->offset + read->length >= server.size;
	read->data = server.memory + server_place(namespace_file(file)) +
		     min_of(read->offset, (uint64_t)server.size);
	return 0;
}

uint32_t files_write(struct front *front, uint64_t file, struct transfer *write)
{
	const uint8_t *data = xdr_skip(front->in, write->length);
	uint64_t at = server_place(namespace_file(file)) + write->offset;

	if (server_delays())
		return STATUS_DELAY;
	if (!data || world_chance(server.terms.full_in))
		return STATUS_NOSPC;
	server.moves[front->client]++;
	write->verifier = verifier_of(front->fate);
	write->length = length_of(write, front->fate);
	if (world_chance(server.terms.eager_in))
		write->stable = IO_FILE_SYNC;
	if (front->fate->committed)
		write->stable = front->fate->committed - 1;
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

	if (server_delays())
		return STATUS_DELAY;
	commit->verifier = verifier_of(front->fate);
	memcpy(server.disk + at, server.memory + at, SERVER_FILE / server.files);
	return 0;
}

/* --- calls --- */

struct limits server_limits(void)
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

static void answer(struct xdr_in *in, struct xdr_out *out, const struct arguments *arguments,
		   const struct scenario_fate *fate)
{
	const uint32_t procedure = arguments->rpc.procedure;
	struct front front = {.in = in, .fate = fate, .client = arguments->client};
	const struct limits limits = server_limits();
	struct nfs_call call = {.front = &front, .limits = &limits, .in = in, .out = out};
	struct xdr_in results = {out->at, out->end, false};
	uint32_t status = fate->status;

	if (!status && procedure != NFS3_NULL && !moves_data(procedure) && server_delays())
		status = STATUS_DELAY;
	if (status)
		refuse_nfs3(procedure, out, status);
	else if (!serve_nfs3(&call, procedure))
		abort(); /* no engine sends it */
	if (call.data)
		xdr_put_fixed(out, call.data, call.data_length);
	results.end = out->at;
	if (xdr_get_u32(&results)) /* what is refused is not read to its end */
		in->at = in->end;
}

/* Of as much as Linux's server looks at. */
static uint32_t sum_of(struct xdr_in call)
{
	call.end = call.at + min_of(call.end - call.at, (ptrdiff_t)256);
	return words_sum(call);
}

static void read_call(struct xdr_in *in, struct arguments *call)
{
	call->sum = sum_of(*in);
	if (!rpc_get_call(in, &call->rpc))
		abort();
}

/* The call does not count as received. */
static bool is_lost(const struct scenario_fate *fate)
{
	return fate->unheard || fate->restarts;
}

/* Where a call comes from. */
static struct scenario_call came(const struct reply *reply, const struct arguments *call)
{
	const struct connection *connection = *network_context(reply->end);

	return (struct scenario_call){
		.version = call->rpc.version,
		.procedure = call->rpc.procedure,
		.xid = call->rpc.xid,
		.client = call->client,
		.connection = connection->number,
		.address = network_address(reply->end),
	};
}

static void decide(struct reply *reply, const struct arguments *call, struct xdr_in in)
{
	struct scenario_call received = came(reply, call);
	object_t file;

	if (moves_data(received.procedure)) {
		if (!get_handle(&in, &file))
			received.file = namespace_file(file);
		received.offset = xdr_get_u64(&in);
		received.count = xdr_get_u32(&in);
	}
	if (received.procedure == NFS3_WRITE)
		received.stable = xdr_get_u32(&in);
	reply->call = scenario_received(&received, &reply->fate);
	if (reply->call)
		reply->call->status = reply->fate.status;
}

/* The answer to a call of NFSv3. */
static void answer3(struct reply *reply, const struct arguments *call, struct xdr_in *in)
{
	world_tell("server: xid %08x %s", call->rpc.xid,
		   nfs3_procedure_name((enum nfs3_procedure)call->rpc.procedure));
	decide(reply, call, *in);
	if (reply->fate.unserved) {
		reply->out.at -= sizeof(uint32_t);
		xdr_put_u32(&reply->out, ACCEPT_PROG_UNAVAIL);
		in->at = in->end;
		return;
	}
	if (is_lost(&reply->fate) || replay(reply, call)) {
		in->at = in->end;
		return;
	}
	answer(in, &reply->out, call, &reply->fate);
	keep(reply, call);
}

static void answer4(struct reply *reply, const struct arguments *call, struct xdr_in *in)
{
	struct server4_answer answer = {
		.out = &reply->out, .fate = &reply->fate, .came = came(reply, call)};
	uint8_t *results = reply->out.at;

	world_tell("server: xid %08x", call->rpc.xid);
	if (call->rpc.procedure == NFS4_NULL)
		return;
	server4_answer(in, &answer);
	reply->slot = answer.slot;
	reply->call = answer.call;
	if (reply->slot)
		reply->use = clients_begin_reply(&server_clients, reply->slot, results,
						 (uint32_t)(reply->out.at - results));
}

/* The answer goes out, or is lost. */
static void end_reply(struct reply *reply, uint32_t xid)
{
	if (reply->fate.restarts) {
		restart(MSEC);
		forget_reply(reply);
	} else if (reply->fate.unheard) {
		end_connection(reply);
		forget_reply(reply);
	} else if (reply->fate.mute || world_chance(server.terms.lose_reply_in)) {
		world_tell("server: the reply to xid %08x is lost", xid);
		world.failures[FAILED_REPLY]++;
		if (reply->slot)
			clients_end_reply(reply->slot, reply->use, false);
		end_connection(reply);
		forget_reply(reply);
	} else if (reply->fate.delay) {
		world_plan(reply->fate.delay, send_reply, forget_reply, reply);
	} else {
		world_plan(world_random(server.terms.service + 1), send_reply, forget_reply, reply);
	}
}

static void answer_nfs(struct reply *reply, const struct arguments *call, struct xdr_in *in)
{
	if (call->rpc.version == NFS_V3)
		answer3(reply, call, in);
	else
		answer4(reply, call, in);
	if (in->bad || in->at != in->end) {
		world_tell("server: a call that is none");
		abort();
	}
}

/* The same by RPCSEC_GSS. False: there is no answer, and perhaps no connection any more. */
static bool answer_gss(struct reply *reply, struct arguments *call, const uint8_t *bytes,
		       struct xdr_in *in)
{
	uint8_t *header = reply->bytes + RECORD_MARK_SIZE + XID, *results = reply->out.at;
	struct link_end *end = reply->end;
	struct contexts_call context;

	reply->out.at = header;
	switch (contexts_open(&context, bytes, in, &reply->out)) {
	case CONTEXTS_ANSWERED: return true;
	case CONTEXTS_DROP:
		world_tell("server: xid %08x: number %u is behind the window", call->rpc.xid,
			   context.number);
		security_check_dropped(context.keys.key, context.number);
		forget_reply(reply);
		if (server.terms.gss.cuts)
			network_reset(end);
		return false;
	case CONTEXTS_SERVE: break;
	}
	reply->out.at = results;
	call->sum = sum_of(*in) ^ call->rpc.procedure; /* with another number it is the same call */
	answer_nfs(reply, call, in);
	contexts_seal(&context, header, results, &reply->out);
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
static void judge_caller(struct link_end *end, const struct arguments *call)
{
	struct connection *connection = *network_context(end);

	if (connection->client && connection->client != call->client + 1)
		world_violated("client %u calls over the connection of client %u", call->client,
			       connection->client - 1);
	if (server.clients && !call->client && call->rpc.version == NFS_V3)
		world_violated("a call is no client's");
	connection->client = call->client + 1;
}

static void serve(struct link_end *end, const uint8_t *bytes, size_t length)
{
	struct xdr_in in = {bytes, bytes + length, false};
	struct arguments call = {0};
	struct reply *reply;

	read_call(&in, &call);
	if (world_chance(server.terms.lose_call_in)) {
		world_tell("server: xid %08x is lost", call.rpc.xid);
		world.failures[FAILED_CALL]++;
		return;
	}
	reply = begin_reply(end, call.rpc.xid);
	if (server.terms.gss.service) {
		if (!answer_gss(reply, &call, bytes, &in))
			return;
	} else {
		call.client = get_client(in);
		judge_caller(end, &call);
		rpc_skip_credentials(&in);
		answer_nfs(reply, &call, &in);
	}
	end_reply(reply, call.rpc.xid);
	if (world_chance(server.terms.crash_in))
		restart(1 + world_random(server.terms.down));
}

/* --- threads --- */

/* A call that waits for one. */
struct waiting {
	LIST_ENTRY(waiting) link;
	struct link_end *end; /* NULL: its connection is gone, and the call with it */
	size_t length;
	uint8_t bytes[];
};

static LIST_HEAD(, waiting) all_waiting;

static void forget_waiting(void *context)
{
	struct waiting *one = context;

	LIST_REMOVE(one, link);
	free(one);
}

static void take_up(void *context)
{
	struct waiting *one = context;

	if (one->end)
		serve(one->end, one->bytes, one->length);
	forget_waiting(one);
}

static void wait_for_thread(struct link_end *end, const uint8_t *bytes, size_t length)
{
	struct waiting *one = malloc(sizeof(*one) + length);
	uint64_t most = server.terms.service + 1;

	if (world_chance(server.terms.gss.overtake_in))
		most *= 10;
	contexts_note_arrival(bytes, (uint32_t)length);
	*one = (struct waiting){.end = end, .length = length};
	memcpy(one->bytes, bytes, length);
	LIST_INSERT_HEAD(&all_waiting, one, link);
	world_plan(world_random(most), take_up, forget_waiting, one);
}

/* --- the network's --- */

void server_gone(struct link_end *end)
{
	void **context = network_context(end);
	struct reply *reply;
	struct waiting *one;

	LIST_FOREACH (reply, &replies, link)
		if (reply->end == end)
			reply->end = NULL;
	LIST_FOREACH (one, &all_waiting, link)
		if (one->end == end)
			one->end = NULL;
	free(*context);
	*context = NULL;
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
	void **context = network_context(end);
	struct connection *connection = *context ?: new_connection();
	uint8_t call[CALL_ROOM];

	*context = connection;
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
		memcpy(call, connection->bytes + RECORD_MARK_SIZE, whole - RECORD_MARK_SIZE);
		connection->have = 0;
		if (server.terms.gss.service)
			wait_for_thread(end, call, whole - RECORD_MARK_SIZE);
		else
			serve(end, call, whole - RECORD_MARK_SIZE);
		if (!*context)
			return;
	}
}
