/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * gss_mechanism.h - a mechanism of GSS-API that asks nobody: the server's token says how the making
 * of a context goes on. Its messages are Kerberos's; contexts have two sets of keys in turn.
 */
#ifndef NFSMULTI_FUZZ_GSS_MECHANISM_H
#define NFSMULTI_FUZZ_GSS_MECHANISM_H

#include "krb5_peer.h"
#include "wire/rpcsec_gss.h"

struct mechanism {
	struct gss_mechanism base;
	uint32_t enctype; /* its place among the peer's */
	uint32_t made;	  /* contexts */
	enum gss_progress progress;
	uint64_t lifetime; /* of the next one */
};

static inline struct mechanism *mechanism_of(struct gss_mechanism *base)
{
	return container_of(base, struct mechanism, base);
}

/* Of the n-th context, from 1 on. */
static inline struct krb5_keys *mechanism_keys(const struct mechanism *mechanism, uint32_t n)
{
	return peer_keys(2 * mechanism->enctype + n % 2);
}

static inline struct krb5_keys *mechanism_present(const struct gss_mechanism *base)
{
	const struct mechanism *mechanism = container_of(base, const struct mechanism, base);

	expect(mechanism->made);
	return mechanism_keys(mechanism, mechanism->made);
}

static inline void mechanism_begin(struct gss_mechanism *base)
{
	mechanism_of(base)->progress = GSS_TOKEN;
}

/* A token's first byte is what comes next, its second one how long the context is good for. */
static inline void mechanism_feed(struct gss_mechanism *base, const uint8_t *reply, uint32_t length)
{
	static const enum gss_progress next[] = {GSS_MADE, GSS_WORKING, GSS_TOKEN, GSS_FAILED};
	struct mechanism *mechanism = mechanism_of(base);

	mechanism->progress = next[length ? reply[0] % ARRAY_SIZE(next) : 0];
	mechanism->lifetime = length > 1 ? reply[1] * 10 * SEC : UINT64_MAX;
}

static inline enum gss_progress mechanism_progress(struct gss_mechanism *base,
						   struct gss_step *step)
{
	static const uint8_t token[] = "a ticket";
	struct mechanism *mechanism = mechanism_of(base);
	enum gss_progress progress = mechanism->progress;

	*step = (struct gss_step){
		.token = token,
		.length = sizeof(token),
		.error = "no ticket",
		.lifetime = mechanism->lifetime,
	};
	if (progress == GSS_WORKING)
		mechanism->progress = GSS_MADE;
	if (progress == GSS_MADE) {
		mechanism->made++;
		mechanism->progress = GSS_FAILED;
	}
	return progress;
}

static inline uint32_t mechanism_mic_size(const struct gss_mechanism *base)
{
	return krb5_mic_size(mechanism_present(base));
}

static inline uint32_t mechanism_wrap_size(const struct gss_mechanism *base)
{
	return krb5_wrap_size(mechanism_present(base));
}

static inline bool mechanism_mic(struct gss_mechanism *base, const struct iovec *parts, int count,
				 uint8_t *mic)
{
	return krb5_mic(mechanism_present(base), KRB5_INITIATOR, 0, parts, count, mic);
}

static inline bool mechanism_wrap(struct gss_mechanism *base, const struct iovec *parts, int count,
				  uint8_t *token)
{
	return krb5_wrap(mechanism_present(base), KRB5_INITIATOR, 0, parts, count, token);
}

static inline bool mechanism_verify(struct gss_mechanism *base, bool earlier,
				    const struct iovec *parts, int count, const uint8_t *mic,
				    uint32_t length)
{
	uint32_t n = mechanism_of(base)->made - earlier;

	return n && krb5_mic_ok(mechanism_keys(mechanism_of(base), n), KRB5_ACCEPTOR, parts, count,
				mic, length);
}

static inline bool mechanism_wrap_end(struct gss_mechanism *base)
{
	return krb5_wrap_end(mechanism_present(base));
}

static inline bool mechanism_unwrap(struct gss_mechanism *base, bool earlier, uint8_t *token,
				    uint32_t length, uint8_t **plain, uint32_t *plain_length)
{
	uint32_t n = mechanism_of(base)->made - earlier;

	return n && krb5_unwrap(mechanism_keys(mechanism_of(base), n), KRB5_ACCEPTOR, token, length,
				plain, plain_length);
}

static inline bool mechanism_unwrap_parts(struct gss_mechanism *base, bool earlier,
					  const struct iovec *parts, int count)
{
	uint32_t n = mechanism_of(base)->made - earlier;

	return n && krb5_unwrap_parts(mechanism_keys(mechanism_of(base), n), KRB5_ACCEPTOR, parts,
				      count);
}

/* It belongs to whoever has made it. */
static inline void mechanism_free(struct gss_mechanism *base)
{
}

static const struct gss_mechanism_ops mechanism_ops = {
	.begin = mechanism_begin,
	.feed = mechanism_feed,
	.progress = mechanism_progress,
	.mic_size = mechanism_mic_size,
	.wrap_size = mechanism_wrap_size,
	.mic = mechanism_mic,
	.wrap = mechanism_wrap,
	.wrap_end = mechanism_wrap_end,
	.verify = mechanism_verify,
	.unwrap = mechanism_unwrap,
	.wrap_front = krb5_wrap_front,
	.unwrap_parts = mechanism_unwrap_parts,
	.free = mechanism_free,
};

#endif
