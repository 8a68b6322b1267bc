/* SPDX-License-Identifier: GPL-2.0-only */
/* kerberos.c - a mechanism whose contexts kerberos_making.c makes, and whose tokens are our own. */
#include "transport/kerberos.h"

#include <errno.h>
#include <stdlib.h>

#include "util.h"

struct kerberos {
	struct gss_mechanism base;
	struct kerberos_terms terms;
	struct making *making; /* NULL: no context is being made */
	struct krb5_keys *keys, *earlier;
	uint64_t sequence; /* of our next token */
};

static struct kerberos *kerberos_of(const struct gss_mechanism *mechanism)
{
	return container_of(mechanism, struct kerberos, base);
}

/* --- making a context --- */

static void begin(struct gss_mechanism *mechanism)
{
	struct kerberos *kerberos = kerberos_of(mechanism);

	making_leave(kerberos->making);
	kerberos->making = making_begin(&kerberos->terms);
}

static void feed(struct gss_mechanism *mechanism, const uint8_t *reply, uint32_t length)
{
	struct kerberos *kerberos = kerberos_of(mechanism);

	if (kerberos->making)
		making_go_on(kerberos->making, reply, length);
}

/* Makes a finished context the present one. */
static void take_context(struct kerberos *kerberos, const struct making_result *made,
			 struct gss_step *step)
{
	step->lifetime = made->lifetime;
	step->enctype = made->enctype;
	krb5_wrap_end(kerberos->keys);
	krb5_keys_free(kerberos->earlier);
	kerberos->earlier = kerberos->keys;
	kerberos->keys = made->keys;
	kerberos->sequence = made->sequence;
	making_leave(kerberos->making);
	kerberos->making = NULL;
}

static enum gss_progress progress(struct gss_mechanism *mechanism, struct gss_step *step)
{
	struct kerberos *kerberos = kerberos_of(mechanism);
	struct making_result result;

	*step = (struct gss_step){.error = "out of memory"};
	if (!kerberos->making)
		return GSS_FAILED;
	switch (making_look(kerberos->making, &result)) {
	case MAKING_WORKS: return GSS_WORKING;
	case MAKING_HAS_TOKEN:
		step->token = result.token;
		step->length = result.length;
		return GSS_TOKEN;
	case MAKING_DONE: take_context(kerberos, &result, step); return GSS_MADE;
	default: step->error = result.error; return GSS_FAILED;
	}
}

/* --- messages --- */

static uint32_t mic_size(const struct gss_mechanism *mechanism)
{
	return krb5_mic_size(kerberos_of(mechanism)->keys);
}

static uint32_t wrap_size(const struct gss_mechanism *mechanism)
{
	return krb5_wrap_size(kerberos_of(mechanism)->keys);
}

static bool mic(struct gss_mechanism *mechanism, const struct iovec *parts, int count, uint8_t *to)
{
	struct kerberos *kerberos = kerberos_of(mechanism);

	return krb5_mic(kerberos->keys, KRB5_INITIATOR, kerberos->sequence++, parts, count, to);
}

static bool wrap(struct gss_mechanism *mechanism, const struct iovec *parts, int count, uint8_t *to)
{
	struct kerberos *kerberos = kerberos_of(mechanism);

	return krb5_wrap(kerberos->keys, KRB5_INITIATOR, kerberos->sequence++, parts, count, to);
}

static bool wrap_end(struct gss_mechanism *mechanism)
{
	return krb5_wrap_end(kerberos_of(mechanism)->keys);
}

static struct krb5_keys *keys_of(struct gss_mechanism *mechanism, bool earlier)
{
	struct kerberos *kerberos = kerberos_of(mechanism);

	return earlier ? kerberos->earlier : kerberos->keys;
}

static bool verify(struct gss_mechanism *mechanism, bool earlier, const struct iovec *parts,
		   int count, const uint8_t *token, uint32_t length)
{
	struct krb5_keys *keys = keys_of(mechanism, earlier);

	return keys && krb5_mic_ok(keys, KRB5_ACCEPTOR, parts, count, token, length);
}

static bool unwrap(struct gss_mechanism *mechanism, bool earlier, uint8_t *token, uint32_t length,
		   uint8_t **plain, uint32_t *plain_length)
{
	struct krb5_keys *keys = keys_of(mechanism, earlier);

	return keys && krb5_unwrap(keys, KRB5_ACCEPTOR, token, length, plain, plain_length);
}

static bool unwrap_parts(struct gss_mechanism *mechanism, bool earlier, const struct iovec *parts,
			 int count)
{
	struct krb5_keys *keys = keys_of(mechanism, earlier);

	return keys && krb5_unwrap_parts(keys, KRB5_ACCEPTOR, parts, count);
}

/* --- making and ending --- */

static void end(struct gss_mechanism *mechanism)
{
	struct kerberos *kerberos = kerberos_of(mechanism);

	making_leave(kerberos->making);
	krb5_keys_free(kerberos->keys);
	krb5_keys_free(kerberos->earlier);
	free(kerberos);
}

int kerberos_new(struct gss_mechanism **mechanism, const struct kerberos_terms *terms)
{
	static const struct gss_mechanism_ops ops = {
		.begin = begin,
		.feed = feed,
		.progress = progress,
		.mic_size = mic_size,
		.wrap_size = wrap_size,
		.mic = mic,
		.wrap = wrap,
		.wrap_end = wrap_end,
		.verify = verify,
		.unwrap = unwrap,
		.wrap_front = krb5_wrap_front,
		.unwrap_parts = unwrap_parts,
		.free = end,
	};
	struct kerberos *kerberos = calloc(1, sizeof(*kerberos));

	if (!kerberos)
		return -ENOMEM;
	kerberos->base.ops = &ops;
	kerberos->terms = *terms;
	*mechanism = &kerberos->base;
	return 0;
}
