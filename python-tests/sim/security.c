/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "group/connection.h"
#include "nfs/path_client.h"
#include "wire/message.h"
#include "util.h"
#include "wire/rpcsec_gss.h"
#include "world.h"

/*
 * A mechanism of GSS-API in Kerberos' place (engine/wire/rpcsec_gss.h): the client's first token
 * says when its ticket ends, and has half of the context's key; the server's has the other half,
 * and whether a second round follows.
 */

/* Of the context in the making. */
enum mechanism_state { IDLE, WORKS, TELLS, WAITS_FOR_REPLY, HAS_MADE, HAS_FAILED };
enum { REMEMBERED = 4096 };

/* A copy of a call: the key and the engine's number of its context, and its own number there. */
struct sent {
	uint64_t key;
	uint32_t context, number, xid;
};

/* One client's. */
struct mechanism {
	struct gss_mechanism base;
	struct krb5_keys present, earlier, next_keys; /* next_keys.key 0: it is not known yet */
	enum mechanism_state state, next;	      /* when its work is done */
	uint64_t work_until, ticket_end;
	uint64_t half;		 /* of the key of the context in the making */
	uint64_t made, lifetime; /* of the context */
	uint64_t token[256];
	uint32_t token_length;

	/* What is known of the client, for the checks. */
	LIST_ENTRY(mechanism) link;
	const struct rpc_client *rpc;
	uint64_t count;	 /* copies of calls that were sent */
	uint64_t denied; /* the key by which a call was */
	uint32_t epoch;	 /* of its link, when a context was begun */
	struct sent sent[REMEMBERED];
};

static LIST_HEAD(, mechanism) mechanisms;
static uint64_t kdc_back_at;

/* --- the job's terms --- */

/* Apart from the world's chance: jobs without it are what they would be without this. */
static uint64_t choose(uint64_t *chance, uint64_t range)
{
	*chance = token_key(*chance, 0x9e3779b97f4a7c15ull);
	return *chance % range;
}

static uint64_t rarely(uint64_t *chance, uint64_t least, uint64_t most)
{
	return choose(chance, 2) ? 0 : least + choose(chance, most);
}

void security_choose(uint64_t seed, struct contexts_terms *terms, struct server_fails *fails)
{
	static const uint32_t windows[] = {1, 5, 32, 128, 256, 1024};
	uint64_t chance = seed;

	if (choose(&chance, 3))
		return;
	*terms = (struct contexts_terms){
		.service = GSS_SERVICE_NONE + (uint32_t)choose(&chance, 3),
		.window = windows[choose(&chance, ARRAY_SIZE(windows))],
		.cuts = choose(&chance, 2),
		.skew = choose(&chance, 2) ? 0 : choose(&chance, 300 * SEC),
		.rounds_in = choose(&chance, 3),
	};
	fails->forget_context_in = rarely(&chance, 300, 2000);
	fails->change_in = rarely(&chance, 50, 1000);
	fails->overtake_in = rarely(&chance, 10, 100);
	terms->lifetime = rarely(&chance, 20 * SEC, 200 * SEC);
	terms->keeps = choose(&chance, 2);
	fails->kdc_work = choose(&chance, 2) ? MSEC : choose(&chance, 3 * SEC);
	fails->kdc_away_in = rarely(&chance, 1, 6);
	fails->kdc_silence = choose(&chance, 2) ? 0 : 27 * SEC;
}

void security_end(void)
{
	if (!LIST_EMPTY(&mechanisms))
		world_violated("a client keeps its credentials, or a context outlives it");
	kdc_back_at = 0;
}

/* --- who calls --- */

static struct mechanism *find_mechanism(const struct rpc_credentials *credentials)
{
	struct mechanism *mechanism;

	LIST_FOREACH (mechanism, &mechanisms, link)
		if (mechanism->rpc->credentials == credentials)
			return mechanism;
	return NULL;
}

/* A client for I/O: others are for names. */
static bool moves_data(const struct mechanism *mechanism)
{
	return mechanism->rpc->events->finished;
}

/* --- numbers and contexts --- */

/* The copy that was sent last, but for so many; all zeros: there was none. */
static const struct sent *sent_last(const struct mechanism *mechanism, uint64_t but)
{
	return &mechanism->sent[(mechanism->count - 1 - but) % REMEMBERED];
}

/* A number goes out: no call of its context that waits for an answer falls behind the window. */
static void check_window(const struct call *call, const struct sent *sent)
{
	uint32_t oldest = call->stamp.numbers[0], window = server.terms.gss.window;

	if (call->stamp.context == sent->context && oldest && sent->number != oldest &&
	    sent->number - oldest >= window)
		world_violated("number %u goes out while %u is not answered, of a window of %u",
			       sent->number, oldest, window);
}

/* A call's header is written. */
static void check_sent(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
		       uint32_t xid)
{
	struct mechanism *mechanism = find_mechanism(credentials);
	const struct rpc_client *rpc;
	const struct call *call;
	struct sent sent = {.context = stamp->context, .number = stamp->numbers[0], .xid = xid};

	if (!mechanism || !sent.number)
		return;
	rpc = mechanism->rpc;
	sent.key = mechanism->present.key;
	mechanism->sent[mechanism->count++ % REMEMBERED] = sent;
	if (!moves_data(mechanism))
		return;
	if (rpc->setup)
		check_window(rpc->setup, &sent);
	TAILQ_FOREACH (call, &rpc->sent, link)
		check_window(call, &sent);
}

/*
 * Another context is made: the last one has to end soon, a call of it was denied, or it was never
 * used: making it had failed, and the connection with it.
 */
static void note_beginning(struct mechanism *mechanism)
{
	bool ends = world.clock.now - mechanism->made >= mechanism->lifetime / 2;
	uint32_t epoch = moves_data(mechanism) ? mechanism->rpc->link.epoch : 0;

	world_tell("client: begins a context");
	if (mechanism->present.key && (ends || mechanism->denied == mechanism->present.key))
		;
	else if (mechanism->present.key && sent_last(mechanism, 0)->key == mechanism->present.key)
		world_violated("a context is replaced that is good");
	else if (epoch && epoch == mechanism->epoch)
		world_violated("a context is begun again over the same connection");
	mechanism->epoch = epoch;
}

/* --- the mechanism: making a context --- */

static struct mechanism *mechanism_of(struct gss_mechanism *base)
{
	return container_of(base, struct mechanism, base);
}

/* Its work takes a while; then it is in that state. */
static void work(struct mechanism *mechanism, enum mechanism_state next, uint64_t most)
{
	mechanism->state = WORKS;
	mechanism->next = next;
	mechanism->work_until = world.clock.now + world_random(most + 1);
}

static bool kdc_answers(void)
{
	if (server.fails.kdc_away_in && world.clock.now < kdc_back_at)
		return false;
	if (!world_fails(FAILED_KDC, server.fails.kdc_away_in))
		return true;
	kdc_back_at = world.clock.now + world_random(30 * SEC);
	world_tell("KDC: away for %.3f s", (double)(kdc_back_at - world.clock.now) / SEC);
	return false;
}

/* False: there is none. */
static bool get_ticket(struct mechanism *mechanism)
{
	const struct contexts_terms *terms = &server.terms.gss;
	uint64_t now = world.clock.now, wanted = now + (terms->keeps ? 0 : terms->lifetime / 2);

	if (mechanism->ticket_end > wanted)
		return true;
	if (kdc_answers())
		mechanism->ticket_end = terms->lifetime ? now + terms->lifetime : UINT64_MAX;
	return mechanism->ticket_end > now;
}

/* Tickets are of any length. */
static void begin(struct gss_mechanism *base)
{
	struct mechanism *mechanism = mechanism_of(base);

	note_beginning(mechanism);
	mechanism->next_keys.key = 0;
	if (!get_ticket(mechanism)) {
		work(mechanism, HAS_FAILED, server.fails.kdc_silence);
		return;
	}
	mechanism->half = world_random(UINT64_MAX);
	mechanism->token[0] = mechanism->ticket_end;
	mechanism->token[1] = mechanism->half;
	mechanism->token_length = 16 + (uint32_t)world_random(sizeof(mechanism->token) - 15);
	work(mechanism, TELLS, server.fails.kdc_work ?: MSEC);
}

static void feed(struct gss_mechanism *base, const uint8_t *reply, uint32_t length)
{
	struct mechanism *mechanism = mechanism_of(base);
	uint64_t token[2];

	if (mechanism->state != WAITS_FOR_REPLY)
		world_violated("a mechanism is given a token that it does not wait for");
	if (mechanism->next_keys.key) { /* the second round's: nothing is left to say */
		work(mechanism, HAS_MADE, server.fails.kdc_work ?: MSEC);
		return;
	}
	if (length != sizeof(token)) {
		work(mechanism, HAS_FAILED, 0);
		return;
	}
	memcpy(token, reply, sizeof(token));
	mechanism->next_keys.key = token_key(mechanism->half, token[0]);
	mechanism->token[0] = mechanism->next_keys.key;
	mechanism->token_length = sizeof(mechanism->token[0]);
	work(mechanism, token[1] ? TELLS : HAS_MADE, server.fails.kdc_work ?: MSEC);
}

static uint64_t lifetime(const struct mechanism *mechanism)
{
	uint64_t now = world.clock.now;

	return mechanism->ticket_end == UINT64_MAX ? UINT64_MAX
						   : max_of(mechanism->ticket_end, now) - now;
}

static void adopt(struct gss_mechanism *base)
{
	struct mechanism *mechanism = mechanism_of(base);

	mechanism->state = IDLE;
	mechanism->earlier = mechanism->present;
	mechanism->present = mechanism->next_keys;
	mechanism->made = world.clock.now;
	mechanism->lifetime = lifetime(mechanism);
}

static enum rpc_context_state progress(struct gss_mechanism *base, struct gss_step *step)
{
	struct mechanism *mechanism = mechanism_of(base);

	*step = (struct gss_step){.error = "the KDC does not answer"};
	if (mechanism->state == WORKS && world.clock.now >= mechanism->work_until)
		mechanism->state = mechanism->next;
	switch (mechanism->state) {
	case WORKS: return RPC_CONTEXT_WAITS;
	case TELLS:
		mechanism->state = WAITS_FOR_REPLY;
		step->token = (const uint8_t *)mechanism->token;
		step->length = mechanism->token_length;
		return RPC_CONTEXT_ASKS;
	case HAS_MADE: step->lifetime = lifetime(mechanism); return RPC_CONTEXT_READY;
	default: return RPC_CONTEXT_FAILED;
	}
}

static void end(struct gss_mechanism *base)
{
	struct mechanism *mechanism = mechanism_of(base);

	LIST_REMOVE(mechanism, link);
	free(mechanism);
}

static struct mechanism *mechanism_new(const struct rpc_client *rpc)
{
	static const struct gss_mechanism_ops ops = {begin, feed, progress, adopt, end};
	struct mechanism *mechanism = calloc(1, sizeof(*mechanism));

	if (!mechanism)
		abort();
	mechanism->rpc = rpc;
	mechanism->base = (struct gss_mechanism){
		.ops = &ops,
		.keys = &mechanism->present,
		.earlier = &mechanism->earlier,
		.next = &mechanism->next_keys,
	};
	return mechanism;
}

/* --- replies --- */

static bool is_of(const struct sent *sent, const struct rpc_verifier *verifier)
{
	const uint32_t wire = htobe32(sent->number);
	const struct iovec part = {(void *)&wire, sizeof(wire)};

	return krb5_mic_ok(&(struct krb5_keys){sent->key}, KRB5_ACCEPTOR, &part, 1, verifier->body,
			   verifier->length);
}

static bool is_known(const struct mechanism *mechanism, uint64_t key)
{
	return key == mechanism->present.key || key == mechanism->earlier.key;
}

/*
 * True where the server has answered a copy of the call: any, or (`promised`) one of those that the
 * engine promises to know, the latest three of a context whose key the mechanism has.
 */
static bool is_answer(const struct mechanism *mechanism, const struct call *call,
		      const struct rpc_verifier *verifier, bool promised)
{
	uint64_t count = min_of(mechanism->count, (uint64_t)REMEMBERED);
	uint32_t copies = promised ? 3 : REMEMBERED;

	for (uint64_t i = 0; i < count && copies; i++) {
		const struct sent *sent = sent_last(mechanism, i);

		if (sent->xid != call->xid)
			continue;
		if (promised &&
		    (sent->context != call->stamp.context || !is_known(mechanism, sent->key)))
			return false;
		if (is_of(sent, verifier))
			return true;
		copies--;
	}
	return false;
}

/* A reply was taken for a call's, or thrown away. */
static void check_reply(const struct rpc_client *rpc, const struct rpc_reply *message, bool taken)
{
	struct mechanism *mechanism = find_mechanism(rpc->credentials);
	const struct call *call;
	struct rpc_reply_header header;
	struct xdr_in in = {message->message, message->message + message->have, false};

	rpc_decode_reply(&in, &header);
	call = call_find(&rpc->calls, rpc, header.xid);
	if (mechanism && header.verdict == RPC_AUTH_ERROR)
		mechanism->denied = mechanism->present.key;
	if (!mechanism || !call || call_is_context(call) || header.verdict != RPC_SUCCESS ||
	    call == rpc->probe || in.bad)
		return;
	if (taken && !is_answer(mechanism, call, &header.verifier, false))
		world_violated("a call with number %u was answered by another reply",
			       call->stamp.numbers[0]);
	if (!taken && is_answer(mechanism, call, &header.verifier, true))
		world_violated("an answer to number %u, or an earlier one, was thrown away",
			       call->stamp.numbers[0]);
}

/* --- in the engine's place --- */

int __real_path_credentials_open(struct rpc_client *rpc);
int __wrap_path_credentials_open(struct rpc_client *rpc)
{
	const struct path *path = rpc->server;
	struct mechanism *mechanism;
	struct rpcsec_gss_terms terms = {
		.service = sim_job.terms.service,
		.counters = &rpc->counters->security,
		.data_max = path->config.wsize,
	};

	if (rpc->own)
		job_note_client(rpc->own, rpc);
	if (!terms.service)
		return __real_path_credentials_open(rpc);
	mechanism = mechanism_new(rpc);
	LIST_INSERT_HEAD(&mechanisms, mechanism, link);
	terms.mechanism = &mechanism->base;
	if (rpcsec_gss_new(&rpc->credentials, &terms))
		abort();
	return 0;
}

void __real_path_credentials_close(struct rpc_client *rpc);
void __wrap_path_credentials_close(struct rpc_client *rpc)
{
	if (rpc->own)
		job_note_client(rpc->own, NULL);
	if (find_mechanism(rpc->credentials))
		rpcsec_gss_free(rpc->credentials);
	else
		__real_path_credentials_close(rpc);
}

void __real_rpc_encode_call(struct xdr_out *out, uint32_t xid, uint32_t program, uint32_t version,
			    uint32_t procedure, struct rpc_credentials *credentials,
			    struct rpc_stamp *stamp);
void __wrap_rpc_encode_call(struct xdr_out *out, uint32_t xid, uint32_t program, uint32_t version,
			    uint32_t procedure, struct rpc_credentials *credentials,
			    struct rpc_stamp *stamp)
{
	__real_rpc_encode_call(out, xid, program, version, procedure, credentials, stamp);
	check_sent(credentials, stamp, xid);
}

int __real_client_reply_begins(void *context, const struct rpc_reply *reply, struct rpc_bulk *bulk);
int __wrap_client_reply_begins(void *context, const struct rpc_reply *reply, struct rpc_bulk *bulk)
{
	struct xdr_in in = {reply->message, reply->message + reply->have, false};
	uint32_t xid = xdr_get_u32(&in);
	int head;

	if (reply->whole && scenario_refused(xid)) {
		client_call_refused(context, xid, EREMOTEIO, "ERR_CHUNK");
		return (int)reply->have;
	}
	head = __real_client_reply_begins(context, reply, bulk);
	if (head > 0)
		check_reply(context, reply, bulk->token);
	return head;
}
