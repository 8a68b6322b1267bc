/* SPDX-License-Identifier: GPL-2.0-only */
#include "server.h"

#include <stdlib.h>
#include <string.h>

#include "util.h"
#include "wire/credentials.h"
#include "wire/rpcsec_gss.h"
#include "world.h"

/*
 * --- Kerberos' tokens, for both sides, in the place of engine/wire/krb5_token.c: a sum and a
 * cipher that cost next to nothing, by a context's key. They refuse what is changed or another
 * context's, and keep no secret ---
 */

enum { TOKEN_MIC = 8, TOKEN_WRAP = 8 }; /* bytes of a MIC, and those that a message grows by */

/* The last steps of splitmix64. */
static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint64_t token_key(uint64_t clients, uint64_t servers)
{
	return mix(clients) ^ servers;
}

/* The same of the same bytes, however they lie in parts. */
static uint64_t token_sum(uint64_t key, const struct iovec *parts, int count)
{
	uint64_t sum = mix(key), word = 0, length = 0;

	for (int i = 0; i < count; i++) {
		const uint8_t *at = parts[i].iov_base, *end = at + parts[i].iov_len;

		for (; at < end; at++) {
			word = word << 8 | *at;
			if (++length % sizeof(word))
				continue;
			sum = (sum ^ word) * 0x94d049bb133111ebull;
			sum ^= sum >> 29;
		}
	}
	return mix(sum ^ word ^ length << 32);
}

/* Encrypts and decrypts, however the bytes lie in parts. */
static void cipher(uint64_t key, const struct iovec *parts, int count)
{
	uint64_t stream = 0, length = 0;

	for (int i = 0; i < count; i++) {
		uint8_t *at = parts[i].iov_base, *end = at + parts[i].iov_len;

		for (; at < end; at++) {
			if (length % sizeof(stream) == 0)
				stream = mix(key + length);
			*at ^= (uint8_t)(stream >> 8 * (length++ % sizeof(stream)));
		}
	}
}

static uint64_t key_of(const struct krb5_keys *keys, enum krb5_side side)
{
	if (!keys->key)
		abort(); /* there is no context */
	return side == KRB5_INITIATOR ? keys->key : ~keys->key;
}

uint32_t __wrap_krb5_mic_size(const struct krb5_keys *keys)
{
	return TOKEN_MIC;
}

bool __wrap_krb5_mic(struct krb5_keys *keys, enum krb5_side side, uint64_t sequence,
		     const struct iovec *parts, int count, uint8_t *mic)
{
	uint64_t sum = token_sum(key_of(keys, side), parts, count);

	memcpy(mic, &sum, TOKEN_MIC);
	return true;
}

bool __wrap_krb5_mic_ok(struct krb5_keys *keys, enum krb5_side side, const struct iovec *parts,
			int count, const uint8_t *mic, uint32_t length)
{
	uint64_t sum = token_sum(key_of(keys, side), parts, count);

	return length == TOKEN_MIC && !memcmp(mic, &sum, TOKEN_MIC);
}

uint32_t __wrap_krb5_wrap_size(const struct krb5_keys *keys)
{
	return TOKEN_WRAP;
}

/* The sum of the text, which no two tokens have in common, and the text. */
bool __wrap_krb5_wrap(struct krb5_keys *keys, enum krb5_side side, uint64_t sequence,
		      const struct iovec *parts, int count, uint8_t *token)
{
	uint64_t key = key_of(keys, side), sum = token_sum(key, parts, count);
	uint8_t *end = mempcpy(token, &sum, TOKEN_WRAP);
	struct iovec text = {end, 0};

	for (int i = 0; i < count; i++)
		if (parts[i].iov_len)
			end = mempcpy(end, parts[i].iov_base, parts[i].iov_len);
	text.iov_len = (size_t)(end - token) - TOKEN_WRAP;
	cipher(key ^ sum, &text, 1);
	return true;
}

bool __wrap_krb5_wrap_end(struct krb5_keys *keys)
{
	return true;
}

uint32_t __wrap_krb5_wrap_front(const uint8_t *token, uint32_t have)
{
	return have > TOKEN_WRAP ? TOKEN_WRAP : 0;
}

bool __wrap_krb5_unwrap_parts(struct krb5_keys *keys, enum krb5_side side,
			      const struct iovec *parts, int count)
{
	uint64_t key = key_of(keys, side), sum;
	struct iovec text[KRB5_PARTS_MAX];

	memcpy(text, parts, (size_t)count * sizeof(*parts));
	memcpy(&sum, text[0].iov_base, sizeof(sum));
	text[0].iov_base = (uint8_t *)text[0].iov_base + TOKEN_WRAP;
	text[0].iov_len -= TOKEN_WRAP;
	cipher(key ^ sum, text, count);
	return sum == token_sum(key, text, count);
}

bool __wrap_krb5_unwrap(struct krb5_keys *keys, enum krb5_side side, uint8_t *token,
			uint32_t length, uint8_t **plain, uint32_t *plain_length)
{
	const struct iovec part = {token, length};

	if (length < TOKEN_WRAP)
		return false;
	*plain = token + TOKEN_WRAP;
	*plain_length = length - TOKEN_WRAP;
	return __wrap_krb5_unwrap_parts(keys, side, &part, 1);
}

/* --- contexts, RFC 2203 --- */

enum { CONTEXTS = 64 };
enum procedure { DATA, INIT, CONTINUE };
enum { EXPIRED = 11 << 16, CONTINUE_NEEDED = 1 }; /* RFC 2744, 3.9.1 */
enum { HEADER = 24, PROCEDURE_AT = 20 };	  /* of a call */
enum { MIC_AT = 16 };				  /* of a reply, behind its xid */

struct context {
	uint64_t handle; /* 0: it is forgotten */
	struct krb5_keys keys;
	uint64_t expires;
	uint32_t highest, arrived; /* numbers; of `arrived` it is asked when the call comes in */
};

static struct {
	uint64_t made;
	struct context contexts[CONTEXTS]; /* the latest */
	uint64_t refuses_until;
} state;

/* A credential, RFC 2203, 5 */
struct credential {
	enum procedure procedure;
	uint32_t number, service;
	uint64_t handle;
};

void contexts_begin(void)
{
	memset(&state, 0, sizeof(state));
}

static void forget(struct context *context)
{
	if (!context->handle)
		return;
	world_tell("server: forgets context %llu", (unsigned long long)context->handle);
	world.failures[FAILED_CONTEXT]++;
	context->handle = 0;
}

void contexts_restart(void)
{
	for (int i = 0; i < CONTEXTS; i++)
		forget(&state.contexts[i]);
}

void contexts_refuse(uint64_t until)
{
	contexts_restart();
	state.refuses_until = until;
}

static struct context *find(uint64_t handle)
{
	struct context *context = &state.contexts[handle % CONTEXTS];

	return handle && context->handle == handle ? context : NULL;
}

static bool has_ended(const struct context *context)
{
	return context->expires != UINT64_MAX &&
	       world.clock.now > context->expires + server.terms.gss.skew;
}

/* --- headers --- */

/* False: there is none. */
static bool read_credential(struct xdr_in *in, struct credential *credential)
{
	if (xdr_get_u32(in) != RPC_GSS) {
		xdr_skip(in, xdr_get_u32(in));
		return false;
	}
	xdr_get_u32(in); /* length */
	xdr_get_u32(in); /* version */
	credential->procedure = (enum procedure)xdr_get_u32(in);
	credential->number = xdr_get_u32(in);
	credential->service = xdr_get_u32(in);
	credential->handle = xdr_get_u32(in) == sizeof(uint64_t) ? xdr_get_u64(in) : 0;
	return true;
}

static void put_mic(struct xdr_out *out, struct krb5_keys *keys, struct iovec bytes)
{
	uint8_t mic[TOKEN_MIC];

	krb5_mic(keys, KRB5_ACCEPTOR, 0, &bytes, 1, mic);
	xdr_put_opaque(out, mic, sizeof(mic));
}

/* An accepted reply up to its results; its verifier is of that number. NULL: AUTH_NONE. */
static void put_accepted(struct xdr_out *out, struct krb5_keys *keys, uint32_t number)
{
	enum { REPLY = 1, ACCEPTED = 0, SUCCESS = 0 };
	const uint32_t wire = htobe32(number);

	xdr_put_u32(out, REPLY);
	xdr_put_u32(out, ACCEPTED);
	xdr_put_u32(out, keys ? RPC_GSS : RPC_AUTH_NONE);
	if (keys)
		put_mic(out, keys, (struct iovec){(void *)&wire, sizeof(wire)});
	else
		xdr_put_u32(out, 0);
	xdr_put_u32(out, SUCCESS);
}

static enum contexts_fate deny(struct xdr_out *out, enum rpc_auth_stat stat)
{
	enum { REPLY = 1, DENIED = 1, AUTH_ERROR = 1 };

	world_tell("server: denies it, auth_stat %d", stat);
	xdr_put_u32(out, REPLY);
	xdr_put_u32(out, DENIED);
	xdr_put_u32(out, AUTH_ERROR);
	xdr_put_u32(out, stat);
	return CONTEXTS_ANSWERED;
}

/* On its way: a reply's verifier, or what the service protects. */
static void change_byte(uint8_t *first, size_t length)
{
	world.failures[FAILED_CHANGED]++;
	first[world_random(length)] ^= (uint8_t)(1 + world_random(255));
}

/* --- making a context --- */

static struct context *new_context(const uint64_t token[2], uint64_t half)
{
	uint64_t handle = ++state.made;
	struct context *context = &state.contexts[handle % CONTEXTS];

	forget(context);
	*context = (struct context){
		.handle = handle,
		.keys = {token_key(token[1], half)},
		.expires = token[0],
	};
	world_tell("server: makes context %llu", (unsigned long long)handle);
	return context;
}

/* The last reply's verifier is of the window. */
static void put_step(struct xdr_out *out, struct context *context, uint32_t major,
		     const uint64_t token[2])
{
	uint8_t *header = out->at;

	put_accepted(out, major ? NULL : &context->keys, server.terms.gss.window);
	xdr_put_u32(out, context ? sizeof(context->handle) : 0);
	if (context)
		xdr_put_u64(out, context->handle);
	xdr_put_u32(out, major);
	xdr_put_u32(out, 0); /* minor */
	xdr_put_u32(out, server.terms.gss.window);
	xdr_put_u32(out, token ? 2 * sizeof(token[0]) : 0);
	if (token)
		xdr_put_fixed(out, token, 2 * sizeof(token[0]));
	if (!major && world_chance(server.fails.change_in))
		change_byte(header + MIC_AT, TOKEN_MIC);
}

static void answer_first(const uint8_t *token, uint32_t length, struct xdr_out *out)
{
	uint64_t asked[2] = {0}, answer[2];
	bool again = world_chance(server.terms.gss.rounds_in);

	memcpy(asked, token, min_of((size_t)length, sizeof(asked)));
	if (has_ended(&(struct context){.expires = asked[0]}) ||
	    world.clock.now < state.refuses_until) {
		put_step(out, NULL, EXPIRED, NULL);
		return;
	}
	answer[0] = world_random(UINT64_MAX);
	answer[1] = again;
	put_step(out, new_context(asked, answer[0]), again ? CONTINUE_NEEDED : 0, answer);
}

static enum contexts_fate answer_step(const struct credential *credential, struct xdr_in *in,
				      struct xdr_out *out)
{
	uint32_t length = xdr_get_u32(in);
	const uint8_t *token = xdr_skip(in, length);
	struct context *context = find(credential->handle);

	if (in->bad)
		return CONTEXTS_DROP;
	if (credential->procedure == INIT)
		answer_first(token, length, out);
	else if (context && !memcmp(token, &context->keys.key, sizeof(context->keys.key)))
		put_step(out, context, 0, NULL);
	else
		return deny(out, RPC_CREDENTIAL_PROBLEM);
	return CONTEXTS_ANSWERED;
}

/* --- numbers (5.3.3.1) --- */

void contexts_note_arrival(const uint8_t *bytes, uint32_t length)
{
	struct xdr_in in = {bytes + HEADER, bytes + length, false};
	struct credential credential;
	struct context *context;

	if (!read_credential(&in, &credential) || credential.procedure != DATA)
		return;
	context = find(credential.handle);
	if (!context)
		return;
	if (credential.number <= context->arrived)
		world_violated("number %u was sent after %u", credential.number, context->arrived);
	context->arrived = max_of(context->arrived, credential.number);
}

/* False: it is behind the window. */
static bool take_number(struct context *context, uint32_t number)
{
	context->highest = max_of(context->highest, number);
	return number + server.terms.gss.window > context->highest;
}

/* --- calls and replies --- */

/* False: what comes next is no MIC of the client's for these bytes. */
static bool get_mic(struct xdr_in *in, struct krb5_keys *keys, struct iovec bytes)
{
	uint32_t length = xdr_get_u32(in);
	const uint8_t *mic = xdr_skip(in, length);

	return !in->bad && krb5_mic_ok(keys, KRB5_INITIATOR, &bytes, 1, mic, length);
}

static bool unwrap(struct contexts_call *call, struct xdr_in *in)
{
	uint32_t service = server.terms.gss.service, length;
	uint8_t *body;

	if (service == GSS_SERVICE_NONE)
		return true;
	length = xdr_get_u32(in);
	body = (uint8_t *)xdr_skip(in, length);
	if (in->bad)
		return false;
	if (service == GSS_SERVICE_INTEGRITY
		    ? !get_mic(in, &call->keys, (struct iovec){body, length})
		    : !krb5_unwrap(&call->keys, KRB5_INITIATOR, body, length, &body, &length))
		return false;
	*in = (struct xdr_in){body, body + length, false};
	return xdr_get_u32(in) == call->number;
}

/* The client and the network change nothing of a call. */
static void check_call(struct contexts_call *call, const struct credential *credential,
		       struct iovec header, struct xdr_in *in)
{
	xdr_get_u32(in);
	if (!get_mic(in, &call->keys, header))
		world_violated("the verifier of number %u is wrong", call->number);
	else if (credential->service != server.terms.gss.service || !unwrap(call, in))
		world_violated("the arguments of number %u are not protected", call->number);
}

static void forget_by_chance(void)
{
	if (world_chance(server.fails.forget_context_in))
		forget(&state.contexts[(state.made - world_random(8)) % CONTEXTS]);
}

static enum contexts_fate open_data(struct contexts_call *call, const struct credential *credential,
				    struct iovec header, struct xdr_in *in, struct xdr_out *out)
{
	struct context *context;

	forget_by_chance();
	context = find(credential->handle);
	if (!context)
		return deny(out, RPC_CREDENTIAL_PROBLEM);
	call->keys = context->keys;
	call->number = credential->number;
	if (has_ended(context))
		return deny(out, RPC_CONTEXT_PROBLEM);
	if (!take_number(context, call->number))
		return CONTEXTS_DROP;
	check_call(call, credential, header, in);
	return CONTEXTS_SERVE;
}

enum contexts_fate contexts_open(struct contexts_call *call, const uint8_t *start,
				 struct xdr_in *in, struct xdr_out *out)
{
	struct credential credential;
	struct iovec header;
	uint32_t procedure;

	*call = (struct contexts_call){0};
	memcpy(&procedure, start + PROCEDURE_AT, sizeof(procedure));
	if (!read_credential(in, &credential)) {
		if (procedure)
			world_violated("a call went out without a context");
		xdr_get_u32(in);
		xdr_skip(in, xdr_get_u32(in));
		return CONTEXTS_SERVE;
	}
	header = (struct iovec){(void *)start, (size_t)(in->at - start)};
	if (credential.procedure == DATA)
		return open_data(call, &credential, header, in, out);
	xdr_get_u32(in); /* no verifier */
	xdr_skip(in, xdr_get_u32(in));
	return answer_step(&credential, in, out);
}

/* An RPC error in its place, of somebody who has no key, or does as if. */
static void forge_error(uint8_t *header, struct xdr_out *out)
{
	enum { GARBAGE_ARGS = 4 };
	struct krb5_keys nobodys = {1};
	const uint32_t stat = htobe32(GARBAGE_ARGS + (uint32_t)world_random(2));

	world.failures[FAILED_CHANGED]++;
	out->at = header;
	put_accepted(out, world_random(2) ? &nobodys : NULL, 0);
	memcpy(out->at - sizeof(stat), &stat, sizeof(stat));
}

/* In the verifier, or in what the service protects; or all of it. */
static void change_by_chance(uint8_t *header, const uint8_t *results, struct xdr_out *out)
{
	if (!world_chance(server.fails.change_in))
		return;
	if (!world_random(3))
		forge_error(header, out);
	else if (server.terms.gss.service == GSS_SERVICE_NONE || world_random(2))
		change_byte(header + MIC_AT, TOKEN_MIC);
	else
		change_byte((uint8_t *)results, (size_t)(out->at - results));
}

void contexts_seal(struct contexts_call *call, uint8_t *header, const uint8_t *results,
		   struct xdr_out *out)
{
	static uint8_t body[SERVER_FILE + 1024];
	const uint32_t number = htobe32(call->number), size = (uint32_t)(out->at - results);
	const uint32_t length = sizeof(number) + size;
	const struct iovec part = {body, length};
	uint8_t *sealed;

	if (!call->keys.key)
		return;
	memcpy(mempcpy(body, &number, sizeof(number)), results, size);
	out->at = header;
	put_accepted(out, &call->keys, call->number);
	sealed = out->at;
	switch (server.terms.gss.service) {
	case GSS_SERVICE_NONE: xdr_put_fixed(out, body + sizeof(number), size); break;
	case GSS_SERVICE_INTEGRITY:
		xdr_put_opaque(out, body, length);
		put_mic(out, &call->keys, part);
		break;
	default:
		xdr_put_u32(out, length + TOKEN_WRAP);
		krb5_wrap(&call->keys, KRB5_ACCEPTOR, 0, &part, 1,
			  xdr_room(out, length + TOKEN_WRAP));
	}
	change_by_chance(header, sealed, out);
}
