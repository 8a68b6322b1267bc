/* SPDX-License-Identifier: GPL-2.0-only */
#include "contexts.h"

#include <string.h>

#include "server.h"
#include "tokens.h"
#include "util.h"
#include "wire/credentials.h"
#include "wire/rpcsec_gss.h"
#include "world.h"

enum { CONTEXTS = 64, WINDOW_MAX = 1024 };
enum procedure { DATA, INIT, CONTINUE };
enum { EXPIRED = 11 << 16, CONTINUE_NEEDED = 1 }; /* RFC 2744, 3.9.1 */
enum { HEADER = 24, PROCEDURE_AT = 20 };	  /* of a call */
enum { MIC_AT = 16 };				  /* of a reply, behind its xid */

struct context {
	uint64_t handle; /* 0: it is forgotten */
	uint64_t key, expires;
	uint32_t highest, arrived; /* numbers; of `arrived` it is asked when the call comes in */
	bool seen[WINDOW_MAX];
};

static struct {
	uint64_t made;
	struct context contexts[CONTEXTS]; /* the latest */
} state;

/* A credential, RFC 2203, 5 */
struct credential {
	enum procedure procedure;
	uint32_t number, service;
	uint64_t handle;
};

struct contexts_terms contexts_heal(struct contexts_terms terms)
{
	terms.forget_in = terms.change_in = terms.overtake_in = 0;
	return terms;
}

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

static uint64_t get_handle(struct xdr_in *in)
{
	return xdr_get_u32(in) == sizeof(uint64_t) ? xdr_get_u64(in) : 0;
}

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
	credential->handle = get_handle(in);
	return true;
}

/* An accepted reply up to its results; its verifier is of that number. key 0: AUTH_NONE. */
static void put_accepted(struct xdr_out *out, uint64_t key, uint32_t number)
{
	enum { REPLY = 1, ACCEPTED = 0, SUCCESS = 0 };
	const uint32_t wire = htobe32(number);
	const struct iovec part = {(void *)&wire, sizeof(wire)};
	uint8_t mic[TOKEN_MIC];

	xdr_put_u32(out, REPLY);
	xdr_put_u32(out, ACCEPTED);
	xdr_put_u32(out, key ? RPC_GSS : RPC_AUTH_NONE);
	if (key) {
		token_mic(token_server_key(key), &part, 1, mic);
		xdr_put_opaque(out, mic, sizeof(mic));
	} else {
		xdr_put_u32(out, 0);
	}
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
		.key = token_key(token[1], half),
		.expires = token[0],
	};
	world_tell("server: makes context %llu", (unsigned long long)handle);
	return context;
}

/* The last reply's verifier is of the window. */
static void put_step(struct xdr_out *out, const struct context *context, uint32_t major,
		     const uint64_t token[2])
{
	uint8_t *header = out->at;

	put_accepted(out, major ? 0 : context->key, server.terms.gss.window);
	xdr_put_u32(out, context ? sizeof(context->handle) : 0);
	if (context)
		xdr_put_u64(out, context->handle);
	xdr_put_u32(out, major);
	xdr_put_u32(out, 0); /* minor */
	xdr_put_u32(out, server.terms.gss.window);
	xdr_put_u32(out, token ? 2 * sizeof(token[0]) : 0);
	if (token)
		xdr_put_fixed(out, token, 2 * sizeof(token[0]));
	if (!major && world_chance(server.terms.gss.change_in))
		change_byte(header + MIC_AT, TOKEN_MIC);
}

static void answer_first(const uint8_t *token, uint32_t length, struct xdr_out *out)
{
	uint64_t asked[2] = {0}, answer[2];
	bool again = world_chance(server.terms.gss.rounds_in);

	memcpy(asked, token, min_of((size_t)length, sizeof(asked)));
	if (has_ended(&(struct context){.expires = asked[0]})) {
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
	else if (context && !memcmp(token, &context->key, sizeof(context->key)))
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
	uint32_t window = server.terms.gss.window;

	if (number + window <= context->highest)
		return false;
	while (context->highest < number)
		context->seen[++context->highest % WINDOW_MAX] = false;
	if (context->seen[number % WINDOW_MAX])
		world_violated("number %u was sent twice", number);
	context->seen[number % WINDOW_MAX] = true;
	return true;
}

/* --- calls and replies --- */

static bool unwrap_integrity(uint64_t key, struct xdr_in *in)
{
	uint32_t length = xdr_get_u32(in), mic_length;
	const uint8_t *body = xdr_skip(in, length), *mic;
	const struct iovec part = {(void *)body, length};

	mic_length = xdr_get_u32(in);
	mic = xdr_skip(in, mic_length);
	if (in->bad || !token_mic_ok(key, &part, 1, mic, mic_length))
		return false;
	*in = (struct xdr_in){body, body + length, false};
	return true;
}

static bool unwrap_privacy(uint64_t key, struct xdr_in *in)
{
	uint32_t length = xdr_get_u32(in), plain_length;
	const uint8_t *token = xdr_skip(in, length);
	uint8_t *plain;

	if (in->bad || !token_unwrap(key, (uint8_t *)token, length, &plain, &plain_length))
		return false;
	*in = (struct xdr_in){plain, plain + plain_length, false};
	return true;
}

static bool unwrap(const struct contexts_call *call, struct xdr_in *in)
{
	uint64_t key = token_client_key(call->key);
	uint32_t service = server.terms.gss.service;
	bool right = service == GSS_SERVICE_NONE ||
		     (service == GSS_SERVICE_INTEGRITY ? unwrap_integrity(key, in)
						       : unwrap_privacy(key, in));

	return right && (service == GSS_SERVICE_NONE || xdr_get_u32(in) == call->number);
}

/* The client and the network change nothing of a call. */
static void check_call(const struct contexts_call *call, const struct credential *credential,
		       const struct iovec *header, struct xdr_in *in)
{
	uint32_t length;
	const uint8_t *mic;

	xdr_get_u32(in);
	length = xdr_get_u32(in);
	mic = xdr_skip(in, length);
	if (in->bad || !token_mic_ok(token_client_key(call->key), header, 1, mic, length))
		world_violated("the verifier of number %u is wrong", call->number);
	else if (credential->service != server.terms.gss.service || !unwrap(call, in))
		world_violated("the arguments of number %u are not protected", call->number);
}

static void forget_by_chance(void)
{
	if (world_chance(server.terms.gss.forget_in))
		forget(&state.contexts[(state.made - world_random(8)) % CONTEXTS]);
}

static enum contexts_fate open_data(struct contexts_call *call, const struct credential *credential,
				    const struct iovec *header, struct xdr_in *in,
				    struct xdr_out *out)
{
	struct context *context;

	forget_by_chance();
	context = find(credential->handle);
	if (!context)
		return deny(out, RPC_CREDENTIAL_PROBLEM);
	call->key = context->key;
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
		return open_data(call, &credential, &header, in, out);
	xdr_get_u32(in); /* no verifier */
	xdr_skip(in, xdr_get_u32(in));
	return answer_step(&credential, in, out);
}

/* An RPC error in its place, of somebody who has no key, or does as if. */
static void forge_error(uint8_t *header, struct xdr_out *out)
{
	enum { GARBAGE_ARGS = 4, NOBODYS_KEY = 1 };
	const uint32_t stat = htobe32(GARBAGE_ARGS + (uint32_t)world_random(2));

	world.failures[FAILED_CHANGED]++;
	out->at = header;
	put_accepted(out, world_random(2) ? NOBODYS_KEY : 0, 0);
	memcpy(out->at - sizeof(stat), &stat, sizeof(stat));
}

/* In the verifier, or in what the service protects; or all of it. */
static void change_by_chance(uint8_t *header, const uint8_t *results, struct xdr_out *out)
{
	if (!world_chance(server.terms.gss.change_in))
		return;
	if (!world_random(3))
		forge_error(header, out);
	else if (server.terms.gss.service == GSS_SERVICE_NONE || world_random(2))
		change_byte(header + MIC_AT, TOKEN_MIC);
	else
		change_byte((uint8_t *)results, (size_t)(out->at - results));
}

void contexts_seal(const struct contexts_call *call, uint8_t *header, const uint8_t *results,
		   struct xdr_out *out)
{
	static uint8_t plain[SERVER_FILE + 1024];
	uint64_t key = token_server_key(call->key);
	const uint32_t number = htobe32(call->number);
	const struct iovec parts[] = {{(void *)&number, sizeof(number)},
				      {plain, (size_t)(out->at - results)}};
	uint32_t length = (uint32_t)(sizeof(number) + parts[1].iov_len);
	uint8_t *sealed, mic[TOKEN_MIC];

	if (!call->key)
		return;
	memcpy(plain, results, parts[1].iov_len);
	out->at = header;
	put_accepted(out, call->key, call->number);
	sealed = out->at;
	switch (server.terms.gss.service) {
	case GSS_SERVICE_NONE: xdr_put_fixed(out, plain, (uint32_t)parts[1].iov_len); break;
	case GSS_SERVICE_INTEGRITY:
		xdr_put_u32(out, length);
		xdr_put_u32(out, call->number);
		xdr_put_fixed(out, plain, (uint32_t)parts[1].iov_len);
		token_mic(key, parts, 2, mic);
		xdr_put_opaque(out, mic, sizeof(mic));
		break;
	default:
		xdr_put_u32(out, length + TOKEN_WRAP);
		token_wrap(key, parts, 2, xdr_room(out, length + TOKEN_WRAP));
	}
	change_by_chance(header, sealed, out);
}
