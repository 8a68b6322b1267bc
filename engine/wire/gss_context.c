/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/gss_context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "util.h"
#include "wire/message.h"

/* RFC 2203, 5.3.3.3: numbers end at 2^31, and some are used until the next context is there. */
enum { NUMBER_MAX = 0x7f000000 };

enum { DENIALS_MAX = 3 }; /* contexts in a row that the server does not know */

static const uint64_t MARGIN_MAX = 300 * SEC; /* before its end a context is replaced */
static const uint64_t RENEW_AGAIN = 10 * SEC; /* after that was in vain */

/* --- who waits for room --- */

static void wait_for_room(struct gss_context *context, struct gss_user *user)
{
	if (!user->room || user->waits)
		return;
	TAILQ_INSERT_TAIL(&context->waiting, user, link);
	user->waits = true;
}

static void wait_no_more(struct gss_context *context, struct gss_user *user)
{
	if (user->waits)
		TAILQ_REMOVE(&context->waiting, user, link);
	user->waits = false;
	if (context->turn == user)
		context->turn = NULL;
}

static bool has_room(const struct gss_context *context)
{
	return context->usable && gss_window_has_room(&context->window);
}

static void tell_of_room(const struct gss_context *context)
{
	const struct gss_user *first = TAILQ_FIRST(&context->waiting);

	if (first && has_room(context))
		first->room(first->owner);
}

/* Users that wait for room go first, but for the one whose turn it is. */
bool gss_context_room(struct gss_context *context, struct gss_user *user)
{
	const struct gss_user *first = TAILQ_FIRST(&context->waiting);

	if (has_room(context) && (!first || first == user || context->turn == user)) {
		wait_no_more(context, user);
		return true;
	}
	wait_for_room(context, user);
	return false;
}

void *gss_context_next(struct gss_context *context)
{
	struct gss_user *user = TAILQ_FIRST(&context->waiting);

	context->turn = NULL;
	if (!user || !has_room(context))
		return NULL;
	wait_no_more(context, user);
	context->turn = user;
	return user->owner;
}

/* --- numbers --- */

void gss_context_give_back(struct gss_context *context, const struct rpc_stamp *stamp)
{
	if (!stamp->numbers[0] || stamp->context != context->number)
		return;
	gss_window_give_back(&context->window, stamp->numbers[0]);
	tell_of_room(context);
}

uint32_t gss_context_stamp(struct gss_context *context, const struct gss_user *user,
			   struct rpc_stamp *stamp)
{
	gss_context_give_back(context, stamp);
	if (stamp->context != context->number)
		*stamp = (struct rpc_stamp){.context = context->number};
	memmove(stamp->numbers + 1, stamp->numbers,
		sizeof(stamp->numbers) - sizeof(stamp->numbers[0]));
	return stamp->numbers[0] = gss_window_take(&context->window, user);
}

/* --- making it --- */

/* The present context serves on, where there is one. */
static enum rpc_context_state fail(struct gss_context *context, const char *why)
{
	snprintf(context->error, sizeof(context->error), "%s", why);
	context->renewing = false;
	context->put_off = true;
	context->state = context->usable ? GSS_READY : GSS_NONE;
	return context->usable ? RPC_CONTEXT_READY : RPC_CONTEXT_FAILED;
}

/*
 * When it is replaced: some time before its end, if the next one can last longer. Where the last
 * could not, the server says when it has had enough.
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

/* The reply that ended the making, once there are keys. */
static bool is_the_servers(const struct gss_context *context)
{
	struct gss_mechanism *mechanism = context->mechanism;
	uint32_t window = htobe32(context->window_size);
	const struct iovec part = {&window, sizeof(window)};

	return mechanism->ops->verify(mechanism, false, &part, 1, context->window_mic,
				      context->window_mic_length);
}

/* Calls that were sent by the one before are answered by that. */
static enum rpc_context_state open_context(struct gss_context *context, struct gss_user *user,
					   uint64_t now)
{
	context->usable = false;
	if (!context->next_handle.length)
		return fail(context, "the server has sent no handle of a context");
	if (!is_the_servers(context))
		return fail(context,
			    "the reply that ends the making of a context is not the server's");
	context->handle = context->next_handle;
	gss_window_open(&context->window, context->window_size);
	context->number++;
	set_lifetime(context, now, context->step.lifetime);
	context->enctype = context->step.enctype;
	user->counters->contexts++;
	user->counters->context_time += now - context->began;
	context->usable = true;
	context->renewing = context->put_off = false;
	context->state = GSS_READY;
	tell_of_room(context);
	return RPC_CONTEXT_READY;
}

static enum gss_progress progress(struct gss_context *context)
{
	struct gss_mechanism *mechanism = context->mechanism;

	return mechanism->ops->progress(mechanism, &context->step);
}

/* The user is to send the token. */
static void take_on(struct gss_context *context, const struct gss_user *user)
{
	context->state = GSS_ASKING;
	context->asker = user;
}

static enum rpc_context_state make(struct gss_context *context, struct gss_user *user, uint64_t now)
{
	switch (progress(context)) {
	case GSS_WORKING: return RPC_CONTEXT_WAITS;
	case GSS_TOKEN: take_on(context, user); return RPC_CONTEXT_ASKS;
	case GSS_MADE: return open_context(context, user, now);
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

static bool expires_soon(const struct gss_context *context, uint64_t now)
{
	return now >= context->renew_at || context->window.next >= NUMBER_MAX;
}

/* Calls go on by the present one until the mechanism has what is to be sent for the next. Where
 * there is none, each user is to go on with the making: the one that began it may be lost. */
bool gss_context_due(struct gss_context *context, const struct gss_user *user, uint64_t now)
{
	tell_of_room(context);
	if (context->put_off)
		context->renew_at = max_of(context->renew_at, now + RENEW_AGAIN);
	context->put_off = false;
	if (!context->usable || context->state == GSS_MAKING)
		return true;
	if (context->state != GSS_READY || (!context->renewing && !expires_soon(context, now)))
		return false;
	if (!context->renewing)
		begin(context, now);
	context->renewing = true;
	switch (progress(context)) {
	case GSS_WORKING: return false;
	case GSS_TOKEN: take_on(context, user); return true;
	default: fail(context, context->step.error); return false;
	}
}

enum rpc_context_state gss_context_step(struct gss_context *context, struct gss_user *user,
					uint64_t now)
{
	enum rpc_context_state state = RPC_CONTEXT_READY;

	if (context->state == GSS_NONE) {
		begin(context, now);
		context->state = GSS_MAKING;
	}
	switch (context->state) {
	case GSS_ASKING: return RPC_CONTEXT_ASKS;
	case GSS_ASKED: return RPC_CONTEXT_ASKED;
	case GSS_MAKING: state = make(context, user, now); break;
	default: break;
	}
	if (state == RPC_CONTEXT_READY)
		user->counters->enctype = context->enctype;
	return state;
}

void gss_context_asked(struct gss_context *context, const struct gss_user *user)
{
	context->state = GSS_ASKED;
	context->asker = user;
}

/* RFC 2743, 1.2.1.1: the calling and routine errors are the upper half. */
static bool refused(struct gss_context *context, uint32_t major, uint32_t minor)
{
	enum { CONTINUE_NEEDED = 1 };

	if (major <= CONTINUE_NEEDED)
		return false;
	snprintf(context->error, sizeof(context->error),
		 "the server refuses the ticket (GSS major status %#x, minor %u): has it a keytab "
		 "with this key, and do the clocks agree (within 300 s, clockskew in krb5.conf)?",
		 major, minor);
	return true;
}

bool gss_context_answered(struct gss_context *context, const struct rpc_reply_header *header,
			  struct xdr_in *in)
{
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
	if (refused(context, major, minor))
		return false;
	if (handle_length > sizeof(context->next_handle.bytes) || verifier->length > GSS_MIC_MAX) {
		fail(context, "the server's handle or verifier is longer than any that is known");
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

/* --- losing it --- */

/* The token grows old, or nobody will tell what the server has answered to it. */
static void ask_no_more(struct gss_context *context)
{
	context->state = context->usable ? GSS_READY : GSS_NONE;
	context->renewing = false;
	context->put_off = true;
}

/*
 * The context itself outlives its connections. A server that was restarted knows it no more, which
 * says nothing of the next one.
 */
void gss_context_lost(struct gss_context *context, struct gss_user *user)
{
	wait_no_more(context, user);
	gss_window_give_all_back(&context->window, user);
	context->denials = 0;
	if ((context->state == GSS_ASKING || context->state == GSS_ASKED) && context->asker == user)
		ask_no_more(context);
	tell_of_room(context);
}

bool gss_context_denied(struct gss_context *context, const struct rpc_stamp *stamp,
			uint32_t auth_stat)
{
	if (!rpc_denies_context(auth_stat))
		return false;
	if (stamp->context != context->number || !context->usable)
		return true; /* there is another, or one is being made */
	if (++context->denials > DENIALS_MAX)
		return false;
	context->usable = false;
	if (context->state == GSS_READY)
		context->state = GSS_NONE;
	return true;
}

/* --- its users --- */

static struct gss_context *new_context(struct gss_mechanism *mechanism)
{
	struct gss_context *context = calloc(1, sizeof(*context));

	if (!context) {
		mechanism->ops->free(mechanism);
		return NULL;
	}
	context->mechanism = mechanism;
	TAILQ_INIT(&context->waiting);
	return context;
}

int gss_context_join(struct gss_context **out, struct gss_mechanism *mechanism,
		     struct gss_context **shared)
{
	struct gss_context *context = shared ? *shared : NULL;

	if (!context)
		context = new_context(mechanism);
	if (!context)
		return -ENOMEM;
	context->shared = shared;
	if (shared)
		*shared = context;
	context->users++;
	*out = context;
	return 0;
}

void gss_context_leave(struct gss_context *context)
{
	if (--context->users)
		return;
	if (context->shared)
		*context->shared = NULL;
	context->mechanism->ops->free(context->mechanism);
	free(context);
}
