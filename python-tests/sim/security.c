/* SPDX-License-Identifier: GPL-2.0-only */
#include "security.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "client/client.h"
#include "client/internal.h"
#include "group/connection.h"
#include "job.h"
#include "nfs/path_client.h"
#include "server.h"
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
enum { REMEMBERED = 256 };

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
	uint32_t latest;	   /* number of a call */
	uint32_t xids[REMEMBERED]; /* of the latest numbers */
	uint64_t keys[2];	   /* of the contexts that were used last, the latest first */
	uint32_t contexts[2];	   /* the engine's numbers of these */
	uint64_t denied;	   /* the key by which a call was */
	uint32_t epoch;		   /* of its link, when a context was begun */
};

static LIST_HEAD(, mechanism) mechanisms;
struct kdc kdc;

void kdc_heal(void)
{
	kdc.back_at = 0;
	kdc.terms.away_in = kdc.terms.silence = 0;
	kdc.terms.work = MSEC;
}

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

struct security_terms security_choose(uint64_t seed)
{
	static const uint32_t windows[] = {1, 5, 32, 128, 256, 1024};
	uint64_t chance = seed;

	if (choose(&chance, 3))
		return (struct security_terms){0};
	return (struct security_terms){
		.contexts =
			{
				.service = GSS_SERVICE_NONE + (uint32_t)choose(&chance, 3),
				.window = windows[choose(&chance, ARRAY_SIZE(windows))],
				.cuts = choose(&chance, 2),
				.skew = choose(&chance, 2) ? 0 : choose(&chance, 300 * SEC),
				.rounds_in = choose(&chance, 3),
				.forget_in = rarely(&chance, 300, 2000),
				.change_in = rarely(&chance, 50, 1000),
				.overtake_in = rarely(&chance, 10, 100),
			},
		.kdc =
			{
				.lifetime = rarely(&chance, 20 * SEC, 200 * SEC),
				.keeps = choose(&chance, 2),
				.work = choose(&chance, 2) ? MSEC : choose(&chance, 3 * SEC),
				.away_in = rarely(&chance, 1, 6),
				.silence = choose(&chance, 2) ? 0 : 27 * SEC,
			},
	};
}

void security_begin(const struct kdc_terms *terms)
{
	kdc = (struct kdc){.terms = *terms};
	kdc_heal();
}

void security_end(void)
{
	if (!LIST_EMPTY(&mechanisms))
		world_violated("a client keeps its credentials, or a context outlives it");
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

/* Calls `what` with each call of the mechanism's context that waits for its answer. */
static void for_each_sent(const struct mechanism *mechanism,
			  void (*what)(const struct call *call, uint32_t number), uint32_t number)
{
	const struct rpc_client *rpc = mechanism->rpc;
	const struct call *call;

	if (!moves_data(mechanism))
		return;
	if (rpc->setup && rpc->setup->stamp.context == mechanism->contexts[0])
		what(rpc->setup, number);
	TAILQ_FOREACH (call, &rpc->sent, link)
		if (call->stamp.context == mechanism->contexts[0])
			what(call, number);
}

static void check_window(const struct call *call, uint32_t number)
{
	uint32_t oldest = call->stamp.numbers[0], window = server.terms.gss.window;

	if (oldest && number != oldest && number - oldest >= window)
		world_violated("number %u goes out while %u is not answered, of a window of %u",
			       number, oldest, window);
}

static void check_not_awaited(const struct call *call, uint32_t number)
{
	if (call->stamp.numbers[0] == number)
		world_violated("number %u fell behind the window while it was waited for", number);
}

void security_check_dropped(uint64_t key, uint32_t number)
{
	struct mechanism *mechanism;

	LIST_FOREACH (mechanism, &mechanisms, link)
		if (mechanism->present.key == key)
			for_each_sent(mechanism, check_not_awaited, number);
}

static void note_context(struct mechanism *mechanism, uint32_t context)
{
	mechanism->keys[1] = mechanism->keys[0];
	mechanism->contexts[1] = mechanism->contexts[0];
	mechanism->keys[0] = mechanism->present.key;
	mechanism->contexts[0] = context;
	mechanism->latest = 0;
}

/* A call's header is written. */
static void check_sent(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
		       uint32_t xid)
{
	struct mechanism *mechanism = find_mechanism(credentials);
	uint32_t number = stamp->numbers[0];

	if (!mechanism || !number)
		return;
	if (stamp->context != mechanism->contexts[0])
		note_context(mechanism, stamp->context);
	if (number <= mechanism->latest)
		world_violated("number %u is given after %u", number, mechanism->latest);
	while (mechanism->latest < number)
		mechanism->xids[++mechanism->latest % REMEMBERED] = 0;
	mechanism->xids[number % REMEMBERED] = xid;
	for_each_sent(mechanism, check_window, number);
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
	else if (mechanism->present.key && mechanism->keys[0] == mechanism->present.key)
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
	if (world.clock.now < kdc.back_at)
		return false;
	if (!world_chance(kdc.terms.away_in))
		return true;
	world.failures[FAILED_KDC]++;
	kdc.back_at = world.clock.now + world_random(30 * SEC);
	world_tell("KDC: away for %.3f s", (double)(kdc.back_at - world.clock.now) / SEC);
	return false;
}

/* False: there is none. */
static bool get_ticket(struct mechanism *mechanism)
{
	uint64_t now = world.clock.now;
	uint64_t wanted = now + (kdc.terms.keeps ? 0 : kdc.terms.lifetime / 2);

	if (mechanism->ticket_end > wanted)
		return true;
	if (kdc_answers())
		mechanism->ticket_end = kdc.terms.lifetime ? now + kdc.terms.lifetime : UINT64_MAX;
	return mechanism->ticket_end > now;
}

/* Tickets are of any length. */
static void begin(struct gss_mechanism *base)
{
	struct mechanism *mechanism = mechanism_of(base);

	note_beginning(mechanism);
	mechanism->next_keys.key = 0;
	if (!get_ticket(mechanism)) {
		work(mechanism, HAS_FAILED, kdc.terms.silence);
		return;
	}
	mechanism->half = world_random(UINT64_MAX);
	mechanism->token[0] = mechanism->ticket_end;
	mechanism->token[1] = mechanism->half;
	mechanism->token_length = 16 + (uint32_t)world_random(sizeof(mechanism->token) - 15);
	work(mechanism, TELLS, kdc.terms.work);
}

static void feed(struct gss_mechanism *base, const uint8_t *reply, uint32_t length)
{
	struct mechanism *mechanism = mechanism_of(base);
	uint64_t token[2];

	if (mechanism->state != WAITS_FOR_REPLY)
		world_violated("a mechanism is given a token that it does not wait for");
	if (mechanism->next_keys.key) { /* the second round's: nothing is left to say */
		work(mechanism, HAS_MADE, kdc.terms.work);
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
	work(mechanism, token[1] ? TELLS : HAS_MADE, kdc.terms.work);
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

/* The key that a call was sent by; 0: that is too long ago. */
static uint64_t key_of(const struct mechanism *mechanism, const struct call *call)
{
	for (size_t i = 0; i < ARRAY_SIZE(mechanism->keys); i++)
		if (mechanism->contexts[i] == call->stamp.context)
			return mechanism->keys[i];
	return 0;
}

static bool is_of(uint64_t key, uint32_t number, const struct rpc_verifier *verifier)
{
	const uint32_t wire = htobe32(number);
	const struct iovec part = {(void *)&wire, sizeof(wire)};

	return key && krb5_mic_ok(&(struct krb5_keys){key}, KRB5_ACCEPTOR, &part, 1, verifier->body,
				  verifier->length);
}

/* True where the server has answered one of the call's numbers. */
static bool is_answer(const struct mechanism *mechanism, const struct call *call,
		      const struct rpc_verifier *verifier)
{
	const uint32_t *numbers = call->stamp.numbers;
	uint64_t key = key_of(mechanism, call);

	for (size_t i = 0; i < ARRAY_SIZE(call->stamp.numbers) && numbers[i]; i++)
		if (is_of(key, numbers[i], verifier))
			return true;
	return false;
}

/* The same of an earlier copy: of the two before the latest, as the engine promises. */
static bool is_answer_to_copy(const struct mechanism *mechanism, const struct call *call,
			      const struct rpc_verifier *verifier)
{
	uint32_t copies = 0;

	if (call->stamp.context != mechanism->contexts[0])
		return false;
	for (uint32_t i = 0; i < min_of(mechanism->latest, (uint32_t)REMEMBERED) && copies < 3;
	     i++) {
		uint32_t number = mechanism->latest - i;

		if (mechanism->xids[number % REMEMBERED] != call->xid)
			continue;
		copies++;
		if (is_of(mechanism->keys[0], number, verifier))
			return true;
	}
	return false;
}

/* The mechanism has the key that a call was sent by. */
static bool is_known(const struct mechanism *mechanism, const struct call *call)
{
	uint64_t key = key_of(mechanism, call);

	return key && (key == mechanism->present.key || key == mechanism->earlier.key);
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
	if (taken && !is_answer(mechanism, call, &header.verifier))
		world_violated("a call with number %u was answered by another reply",
			       call->stamp.numbers[0]);
	if (!taken && is_known(mechanism, call) &&
	    (is_answer(mechanism, call, &header.verifier) ||
	     is_answer_to_copy(mechanism, call, &header.verifier)))
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
		nclients_note(rpc->own, rpc);
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
		nclients_note(rpc->own, NULL);
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
