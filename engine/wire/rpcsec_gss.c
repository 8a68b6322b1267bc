/* SPDX-License-Identifier: GPL-2.0-only */
#include <stdlib.h>

#include "util.h"
#include "wire/gss_context.h"
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

struct rpcsec_gss {
	struct gss_context context;
	struct rpcsec_gss_terms terms;

	uint32_t matched;	    /* the sequence number of the latest verified reply */
	struct krb5_keys *keys;	    /* of the reply being checked */
	uint8_t tail[RPC_TAIL_MAX]; /* of the latest call */
	uint8_t *arena;		    /* privacy: encrypted calls until they are sent */
	uint32_t arena_size, arena_used;
};

static struct rpcsec_gss *gss_of(struct rpc_credentials *credentials)
{
	return container_of(credentials, struct rpcsec_gss, context.base);
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
	struct gss_mechanism *mechanism = gss->context.mechanism;

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
	const struct gss_handle *handle = makes ? &gss->context.next_handle : &gss->context.handle;

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
	uint32_t length = krb5_mic_size(gss->context.mechanism->keys);
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
	put_credential(gss, out, GSS_DATA, gss_context_stamp(&gss->context, stamp));
	put_verifier(gss, out, start);
}

static enum rpc_belief check(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			     const struct rpc_verifier *verifier)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	const struct gss_mechanism *mechanism = gss->context.mechanism;

	if (!stamp->numbers[0])
		return verifier->flavor <= RPC_AUTH_SHORT ? RPC_BELIEVED : RPC_NOT_ARRIVED;
	if (gss_context_orphaned(credentials, stamp) || verifier->flavor != RPC_GSS)
		return RPC_NOT_ARRIVED;
	gss->keys = stamp->context == gss->context.number ? mechanism->keys : mechanism->earlier;
	for (size_t i = 0; i < ARRAY_SIZE(stamp->numbers) && stamp->numbers[i]; i++) {
		uint32_t number = htobe32(stamp->numbers[i]);
		const struct iovec part = {&number, sizeof(number)};

		if (!verify_mic(gss, &part, 1, verifier->body, verifier->length))
			continue;
		gss->matched = stamp->numbers[i];
		gss->context.denials = 0;
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
	uint32_t bytes = carried(data), mic = krb5_mic_size(gss->context.mechanism->keys);
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
	uint32_t mic = krb5_mic_size(gss->context.mechanism->keys);

	if (stamp->context != gss->context.number ||
	    length != LENGTH + NUMBER + results + LENGTH + mic ||
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

	return !gss->arena_used || TIMED(gss, krb5_wrap_end(gss->context.mechanism->keys));
}

/* Encrypts arguments and data into the arena. A copy of the arguments stays for wrap_end(). */
static bool wrap_privacy(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			 struct xdr_out *out, uint8_t *arguments, struct rpc_payload *data)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	struct gss_mechanism *mechanism = gss->context.mechanism;
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

	if (stamp->context != gss->context.number || length != LENGTH + token ||
	    token != NUMBER + results + krb5_wrap_size(gss->context.mechanism->keys))
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

/* --- the context --- */

/* Puts the token, which may be long, behind the head. */
static void put_request(struct rpc_credentials *credentials, struct xdr_out *out,
			const struct rpc_call_header *call, struct rpc_payload *data)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	struct gss_context *context = &gss->context;

	rpc_encode_header(out, call->xid, call->program, call->version, NULL_PROCEDURE);
	put_credential(gss, out, context->next_handle.length ? GSS_CONTINUE : GSS_INIT, 0);
	rpc_put_empty(out, RPC_AUTH_NONE);
	xdr_put_u32(out, context->step.length);
	*data = (struct rpc_payload){
		.at = (void *)context->step.token,
		.length = context->step.length,
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
	wrap_end(&gss->context.base);
	gss->arena_used = 0;
}

/* With privacy the arena must have room for the longest call. */
static bool room(struct rpc_credentials *credentials, bool sent)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	if (sent)
		clear_arena(gss);
	return (!gss->arena || gss->arena_size - gss->arena_used >= longest_call(gss)) &&
	       gss_context_has_room(&gss->context);
}

static void lost(struct rpc_credentials *credentials)
{
	struct rpcsec_gss *gss = gss_of(credentials);

	clear_arena(gss);
	gss_context_lost(credentials);
}

static bool put_farewell(struct rpc_credentials *credentials, struct xdr_out *out,
			 const struct rpc_call_header *call)
{
	struct rpcsec_gss *gss = gss_of(credentials);
	struct gss_context *context = &gss->context;
	const uint8_t *start = out->at;
	struct rpc_stamp stamp = {0};

	if (context->state != GSS_READY || !context->usable)
		return false;
	rpc_encode_header(out, call->xid, call->program, call->version, NULL_PROCEDURE);
	put_credential(gss, out, GSS_DESTROY, gss_context_stamp(context, &stamp));
	put_verifier(gss, out, start);
	return !out->bad;
}

static const struct rpc_context_ops context_ops = {
	.step = gss_context_step,
	.put_request = put_request,
	.answered = gss_context_answered,
	.error = gss_context_error,
	.due = gss_context_due,
	.renew_at = gss_context_renew_at,
	.room = room,
	.overdue = gss_context_overdue,
	.orphaned = gss_context_orphaned,
	.release = gss_context_release,
	.lost = lost,
	.denied = gss_context_denied,
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

	gss->context.mechanism->ops->free(gss->context.mechanism);
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
	gss->context = (struct gss_context){
		.base.flavor = &flavors[terms->service],
		.mechanism = terms->mechanism,
		.counters = terms->counters,
	};
	gss->terms = *terms;
	if (terms->service == GSS_SERVICE_PRIVACY) {
		gss->arena_size = max_of(2 * longest_call(gss), (uint32_t)ARENA);
		gss->arena = malloc(gss->arena_size);
		if (!gss->arena) {
			rpcsec_gss_free(&gss->context.base);
			return -ENOMEM;
		}
	}
	*credentials = &gss->context.base;
	return 0;
}
