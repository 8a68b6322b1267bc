/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/rpcsec_gss.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "util.h"
#include "wire/gss_window.h"
#include "wire/message.h"
#include "wire/reply.h"

/* RFC 2203, 5 and 5.3.3.3: numbers end at 2^31, and some are used until the next context is there.
 */
enum { VERSION = 1, NUMBER_MAX = 0x7f000000 };
enum gss_procedure { GSS_DATA = 0, GSS_INIT = 1, GSS_CONTINUE = 2, GSS_DESTROY = 3 };

enum {
	HANDLE_MAX = 128,  /* bytes; servers' have up to 16 */
	DENIALS_MAX = 3,   /* contexts in a row, over a connection, that the server does not know */
	ARENA = 4 << 20,   /* bytes of encrypted calls that have not left */
	PROCEDURE_AT = 20, /* in a call's header */
	NULL_PROCEDURE = 0,
};

static const uint64_t MARGIN_MAX = 300 * SEC; /* before its end a context is replaced */
static const uint64_t RENEW_AGAIN = 10 * SEC; /* after that was in vain */

enum state {
	NO_CONTEXT,
	MAKING, /* the mechanism is at work */
	ASKING, /* its token is to be sent */
	ASKED,
	READY,
};

struct handle {
	uint8_t bytes[HANDLE_MAX];
	uint32_t length;
};

struct rpcsec_gss {
	struct rpc_credentials base;
	struct rpcsec_gss_terms terms;

	enum state state; /* of the context that is being made, or of the present one */
	bool usable;	  /* the present one, for all that is known */
	bool renewing;	  /* the mechanism makes the next beside it */
	bool put_off;	  /* that was in vain: not again at once */
	uint32_t context; /* how many there have been */
	struct gss_window window;
	struct handle handle, next_handle;
	uint64_t began; /* when the making did */
	uint64_t renew_at, expires;
	uint32_t denials;
	char error[240];
	struct gss_step step; /* the mechanism's latest */

	/* The reply to INIT: its verifier is looked at once there are keys. */
	uint32_t window_size;
	uint8_t window_mic[GSS_MIC_MAX];
	uint32_t window_mic_length;

	uint32_t matched;	    /* the number that the latest verifier was of */
	bool earlier;		    /* and that was by the context before the present one */
	uint8_t tail[RPC_TAIL_MAX]; /* of the latest call */
	uint8_t *arena;		    /* privacy: encrypted calls until they have left */
	uint32_t arena_size, arena_used;
};

static struct rpcsec_gss *gss_of(struct rpc_credentials *credentials)
{
	return container_of(credentials, struct rpcsec_gss, base);
}

static const struct rpcsec_gss *gss_of_const(const struct rpc_credentials *credentials)
{
	return container_of(credentials, const struct rpcsec_gss, base);
}

/* --- the mechanism's work, and what it costs --- */

static struct sampled_time *crypto(struct rpcsec_gss *gss)
{
	return &gss->terms.counters->crypto;
}

static bool make_mic(struct rpcsec_gss *gss, const struct iovec *parts, int count, uint8_t *mic)
{
	struct gss_mechanism *mechanism = gss->terms.mechanism;
	bool made;

	sampled_begin(crypto(gss));
	made = mechanism->ops->mic(mechanism, parts, count, mic);
	sampled_end(crypto(gss));
	return made;
}

static bool verify_mic(struct rpcsec_gss *gss, bool earlier, const struct iovec *parts, int count,
		       const uint8_t *mic, uint32_t length)
{
	struct gss_mechanism *mechanism = gss->terms.mechanism;
	bool right;

	sampled_begin(crypto(gss));
	right = mechanism->ops->verify(mechanism, earlier, parts, count, mic, length);
	sampled_end(crypto(gss));
	return right;
}

static bool number_mic_ok(struct rpcsec_gss *gss, bool earlier, uint32_t number, const uint8_t *mic,
			  uint32_t length)
{
	uint32_t wire = htobe32(number);
	const struct iovec part = {&wire, sizeof(wire)};

	return verify_mic(gss, earlier, &part, 1, mic, length);
}

/* --- credential and verifier --- */

static void put_credential(const struct rpcsec_gss *gss, struct xdr_out *out,
			   enum gss_procedure procedure, uint32_t number)
{
	bool makes = procedure == GSS_INIT || procedure == GSS_CONTINUE;
	const struct handle *handle = makes ? &gss->next_handle : &gss->handle;

	xdr_put_u32(out, RPC_GSS);
	xdr_put_u32(out, 5 * sizeof(uint32_t) + handle->length + xdr_pad(handle->length));
	xdr_put_u32(out, VERSION);
	xdr_put_u32(out, procedure);
	xdr_put_u32(out, number);
	xdr_put_u32(out, gss->terms.service);
	xdr_put_opaque(out, handle->bytes, handle->length);
}

/* The verifier: a MIC of the header so far. */
static void put_verifier(struct rpcsec_gss *gss, struct xdr_out *out, const uint8_t *start)
{
	const struct iovec header = {(void *)start, out->at - start};
	uint32_t length = gss->terms.mechanism->ops->mic_size(gss->terms.mechanism);
	uint8_t *mic;

	xdr_put_u32(out, RPC_GSS);
	xdr_put_u32(out, length);
	mic = xdr_room(out, length);
	if (mic && !make_mic(gss, &header, 1, mic))
		out->bad = true;
}

/* The call's number is not waited for any more. */
static void give_back(struct rpcsec_gss *gss, const struct rpc_stamp *stamp)
{
	if (stamp->numbers[0] && stamp->context == gss->context)
		gss_window_give_back(&gss->window, stamp->numbers[0]);
}

/* The call's next number. */
static uint32_t stamp_next(struct rpcsec_gss *gss, struct rpc_stamp *stamp)
{
	give_back(gss, stamp);
	if (stamp->context != gss->context)
		*stamp = (struct rpc_stamp){.context = gss->context};
	memmove(stamp->numbers + 1, stamp->numbers,
		sizeof(stamp->numbers) - sizeof(stamp->numbers[0]));
	return stamp->numbers[0] = gss_window_take(&gss->window);
}

static bool is_null(const uint8_t *start)
{
	uint32_t procedure;

	memcpy(&procedure, start + PROCEDURE_AT, sizeof(procedure));
	return be32toh(procedure) == NULL_PROCEDURE;
}

static void put(struct rpc_credentials *credentials, struct rpc_stamp *stamp, struct xdr_out *out,
		const uint8_t *start)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	if (is_null(start)) {
		rpc_put_empty(out, RPC_AUTH_NONE);
		rpc_put_empty(out, RPC_AUTH_NONE);
		return;
	}
	put_credential(gss, out, GSS_DATA, stamp_next(gss, stamp));
	put_verifier(gss, out, start);
}

static enum rpc_belief check(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			     const struct rpc_verifier *verifier)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	if (!stamp->numbers[0])
		return verifier->flavor <= RPC_AUTH_SHORT ? RPC_BELIEVED : RPC_NOT_ARRIVED;
	gss->earlier = stamp->context + 1 == gss->context;
	if ((stamp->context != gss->context && !gss->earlier) || verifier->flavor != RPC_GSS)
		return RPC_NOT_ARRIVED;
	for (size_t i = 0; i < ARRAY_SIZE(stamp->numbers) && stamp->numbers[i]; i++) {
		if (!number_mic_ok(gss, gss->earlier, stamp->numbers[i], verifier->body,
				   verifier->length))
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

/* Moves the arguments `bytes` away, with their number before them. */
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
	uint32_t bytes = carried(data),
		 mic = gss->terms.mechanism->ops->mic_size(gss->terms.mechanism);
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

/* The body of an answer, behind its number. */
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
	return verify_mic(gss, gss->earlier, &part, 1, mic, mic_length) &&
	       take_body(gss, in, body, length);
}

static uint32_t lead_integrity(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			       struct xdr_in in, uint32_t length, uint32_t results)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	uint32_t mic = gss->terms.mechanism->ops->mic_size(gss->terms.mechanism);

	if (stamp->context != gss->context || length != LENGTH + NUMBER + results + LENGTH + mic ||
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
	return !tail.bad && verify_mic(gss, gss->earlier, parts, 3, mic, mic_length) &&
	       take_body(gss, in, body, parts[0].iov_len);
}

/* --- privacy (5.3.2.3) --- */

/* All of it is encrypted into the arena, from where it leaves. */
static bool wrap_privacy(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			 struct xdr_out *out, uint8_t *arguments, struct rpc_payload *data)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	struct gss_mechanism *mechanism = gss->terms.mechanism;
	uint32_t number = htobe32(stamp->numbers[0]), bytes = carried(data), total;
	uint8_t *token = gss->arena + gss->arena_used;
	const struct iovec parts[] = {
		{&number, sizeof(number)},
		{arguments, out->at - arguments},
		{data->at, bytes},
		{(void *)"\0\0\0", xdr_pad(bytes)},
	};
	bool made;

	if (!stamp->numbers[0])
		return true;
	total = sizeof(number) + parts[1].iov_len + bytes + xdr_pad(bytes) +
		mechanism->ops->wrap_size(mechanism);
	if (total > gss->arena_size - gss->arena_used)
		return false;
	sampled_begin(crypto(gss));
	made = mechanism->ops->wrap(mechanism, parts, bytes ? 4 : 2, token);
	sampled_end(crypto(gss));
	gss->arena_used += total;
	out->at = arguments;
	xdr_put_u32(out, total);
	*data = (struct rpc_payload){.at = token, .length = total};
	return made;
}

/* Decrypts where it lies: in the memory of the channel, which has no use for it any more. */
static bool unwrap_privacy(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			   struct xdr_in *in)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	struct gss_mechanism *mechanism = gss->terms.mechanism;
	uint32_t length, plain_length;
	const uint8_t *token;
	uint8_t *plain;
	bool right;

	if (!stamp->numbers[0])
		return true;
	length = xdr_get_u32(in);
	token = xdr_skip(in, length);
	if (in->bad)
		return false;
	sampled_begin(crypto(gss));
	right = mechanism->ops->unwrap(mechanism, gss->earlier, (uint8_t *)token, length, &plain,
				       &plain_length);
	sampled_end(crypto(gss));
	return right && take_body(gss, in, plain, plain_length);
}

static uint32_t lead_privacy(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			     struct xdr_in in, uint32_t length, uint32_t results)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	const struct gss_mechanism_ops *ops = gss->terms.mechanism->ops;
	uint32_t token = xdr_get_u32(&in), front;

	if (stamp->context != gss->context || length != LENGTH + token ||
	    token != NUMBER + results + ops->wrap_size(gss->terms.mechanism))
		return 0;
	front = ops->wrap_front(in.at, in.end - in.at);
	return front ? LENGTH + front + NUMBER : 0;
}

static bool unwrap_privacy_around(struct rpc_credentials *credentials,
				  const struct rpc_stamp *stamp, struct xdr_in *in,
				  const struct iovec *data, const uint8_t *behind)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	struct gss_mechanism *mechanism = gss->terms.mechanism;
	const uint8_t *token = in->at + LENGTH;
	const struct iovec parts[] = {
		{(void *)token, behind - token},
		*data,
		{(void *)behind, in->end - behind},
	};
	const uint8_t *plain = token + mechanism->ops->wrap_front(token, parts[0].iov_len);
	bool right;

	sampled_begin(crypto(gss));
	right = mechanism->ops->unwrap_parts(mechanism, gss->earlier, parts, 3);
	sampled_end(crypto(gss));
	return right && take_body(gss, in, plain, behind - plain);
}

/* --- the context --- */

/* The present context serves on, where there is one. */
static enum rpc_context_state fail(struct rpcsec_gss *gss, const char *why)
{
	snprintf(gss->error, sizeof(gss->error), "%s", why);
	gss->renewing = false;
	gss->put_off = true;
	gss->state = gss->usable ? READY : NO_CONTEXT;
	return gss->usable ? RPC_CONTEXT_READY : RPC_CONTEXT_FAILED;
}

/*
 * When it is replaced: some time before its end, if the next one can last longer. Where the last
 * could not, the server says when it has had enough.
 */
static void set_lifetime(struct rpcsec_gss *gss, uint64_t now, uint64_t lifetime)
{
	uint64_t expires = lifetime > UINT64_MAX - now ? UINT64_MAX : now + lifetime;
	bool longer = expires > gss->expires && expires - gss->expires > SEC;

	gss->renew_at = longer && expires < UINT64_MAX ? expires - min_of(lifetime / 4, MARGIN_MAX)
						       : UINT64_MAX;
	gss->expires = expires;
}

/* Calls that were sent by the one before are answered by that. */
static enum rpc_context_state open_context(struct rpcsec_gss *gss, uint64_t now)
{
	struct security_counters *counters = gss->terms.counters;

	gss->usable = false;
	if (!gss->next_handle.length)
		return fail(gss, "the server has sent no handle of a context");
	if (!number_mic_ok(gss, false, gss->window_size, gss->window_mic, gss->window_mic_length))
		return fail(gss, "the reply that ends the making of a context is not the server's");
	gss->handle = gss->next_handle;
	gss_window_open(&gss->window, gss->window_size);
	gss->context++;
	set_lifetime(gss, now, gss->step.lifetime);
	counters->contexts++;
	counters->context_time += now - gss->began;
	gss->usable = true;
	gss->renewing = gss->put_off = false;
	gss->state = READY;
	return RPC_CONTEXT_READY;
}

static enum gss_progress progress(struct rpcsec_gss *gss)
{
	struct gss_mechanism *mechanism = gss->terms.mechanism;

	return mechanism->ops->progress(mechanism, &gss->step);
}

static enum rpc_context_state make(struct rpcsec_gss *gss, uint64_t now)
{
	switch (progress(gss)) {
	case GSS_WORKING: return RPC_CONTEXT_WAITS;
	case GSS_TOKEN: gss->state = ASKING; return RPC_CONTEXT_ASKS;
	case GSS_MADE: return open_context(gss, now);
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

static bool expires_soon(const struct rpcsec_gss *gss, uint64_t now)
{
	return now >= gss->renew_at || gss->window.next >= NUMBER_MAX;
}

/* Calls go on by the present one until the mechanism has what is to be sent for the next. */
static bool due(struct rpc_credentials *credentials, uint64_t now)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	if (gss->put_off)
		gss->renew_at = max_of(gss->renew_at, now + RENEW_AGAIN);
	gss->put_off = false;
	if (gss->state != READY || (!gss->renewing && !expires_soon(gss, now)))
		return false;
	if (!gss->renewing)
		begin(gss, now);
	gss->renewing = true;
	switch (progress(gss)) {
	case GSS_WORKING: return false;
	case GSS_TOKEN: gss->state = ASKING; return true;
	default: fail(gss, gss->step.error); return false;
	}
}

static enum rpc_context_state step(struct rpc_credentials *credentials, uint64_t now)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	switch (gss->state) {
	case READY: return RPC_CONTEXT_READY;
	case ASKING: return RPC_CONTEXT_ASKS;
	case ASKED: return RPC_CONTEXT_WAITS;
	case NO_CONTEXT:
		begin(gss, now);
		gss->state = MAKING;
		break;
	case MAKING: break;
	}
	return make(gss, now);
}

/* Calls of its own, of which none is stamped. */
static void put_header(struct xdr_out *out, const struct rpc_call_header *call)
{
	rpc_encode_header(out, call->xid, call->program, call->version, NULL_PROCEDURE);
}

/* A ticket may be long: the token goes behind the head. */
static void put_request(struct rpc_credentials *credentials, struct xdr_out *out,
			const struct rpc_call_header *call, struct rpc_payload *data)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	put_header(out, call);
	put_credential(gss, out, gss->next_handle.length ? GSS_CONTINUE : GSS_INIT, 0);
	rpc_put_empty(out, RPC_AUTH_NONE);
	xdr_put_u32(out, gss->step.length);
	*data = (struct rpc_payload){
		.at = (void *)gss->step.token,
		.length = gss->step.length,
		.stays_inline = true,
	};
	gss->state = ASKED;
}

/* RFC 2743, 1.2.1.1: the calling and routine errors are the upper half. */
static bool refused(struct rpcsec_gss *gss, uint32_t major, uint32_t minor)
{
	enum { CONTINUE_NEEDED = 1 };

	if (major <= CONTINUE_NEEDED)
		return false;
	snprintf(gss->error, sizeof(gss->error),
		 "the server refuses the ticket (GSS major status %#x, minor %u): has it a keytab "
		 "with this key, and do the clocks agree?",
		 major, minor);
	return true;
}

static bool answered(struct rpc_credentials *credentials, const struct rpc_reply_header *header,
		     struct xdr_in *in)
{
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
	if (refused(gss, major, minor))
		return false;
	if (handle_length > HANDLE_MAX || verifier->length > GSS_MIC_MAX) {
		fail(gss, "the server's handle or verifier is longer than any that is known");
		return false;
	}
	memcpy(gss->next_handle.bytes, handle, handle_length);
	gss->next_handle.length = handle_length;
	gss->window_size = window;
	memcpy(gss->window_mic, verifier->body, verifier->length);
	gss->window_mic_length = verifier->length;
	mechanism->ops->feed(mechanism, token, length);
	gss->state = MAKING;
	return true;
}

static const char *error(const struct rpc_credentials *credentials)
{
	return gss_of_const(credentials)->error;
}

static uint32_t longest_call(const struct rpcsec_gss *gss)
{
	return gss->terms.data_max + RPC_STREAM_HEAD_MAX + GSS_WRAP_MAX;
}

/* Where encrypted calls wait to leave, there must be room for the longest. */
static bool room(struct rpc_credentials *credentials, bool sent)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	if (sent)
		gss->arena_used = 0;
	return (gss->state != READY || gss_window_has_room(&gss->window)) &&
	       (!gss->arena || gss->arena_size - gss->arena_used >= longest_call(gss));
}

static void overdue(struct rpc_credentials *credentials, const struct rpc_stamp *stamp)
{
	give_back(gss_of(credentials), stamp);
}

static void release(struct rpc_credentials *credentials, struct rpc_stamp *stamp)
{
	give_back(gss_of(credentials), stamp);
	*stamp = (struct rpc_stamp){0};
}

/*
 * The context itself outlives its connections. A server that was restarted knows it no more, which
 * says nothing of the next one.
 */
static void lost(struct rpc_credentials *credentials)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	gss_window_give_all_back(&gss->window);
	gss->arena_used = 0;
	gss->denials = 0;
	if (gss->state != ASKING && gss->state != ASKED)
		return;
	gss->state = gss->usable ? READY : NO_CONTEXT;
	gss->renewing = false;
	gss->put_off = true;
}

static bool denied(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
		   uint32_t auth_stat)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	if (auth_stat != RPC_CREDENTIAL_PROBLEM && auth_stat != RPC_CONTEXT_PROBLEM)
		return false;
	if (stamp->context != gss->context || !gss->usable)
		return true; /* there is another, or one is being made */
	if (++gss->denials > DENIALS_MAX)
		return false;
	gss->usable = false;
	if (gss->state == READY)
		gss->state = NO_CONTEXT;
	return true;
}

static bool put_farewell(struct rpc_credentials *credentials, struct xdr_out *out,
			 const struct rpc_call_header *call)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	const uint8_t *start = out->at;

	if (gss->state != READY || !gss->usable)
		return false;
	put_header(out, call);
	put_credential(gss, out, GSS_DESTROY, gss_window_take(&gss->window));
	put_verifier(gss, out, start);
	return !out->bad;
}

static const struct rpc_context_ops context_ops = {
	.step = step,
	.put_request = put_request,
	.answered = answered,
	.error = error,
	.due = due,
	.room = room,
	.overdue = overdue,
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
	}
	if (terms->service == GSS_SERVICE_PRIVACY && !gss->arena) {
		rpcsec_gss_free(&gss->base);
		return -ENOMEM;
	}
	*credentials = &gss->base;
	return 0;
}
