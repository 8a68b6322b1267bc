/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rpcsec_gss.c - makes a context between client and server (RFC 2203, 5.2), replaces it before it
 * ends or after the server has forgotten it, and by it authenticates and protects each call.
 */
#include "wire/rpcsec_gss.h"

#include <stdlib.h>
#include <string.h>

#include "util.h"
#include "wire/message.h"
#include "wire/reply.h"

/* RFC 2203, 5 */
enum { VERSION = 1 };
enum gss_procedure { GSS_DATA = 0, GSS_INIT = 1, GSS_CONTINUE = 2, GSS_DESTROY = 3 };

enum {
	ARENA = 4 << 20,   /* bytes of encrypted calls that are not sent yet */
	PROCEDURE_AT = 20, /* in a call's header */
	NULL_PROCEDURE = 0,
};

enum gss_state {
	GSS_NONE,
	GSS_MAKING, /* the mechanism is working */
	GSS_ASKING, /* a token must be sent, or its reply is awaited */
	GSS_READY,
};

/*
 * A context's sequence numbers, and their limit. A server drops a call whose number is below the
 * window (RFC 2203, 5.3.3.1); some servers also close the connection. A server's threads may take
 * calls in any order, so the oldest unanswered number limits the next one.
 */
enum { GSS_WINDOW_MAX = 256 }; /* our limit, also for a larger window */

struct gss_window {
	uint32_t size;		      /* the server's, at most GSS_WINDOW_MAX */
	uint32_t oldest, next;	      /* the oldest unanswered number; the next to give */
	bool awaited[GSS_WINDOW_MAX]; /* numbers that are not answered yet */
};

struct gss_handle {
	uint8_t bytes[128]; /* servers use up to 16 */
	uint32_t length;
};

struct rpcsec_gss {
	struct rpc_credentials base;
	struct rpcsec_gss_terms terms;

	/* Contexts. */
	enum gss_state state; /* of the present context, or of the next while calls wait for it */
	bool usable;	      /* there is a present context, and it was not denied */
	bool renewing;	      /* the mechanism is making the next context */
	bool put_off;	      /* making it failed: wait before the next try */
	uint32_t number;      /* contexts made so far */
	struct gss_window window;
	struct gss_handle handle, next_handle;
	uint64_t began; /* when the latest context was begun */
	uint64_t renew_at, expires;
	uint32_t denials; /* contexts in a row that the server denied */
	char error[400];
	struct gss_step step; /* the mechanism's latest step */

	/* From the reply to INIT, whose verifier is checked once there are keys. */
	uint32_t window_size;
	uint8_t window_mic[KRB5_MIC_MAX];
	uint32_t window_mic_length;

	/* Calls and replies. */
	uint32_t matched;	    /* the sequence number of the latest verified reply */
	struct krb5_keys *keys;	    /* of the reply being checked */
	uint8_t tail[RPC_TAIL_MAX]; /* of the latest call */
	uint8_t *arena;		    /* privacy: encrypted calls until they are sent */
	uint32_t arena_size, arena_used;
};

static struct rpcsec_gss *gss_of(struct rpc_credentials *credentials)
{
	return container_of(credentials, struct rpcsec_gss, base);
}

/* Numbers end at 2^31 (RFC 2203, 5.3.3.3): from here on a new context is made. */
enum { NUMBER_MAX = 0x7f000000 };

enum { DENIALS_MAX = 3 }; /* contexts in a row that the server may deny, before calls fail */

static const uint64_t MARGIN_MAX = 300 * SEC; /* a context is replaced before its end */
static const uint64_t RENEW_AGAIN = 10 * SEC; /* between attempts to replace it */

/* --- a context's numbers --- */

/* True if one more call may get a number. A window of one or two takes one call at a time. */
static bool has_room(const struct rpcsec_gss *gss)
{
	const struct gss_window *window = &gss->window;
	uint32_t room = window->size > 2 ? window->size - 1 : 1;

	return gss->usable && window->next - window->oldest < room;
}

/* Ignores a number that was released before. */
static void overdue(struct rpc_credentials *credentials, const struct rpc_stamp *stamp)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	struct gss_window *window = &gss->window;
	uint32_t number = stamp->numbers[0];

	if (!number || stamp->context != gss->number ||
	    number - window->oldest >= window->next - window->oldest)
		return;
	window->awaited[number % GSS_WINDOW_MAX] = false;
	while (window->oldest != window->next && !window->awaited[window->oldest % GSS_WINDOW_MAX])
		window->oldest++;
}

/* The mechanism keeps the keys of the present context, and of the one before it. */
static bool orphaned(const struct rpc_credentials *credentials, const struct rpc_stamp *stamp)
{
	const struct rpcsec_gss *gss = container_of(credentials, const struct rpcsec_gss, base);

	return stamp->numbers[0] && gss->number - stamp->context > 1;
}

static void release(struct rpc_credentials *credentials, struct rpc_stamp *stamp)
{
	overdue(credentials, stamp);
	*stamp = (struct rpc_stamp){0};
}

/* Gives the call the next sequence number; its earlier one no longer holds back the window. */
static uint32_t stamp_call(struct rpcsec_gss *gss, struct rpc_stamp *stamp)
{
	struct gss_window *window = &gss->window;

	overdue(&gss->base, stamp);
	if (stamp->context != gss->number)
		*stamp = (struct rpc_stamp){.context = gss->number};
	memmove(stamp->numbers + 1, stamp->numbers,
		sizeof(stamp->numbers) - sizeof(stamp->numbers[0]));
	window->awaited[window->next % GSS_WINDOW_MAX] = true;
	return stamp->numbers[0] = window->next++;
}

/* --- making a context --- */

/* Stops making the next context. The present one, if there is one, stays in use. */
static void stop_making(struct rpcsec_gss *gss)
{
	gss->state = gss->usable ? GSS_READY : GSS_NONE;
	gss->renewing = false;
	gss->put_off = true;
}

static enum rpc_context_state fail(struct rpcsec_gss *gss, const char *why)
{
	snprintf(gss->error, sizeof(gss->error), "%s", why);
	stop_making(gss);
	return gss->usable ? RPC_CONTEXT_READY : RPC_CONTEXT_FAILED;
}

/*
 * Plans to replace a context some time before its end. But if it ends no later than the one before
 * it, nor would the next one: then it is used until the server denies it.
 */
static void set_lifetime(struct rpcsec_gss *gss, uint64_t now, uint64_t lifetime)
{
	uint64_t expires = lifetime > UINT64_MAX - now ? UINT64_MAX : now + lifetime;
	bool longer = expires > gss->expires && expires - gss->expires > SEC;

	gss->renew_at = longer && expires < UINT64_MAX ? expires - min_of(lifetime / 4, MARGIN_MAX)
						       : UINT64_MAX;
	gss->expires = expires;
}

/*
 * With the new context's keys, checks the reply that completes the context. If that fails, the
 * present context serves on. Calls sent with the earlier context are answered with that context.
 */
static enum rpc_context_state open_context(struct rpcsec_gss *gss, uint64_t now)
{
	struct gss_mechanism *mechanism = gss->terms.mechanism;
	uint32_t window = htobe32(gss->window_size);
	const struct iovec part = {&window, sizeof(window)};

	if (!gss->next_handle.length)
		return fail(gss, "the server has sent no context handle");
	if (!krb5_mic_ok(mechanism->next, KRB5_ACCEPTOR, &part, 1, gss->window_mic,
			 gss->window_mic_length))
		return fail(gss, "the reply that completes the context is not the server's");
	mechanism->ops->adopt(mechanism);
	gss->handle = gss->next_handle;
	gss->window = (struct gss_window){
		.size = min_of(gss->window_size, (uint32_t)GSS_WINDOW_MAX),
		.oldest = 1,
		.next = 1,
	};
	gss->number++;
	set_lifetime(gss, now, gss->step.lifetime);
	gss->terms.counters->algorithm = gss->step.enctype;
	gss->terms.counters->count++;
	gss->terms.counters->time += now - gss->began;
	gss->usable = true;
	gss->renewing = gss->put_off = false;
	gss->state = GSS_READY;
	return RPC_CONTEXT_READY;
}

static enum rpc_context_state make(struct rpcsec_gss *gss, uint64_t now)
{
	struct gss_mechanism *mechanism = gss->terms.mechanism;

	switch (mechanism->ops->progress(mechanism, &gss->step)) {
	case RPC_CONTEXT_WAITS: return RPC_CONTEXT_WAITS;
	case RPC_CONTEXT_ASKS: gss->state = GSS_ASKING; return RPC_CONTEXT_ASKS;
	case RPC_CONTEXT_READY: return open_context(gss, now);
	default: return fail(gss, gss->step.error);
	}
}

static void begin(struct rpcsec_gss *gss, uint64_t now)
{
	struct gss_mechanism *mechanism = gss->terms.mechanism;

	gss->began = now;
	gss->next_handle.length = 0;
	mechanism->ops->begin(mechanism);
}

/* Calls use the present context until the mechanism has a token to send for the next one. */
static bool due(struct rpc_credentials *credentials, uint64_t now)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	if (gss->put_off)
		gss->renew_at = max_of(gss->renew_at, now + RENEW_AGAIN);
	gss->put_off = false;
	if (!gss->usable || gss->state == GSS_MAKING)
		return true;
	if (gss->state != GSS_READY ||
	    (!gss->renewing && now < gss->renew_at && gss->window.next < NUMBER_MAX))
		return false;
	if (!gss->renewing)
		begin(gss, now);
	gss->renewing = true;
	return make(gss, now) == RPC_CONTEXT_ASKS;
}

static uint64_t renew_at(const struct rpc_credentials *credentials)
{
	const struct rpcsec_gss *gss = container_of(credentials, const struct rpcsec_gss, base);

	return gss->window.next < NUMBER_MAX ? gss->renew_at : 0;
}

static enum rpc_context_state step(struct rpc_credentials *credentials, uint64_t now)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	if (gss->state == GSS_NONE) {
		begin(gss, now);
		gss->state = GSS_MAKING;
	}
	switch (gss->state) {
	case GSS_ASKING: return RPC_CONTEXT_ASKS;
	case GSS_MAKING: return make(gss, now);
	default: return RPC_CONTEXT_READY;
	}
}

static const char *error_of(const struct rpc_credentials *credentials)
{
	return container_of(credentials, const struct rpcsec_gss, base)->error;
}

static bool answered(struct rpc_credentials *credentials, const struct rpc_reply_header *header,
		     struct xdr_in *in)
{
	enum { CONTINUE_NEEDED = 1 }; /* RFC 2744, 3.9.1: errors are in the upper half */
	struct rpcsec_gss *gss = gss_of(credentials);
	struct gss_mechanism *mechanism = gss->terms.mechanism;
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
			gss->error, sizeof(gss->error),
			"the server refuses the ticket (GSS major status %#x, minor %u): does its "
			"keytab have this key, and do the clocks agree (within 300 s, clockskew in "
			"krb5.conf)?",
			major, minor);
		return false;
	}
	if (handle_length > sizeof(gss->next_handle.bytes) || verifier->length > KRB5_MIC_MAX) {
		fail(gss, "the server's handle or verifier is longer than any known server's");
		return false;
	}
	memcpy(gss->next_handle.bytes, handle, handle_length);
	gss->next_handle.length = handle_length;
	gss->window_size = window;
	memcpy(gss->window_mic, verifier->body, verifier->length);
	gss->window_mic_length = verifier->length;
	mechanism->ops->feed(mechanism, token, length);
	gss->state = GSS_MAKING;
	return true;
}

static bool denied(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
		   uint32_t auth_stat)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	if (!rpc_denies_context(auth_stat))
		return false;
	if (stamp->context != gss->number || !gss->usable)
		return true; /* a newer context exists, or is being made */
	if (++gss->denials > DENIALS_MAX)
		return false;
	gss->usable = false;
	if (gss->state == GSS_READY)
		gss->state = GSS_NONE;
	return true;
}

/* --- tokens, with their cost --- */

/* Returns what `done` says, and counts its time. */
#define TIMED(gss, done)                                                       \
	({                                                                     \
		struct sampled_time *crypto_ = &(gss)->terms.counters->crypto; \
		bool done_;                                                    \
		sampled_begin(crypto_);                                        \
		done_ = (done);                                                \
		sampled_end(crypto_);                                          \
		done_;                                                         \
	})

static bool make_mic(struct rpcsec_gss *gss, const struct iovec *parts, int count, uint8_t *mic)
{
	struct gss_mechanism *mechanism = gss->terms.mechanism;

	return TIMED(gss, krb5_mic(mechanism->keys, KRB5_INITIATOR, mechanism->sequence++, parts,
				   count, mic));
}

static bool verify_mic(struct rpcsec_gss *gss, const struct iovec *parts, int count,
		       const uint8_t *mic, uint32_t length)
{
	return TIMED(gss, krb5_mic_ok(gss->keys, KRB5_ACCEPTOR, parts, count, mic, length));
}

/* --- credential and verifier --- */

static void put_credential(const struct rpcsec_gss *gss, struct xdr_out *out,
			   enum gss_procedure procedure, uint32_t number)
{
	bool makes = procedure == GSS_INIT || procedure == GSS_CONTINUE;
	const struct gss_handle *handle = makes ? &gss->next_handle : &gss->handle;

	xdr_put_u32(out, RPC_GSS);
	xdr_put_u32(out, 5 * sizeof(uint32_t) + handle->length + xdr_pad(handle->length));
	xdr_put_u32(out, VERSION);
	xdr_put_u32(out, procedure);
	xdr_put_u32(out, number);
	xdr_put_u32(out, gss->terms.service);
	xdr_put_opaque(out, handle->bytes, handle->length);
}

/* Writes the call's verifier: a MIC of the header so far. */
static void put_verifier(struct rpcsec_gss *gss, struct xdr_out *out, const uint8_t *start)
{
	const struct iovec header = {(void *)start, out->at - start};
	uint32_t length = krb5_mic_size(gss->terms.mechanism->keys);
	uint8_t *mic;

	xdr_put_u32(out, RPC_GSS);
	xdr_put_u32(out, length);
	mic = xdr_room(out, length);
	if (mic && !make_mic(gss, &header, 1, mic))
		out->bad = true;
}

static void put(struct rpc_credentials *credentials, struct rpc_stamp *stamp, struct xdr_out *out,
		const uint8_t *start)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	uint32_t procedure;

	memcpy(&procedure, start + PROCEDURE_AT, sizeof(procedure));
	if (be32toh(procedure) == NULL_PROCEDURE) {
		rpc_put_empty(out, RPC_AUTH_NONE);
		rpc_put_empty(out, RPC_AUTH_NONE);
		return;
	}
	put_credential(gss, out, GSS_DATA, stamp_call(gss, stamp));
	put_verifier(gss, out, start);
}

static enum rpc_belief check(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			     const struct rpc_verifier *verifier)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	const struct gss_mechanism *mechanism = gss->terms.mechanism;

	if (!stamp->numbers[0])
		return verifier->flavor <= RPC_AUTH_SHORT ? RPC_BELIEVED : RPC_NOT_ARRIVED;
	if (orphaned(credentials, stamp) || verifier->flavor != RPC_GSS)
		return RPC_NOT_ARRIVED;
	gss->keys = stamp->context == gss->number ? mechanism->keys : mechanism->earlier;
	for (size_t i = 0; i < ARRAY_SIZE(stamp->numbers) && stamp->numbers[i]; i++) {
		uint32_t number = htobe32(stamp->numbers[i]);
		const struct iovec part = {&number, sizeof(number)};

		if (!verify_mic(gss, &part, 1, verifier->body, verifier->length))
			continue;
		gss->matched = stamp->numbers[i];
		gss->denials = 0;
		return RPC_BELIEVED;
	}
	return RPC_NOT_ARRIVED;
}

/* --- integrity (5.3.2.2) --- */

enum { LENGTH = 4, NUMBER = 4 };

static uint32_t carried(const struct rpc_payload *data)
{
	return data->incoming ? 0 : data->length;
}

/* Moves the arguments by `bytes`, and puts the call's number before them. */
static bool make_way(const struct rpc_stamp *stamp, struct xdr_out *out, uint8_t *arguments,
		     uint32_t bytes)
{
	uint32_t length = out->at - arguments, number = htobe32(stamp->numbers[0]);

	if (!xdr_room(out, bytes))
		return false;
	memmove(arguments + bytes, arguments, length);
	memcpy(arguments + bytes - sizeof(number), &number, sizeof(number));
	return true;
}

static bool wrap_integrity(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			   struct xdr_out *out, uint8_t *arguments, struct rpc_payload *data)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	uint32_t bytes = carried(data), mic = krb5_mic_size(gss->terms.mechanism->keys);
	struct xdr_out length = {arguments, arguments + LENGTH, false};
	struct xdr_out tail = {gss->tail, gss->tail + sizeof(gss->tail), false};
	struct iovec body[3];

	if (!stamp->numbers[0])
		return true;
	if (!make_way(stamp, out, arguments, LENGTH + NUMBER))
		return false;
	body[0] = (struct iovec){arguments + LENGTH, out->at - arguments - LENGTH};
	body[1] = (struct iovec){data->at, bytes};
	body[2] = (struct iovec){(void *)"\0\0\0", xdr_pad(bytes)};
	xdr_put_u32(&length, body[0].iov_len + bytes + xdr_pad(bytes));
	xdr_put_u32(&tail, mic);
	data->tail = gss->tail;
	data->tail_length = LENGTH + mic;
	return make_mic(gss, body, bytes ? 3 : 1, tail.at);
}

/* Skips the sequence number of a reply's body, which must be the call's. */
static bool take_body(struct rpcsec_gss *gss, struct xdr_in *in, const uint8_t *body,
		      uint32_t length)
{
	struct xdr_in results = {body, body + length, false};

	if (xdr_get_u32(&results) != gss->matched || results.bad)
		return false;
	*in = results;
	return true;
}

static bool unwrap_integrity(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			     struct xdr_in *in)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	uint32_t length, mic_length;
	const uint8_t *body, *mic;
	struct iovec part;

	if (!stamp->numbers[0])
		return true;
	length = xdr_get_u32(in);
	body = xdr_skip(in, length);
	mic_length = xdr_get_u32(in);
	mic = xdr_skip(in, mic_length);
	if (in->bad)
		return false;
	part = (struct iovec){(void *)body, length};
	return verify_mic(gss, &part, 1, mic, mic_length) && take_body(gss, in, body, length);
}

static uint32_t lead_integrity(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			       struct xdr_in in, uint32_t length, uint32_t results)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	uint32_t mic = krb5_mic_size(gss->terms.mechanism->keys);

	if (stamp->context != gss->number || length != LENGTH + NUMBER + results + LENGTH + mic ||
	    xdr_get_u32(&in) != NUMBER + results)
		return 0;
	return LENGTH + NUMBER;
}

static bool unwrap_integrity_around(struct rpc_credentials *credentials,
				    const struct rpc_stamp *stamp, struct xdr_in *in,
				    const struct iovec *data, const uint8_t *behind)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	const uint8_t *body = in->at + LENGTH, *mic;
	const struct iovec parts[] = {
		{(void *)body, behind - body},
		*data,
		{(void *)behind, xdr_pad(data->iov_len)},
	};
	struct xdr_in tail = {behind + parts[2].iov_len, in->end, false};
	uint32_t mic_length = xdr_get_u32(&tail);

	mic = xdr_skip(&tail, mic_length);
	return !tail.bad && verify_mic(gss, parts, 3, mic, mic_length) &&
	       take_body(gss, in, body, parts[0].iov_len);
}

/* --- privacy (5.3.2.3) --- */

static bool wrap_end(struct rpc_credentials *credentials)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	return !gss->arena_used || TIMED(gss, krb5_wrap_end(gss->terms.mechanism->keys));
}

/* Encrypts arguments and data into the arena. A copy of the arguments stays for wrap_end(). */
static bool wrap_privacy(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			 struct xdr_out *out, uint8_t *arguments, struct rpc_payload *data)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	struct gss_mechanism *mechanism = gss->terms.mechanism;
	uint32_t bytes = carried(data), front = NUMBER + (out->at - arguments), total;
	uint8_t *kept = gss->arena + gss->arena_used, *token = kept + front;
	const struct iovec parts[] = {
		{kept, front},
		{data->at, bytes},
		{(void *)"\0\0\0", xdr_pad(bytes)},
	};
	struct xdr_out number = {kept, kept + NUMBER, false};
	bool made;

	if (!stamp->numbers[0])
		return true;
	total = front + bytes + xdr_pad(bytes) + krb5_wrap_size(mechanism->keys);
	if (front + total > gss->arena_size - gss->arena_used)
		return false;
	xdr_put_u32(&number, stamp->numbers[0]);
	memcpy(number.at, arguments, front - NUMBER);
	made = TIMED(gss, krb5_wrap(mechanism->keys, KRB5_INITIATOR, mechanism->sequence++, parts,
				    bytes ? 3 : 1, token));
	gss->arena_used += front + total;
	out->at = arguments;
	xdr_put_u32(out, total);
	*data = (struct rpc_payload){.at = token, .length = total};
	return made;
}

/* Decrypts in place, in the channel's memory. */
static bool unwrap_privacy(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			   struct xdr_in *in)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	uint32_t length, plain_length;
	const uint8_t *token;
	uint8_t *plain;

	if (!stamp->numbers[0])
		return true;
	length = xdr_get_u32(in);
	token = xdr_skip(in, length);
	if (in->bad)
		return false;
	return TIMED(gss, krb5_unwrap(gss->keys, KRB5_ACCEPTOR, (uint8_t *)token, length, &plain,
				      &plain_length)) &&
	       take_body(gss, in, plain, plain_length);
}

static uint32_t lead_privacy(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			     struct xdr_in in, uint32_t length, uint32_t results)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	uint32_t token = xdr_get_u32(&in), front;

	if (stamp->context != gss->number || length != LENGTH + token ||
	    token != NUMBER + results + krb5_wrap_size(gss->terms.mechanism->keys))
		return 0;
	front = krb5_wrap_front(in.at, in.end - in.at);
	return front ? LENGTH + front + NUMBER : 0;
}

static bool unwrap_privacy_around(struct rpc_credentials *credentials,
				  const struct rpc_stamp *stamp, struct xdr_in *in,
				  const struct iovec *data, const uint8_t *behind)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	const uint8_t *token = in->at + LENGTH;
	const struct iovec parts[] = {
		{(void *)token, behind - token},
		*data,
		{(void *)behind, in->end - behind},
	};
	const uint8_t *plain = token + krb5_wrap_front(token, parts[0].iov_len);

	return TIMED(gss, krb5_unwrap_parts(gss->keys, KRB5_ACCEPTOR, parts, 3)) &&
	       take_body(gss, in, plain, behind - plain);
}

/* --- calls that make and destroy a context --- */

/* Puts the token, which may be long, behind the head. */
static void put_request(struct rpc_credentials *credentials, struct xdr_out *out,
			const struct rpc_call_header *call, struct rpc_payload *data)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	rpc_encode_header(out, call->xid, call->program, call->version, NULL_PROCEDURE);
	put_credential(gss, out, gss->next_handle.length ? GSS_CONTINUE : GSS_INIT, 0);
	rpc_put_empty(out, RPC_AUTH_NONE);
	xdr_put_u32(out, gss->step.length);
	*data = (struct rpc_payload){
		.at = (void *)gss->step.token,
		.length = gss->step.length,
		.stays_inline = true,
	};
}

static uint32_t longest_call(const struct rpcsec_gss *gss)
{
	return gss->terms.data_max + 2 * RPC_STREAM_HEAD_MAX + KRB5_WRAP_FRONT + KRB5_WRAP_BACK_MAX;
}

/* Empties the arena: its calls were sent, or the connection is lost. */
static void clear_arena(struct rpcsec_gss *gss)
{
	wrap_end(&gss->base);
	gss->arena_used = 0;
}

/* With privacy the arena must have room for the longest call. */
static bool room(struct rpc_credentials *credentials, bool sent)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	if (sent)
		clear_arena(gss);
	return (!gss->arena || gss->arena_size - gss->arena_used >= longest_call(gss)) &&
	       has_room(gss);
}

/*
 * A context stays valid after its connection is lost. An unfinished one does not: the reply to its
 * token is lost. Resets the count of denials: a restarted server has forgotten contexts.
 */
static void lost(struct rpc_credentials *credentials)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	clear_arena(gss);
	gss->window.oldest = gss->window.next;
	gss->denials = 0;
	if (gss->state == GSS_ASKING)
		stop_making(gss);
}

static bool put_farewell(struct rpc_credentials *credentials, struct xdr_out *out,
			 const struct rpc_call_header *call)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	const uint8_t *start = out->at;
	struct rpc_stamp stamp = {0};

	if (gss->state != GSS_READY || !gss->usable)
		return false;
	rpc_encode_header(out, call->xid, call->program, call->version, NULL_PROCEDURE);
	put_credential(gss, out, GSS_DESTROY, stamp_call(gss, &stamp));
	put_verifier(gss, out, start);
	return !out->bad;
}

static const struct rpc_context_ops context_ops = {
	.step = step,
	.put_request = put_request,
	.answered = answered,
	.error = error_of,
	.due = due,
	.renew_at = renew_at,
	.room = room,
	.overdue = overdue,
	.orphaned = orphaned,
	.release = release,
	.lost = lost,
	.denied = denied,
	.put_farewell = put_farewell,
};

/* --- making and ending --- */

static const struct rpc_flavor flavors[] = {
	[GSS_SERVICE_NONE] = {.put = put, .check = check, .context = &context_ops},
	[GSS_SERVICE_INTEGRITY] =
		{
			.put = put,
			.check = check,
			.wrap = wrap_integrity,
			.unwrap = unwrap_integrity,
			.lead = lead_integrity,
			.unwrap_around = unwrap_integrity_around,
			.context = &context_ops,
		},
	[GSS_SERVICE_PRIVACY] =
		{
			.put = put,
			.check = check,
			.wrap = wrap_privacy,
			.wrap_end = wrap_end,
			.unwrap = unwrap_privacy,
			.lead = lead_privacy,
			.unwrap_around = unwrap_privacy_around,
			.context = &context_ops,
		},
};

void rpcsec_gss_free(struct rpc_credentials *credentials)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	gss->terms.mechanism->ops->free(gss->terms.mechanism);
	free(gss->arena);
	free(gss);
}

int rpcsec_gss_new(struct rpc_credentials **credentials, const struct rpcsec_gss_terms *terms)
{
	struct rpcsec_gss *gss = calloc(1, sizeof(*gss));

	if (!gss) {
		terms->mechanism->ops->free(terms->mechanism);
		return -ENOMEM;
	}
	gss->base.flavor = &flavors[terms->service];
	gss->terms = *terms;
	if (terms->service == GSS_SERVICE_PRIVACY) {
		gss->arena_size = max_of(2 * longest_call(gss), (uint32_t)ARENA);
		gss->arena = malloc(gss->arena_size);
		if (!gss->arena) {
			rpcsec_gss_free(&gss->base);
			return -ENOMEM;
		}
	}
	*credentials = &gss->base;
	return 0;
}
