/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/gss_context.h"

#include <string.h>

#include "wire/message.h"

/* Numbers end at 2^31 (RFC 2203, 5.3.3.3): from here on a new context is made. */
enum { NUMBER_MAX = 0x7f000000 };

enum { DENIALS_MAX = 3 }; /* contexts in a row that the server may deny, before calls fail */

static const uint64_t MARGIN_MAX = 300 * SEC; /* a context is replaced before its end */
static const uint64_t RENEW_AGAIN = 10 * SEC; /* between attempts to replace it */

static struct gss_context *context_of(struct rpc_credentials *credentials)
{
	return container_of(credentials, struct gss_context, base);
}

/* --- numbers --- */

/* A window of one or two takes one call at a time. */
bool gss_context_has_room(const struct gss_context *context)
{
	const struct gss_window *window = &context->window;
	uint32_t room = window->size > 2 ? window->size - 1 : 1;

	return context->usable && window->next - window->oldest < room;
}

/* Ignores a number that was released before. */
void gss_context_overdue(struct rpc_credentials *credentials, const struct rpc_stamp *stamp)
{
	struct gss_context *context = context_of(credentials);
	struct gss_window *window = &context->window;
	uint32_t number = stamp->numbers[0];

	if (!number || stamp->context != context->number ||
	    number - window->oldest >= window->next - window->oldest)
		return;
	window->awaited[number % GSS_WINDOW_MAX] = false;
	while (window->oldest != window->next && !window->awaited[window->oldest % GSS_WINDOW_MAX])
		window->oldest++;
}

/* The mechanism keeps the keys of the present context, and of the one before it. */
bool gss_context_orphaned(const struct rpc_credentials *credentials, const struct rpc_stamp *stamp)
{
	const struct gss_context *context =
		container_of(credentials, const struct gss_context, base);

	return stamp->numbers[0] && context->number - stamp->context > 1;
}

void gss_context_release(struct rpc_credentials *credentials, struct rpc_stamp *stamp)
{
	gss_context_overdue(credentials, stamp);
	*stamp = (struct rpc_stamp){0};
}

uint32_t gss_context_stamp(struct gss_context *context, struct rpc_stamp *stamp)
{
	struct gss_window *window = &context->window;

	gss_context_overdue(&context->base, stamp);
	if (stamp->context != context->number)
		*stamp = (struct rpc_stamp){.context = context->number};
	memmove(stamp->numbers + 1, stamp->numbers,
		sizeof(stamp->numbers) - sizeof(stamp->numbers[0]));
	window->awaited[window->next % GSS_WINDOW_MAX] = true;
	return stamp->numbers[0] = window->next++;
}

/* --- making a context --- */

/* Stops making the next context. The present one, if there is one, stays in use. */
static void stop_making(struct gss_context *context)
{
	context->state = context->usable ? GSS_READY : GSS_NONE;
	context->renewing = false;
	context->put_off = true;
}

static enum rpc_context_state fail(struct gss_context *context, const char *why)
{
	snprintf(context->error, sizeof(context->error), "%s", why);
	stop_making(context);
	return context->usable ? RPC_CONTEXT_READY : RPC_CONTEXT_FAILED;
}

/*
 * Plans to replace a context some time before its end. But if it ends no later than the one before
 * it, nor would the next one: then it is used until the server denies it.
 */
static void set_lifetime(struct gss_context *context, uint64_t now, uint64_t lifetime)
{
	uint64_t expires = lifetime > UINT64_MAX - now ? UINT64_MAX : now + lifetime;
	bool longer = expires > context->expires && expires - context->expires > SEC;

	context->renew_at = longer && expires < UINT64_MAX
				    ? expires - min_of(lifetime / 4, MARGIN_MAX)
				    : UINT64_MAX;
	context->expires = expires;
}

/*
 * With the new context's keys, checks the reply that completes the context. If that fails, the
 * present context serves on. Calls sent with the earlier context are answered with that context.
 */
static enum rpc_context_state open_context(struct gss_context *context, uint64_t now)
{
	struct gss_mechanism *mechanism = context->mechanism;
	uint32_t window = htobe32(context->window_size);
	const struct iovec part = {&window, sizeof(window)};

	if (!context->next_handle.length)
		return fail(context, "the server has sent no context handle");
	if (!krb5_mic_ok(mechanism->next, KRB5_ACCEPTOR, &part, 1, context->window_mic,
			 context->window_mic_length))
		return fail(context, "the reply that completes the context is not the server's");
	mechanism->ops->adopt(mechanism);
	context->handle = context->next_handle;
	context->window = (struct gss_window){
		.size = min_of(context->window_size, (uint32_t)GSS_WINDOW_MAX),
		.oldest = 1,
		.next = 1,
	};
	context->number++;
	set_lifetime(context, now, context->step.lifetime);
	context->counters->algorithm = context->step.enctype;
	context->counters->count++;
	context->counters->time += now - context->began;
	context->usable = true;
	context->renewing = context->put_off = false;
	context->state = GSS_READY;
	return RPC_CONTEXT_READY;
}

static enum rpc_context_state make(struct gss_context *context, uint64_t now)
{
	struct gss_mechanism *mechanism = context->mechanism;

	switch (mechanism->ops->progress(mechanism, &context->step)) {
	case RPC_CONTEXT_WAITS: return RPC_CONTEXT_WAITS;
	case RPC_CONTEXT_ASKS: context->state = GSS_ASKING; return RPC_CONTEXT_ASKS;
	case RPC_CONTEXT_READY: return open_context(context, now);
	default: return fail(context, context->step.error);
	}
}

static void begin(struct gss_context *context, uint64_t now)
{
	struct gss_mechanism *mechanism = context->mechanism;

	context->began = now;
	context->next_handle.length = 0;
	mechanism->ops->begin(mechanism);
}

/* Calls use the present context until the mechanism has a token to send for the next one. */
bool gss_context_due(struct rpc_credentials *credentials, uint64_t now)
{
	struct gss_context *context = context_of(credentials);

	if (context->put_off)
		context->renew_at = max_of(context->renew_at, now + RENEW_AGAIN);
	context->put_off = false;
	if (!context->usable || context->state == GSS_MAKING)
		return true;
	if (context->state != GSS_READY ||
	    (!context->renewing && now < context->renew_at && context->window.next < NUMBER_MAX))
		return false;
	if (!context->renewing)
		begin(context, now);
	context->renewing = true;
	return make(context, now) == RPC_CONTEXT_ASKS;
}

uint64_t gss_context_renew_at(const struct rpc_credentials *credentials)
{
	const struct gss_context *context =
		container_of(credentials, const struct gss_context, base);

	return context->window.next < NUMBER_MAX ? context->renew_at : 0;
}

enum rpc_context_state gss_context_step(struct rpc_credentials *credentials, uint64_t now)
{
	struct gss_context *context = context_of(credentials);

	if (context->state == GSS_NONE) {
		begin(context, now);
		context->state = GSS_MAKING;
	}
	switch (context->state) {
	case GSS_ASKING: return RPC_CONTEXT_ASKS;
	case GSS_MAKING: return make(context, now);
	default: return RPC_CONTEXT_READY;
	}
}

const char *gss_context_error(const struct rpc_credentials *credentials)
{
	return container_of(credentials, const struct gss_context, base)->error;
}

bool gss_context_answered(struct rpc_credentials *credentials,
			  const struct rpc_reply_header *header, struct xdr_in *in)
{
	enum { CONTINUE_NEEDED = 1 }; /* RFC 2744, 3.9.1: errors are in the upper half */
	struct gss_context *context = context_of(credentials);
	struct gss_mechanism *mechanism = context->mechanism;
	const struct rpc_verifier *verifier = &header->verifier;
	uint32_t handle_length = xdr_get_u32(in), major, minor, window, length;
	const uint8_t *handle = xdr_skip(in, handle_length), *token;

	major = xdr_get_u32(in);
	minor = xdr_get_u32(in);
	window = xdr_get_u32(in);
	length = xdr_get_u32(in);
	token = xdr_skip(in, length);
	if (in->bad)
		return true;
	if (major > CONTINUE_NEEDED) {
		snprintf(
			context->error, sizeof(context->error),
			"the server refuses the ticket (GSS major status %#x, minor %u): does its "
			"keytab have this key, and do the clocks agree (within 300 s, clockskew in "
			"krb5.conf)?",
			major, minor);
		return false;
	}
	if (handle_length > sizeof(context->next_handle.bytes) || verifier->length > KRB5_MIC_MAX) {
		fail(context, "the server's handle or verifier is longer than any known server's");
		return false;
	}
	memcpy(context->next_handle.bytes, handle, handle_length);
	context->next_handle.length = handle_length;
	context->window_size = window;
	memcpy(context->window_mic, verifier->body, verifier->length);
	context->window_mic_length = verifier->length;
	mechanism->ops->feed(mechanism, token, length);
	context->state = GSS_MAKING;
	return true;
}

/* --- losing a context --- */

/*
 * A context stays valid after its connection is lost. An unfinished one does not: the reply to its
 * token is lost. Resets the count of denials: a restarted server has forgotten contexts.
 */
void gss_context_lost(struct rpc_credentials *credentials)
{
	struct gss_context *context = context_of(credentials);

	context->window.oldest = context->window.next;
	context->denials = 0;
	if (context->state == GSS_ASKING)
		stop_making(context);
}

bool gss_context_denied(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			uint32_t auth_stat)
{
	struct gss_context *context = context_of(credentials);

	if (!rpc_denies_context(auth_stat))
		return false;
	if (stamp->context != context->number || !context->usable)
		return true; /* a newer context exists, or is being made */
	if (++context->denials > DENIALS_MAX)
		return false;
	context->usable = false;
	if (context->state == GSS_READY)
		context->state = GSS_NONE;
	return true;
}
