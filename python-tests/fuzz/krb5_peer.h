/* SPDX-License-Identifier: GPL-2.0-only */
/* krb5_peer.h - keys of contexts, and Wrap tokens that a peer makes who has them. */
#ifndef NFSMULTI_FUZZ_KRB5_PEER_H
#define NFSMULTI_FUZZ_KRB5_PEER_H

#include <endian.h>
#include <string.h>

#include "fuzz.h"
#include "util.h"
#include "wire/krb5_keys.h"

enum { PEER_HEADER = 16, PEER_ROTATION = 6 /* where RRC lies in it */ };

static const uint32_t peer_enctypes[] = {17, 18, 19, 20};
enum { PEER_KEYS = 2 * ARRAY_SIZE(peer_enctypes) };

/* One set for each enctype, without and with an acceptor's key. */
static inline struct krb5_keys *peer_keys(uint32_t choice)
{
	static struct krb5_keys *made[PEER_KEYS];
	static const uint8_t key[32] = "as long as the longest key is...";
	struct krb5_keys **keys = &made[choice % PEER_KEYS];
	uint32_t enctype = peer_enctypes[choice / 2 % ARRAY_SIZE(peer_enctypes)];

	if (!*keys)
		expect(!krb5_keys_new(keys, enctype, key, enctype % 2 ? 16 : 32, choice % 2));
	return *keys;
}

static inline void peer_add_sum(struct krb5_keys *keys, enum krb5_side side, const uint8_t *plain,
				uint8_t *text, size_t length)
{
	static const uint8_t iv[CTS_BLOCK];
	gnutls_hmac_hd_t hmac = keys->sides[side].seal;
	uint8_t sum[KRB5_HMAC_MAX];

	if (keys->enctype->sha2)
		gnutls_hmac(hmac, iv, sizeof(iv));
	gnutls_hmac(hmac, keys->enctype->sha2 ? text : plain, length);
	gnutls_hmac_output(hmac, sum);
	memcpy(text + length, sum, keys->enctype->checksum_size);
}

/*
 * Seals any header, and behind it any confounder, plaintext and copy of a header, two blocks at
 * least, in good order: the token, for the caller to free, and its length.
 */
static inline uint8_t *peer_seal(struct krb5_keys *keys, enum krb5_side side, const uint8_t *data,
				 size_t size, uint32_t *token_length)
{
	size_t length = size - PEER_HEADER, body = length + keys->enctype->checksum_size;
	uint8_t *text = malloc(body), *token = malloc(PEER_HEADER + body);
	const struct cts_keys with = {.cipher = keys->sides[side].cipher};
	struct cts_stream stream;
	uint16_t rotation;

	cts_begin(&stream, with, text);
	cts_put(&stream, data + PEER_HEADER, length);
	expect(cts_end(&stream, NULL));
	peer_add_sum(keys, side, data + PEER_HEADER, text, length);
	memcpy(token, data, PEER_HEADER);
	memcpy(&rotation, data + PEER_ROTATION, sizeof(rotation));
	for (size_t i = 0; i < body; i++)
		token[PEER_HEADER + (i + be16toh(rotation)) % body] = text[i];
	free(text);
	*token_length = (uint32_t)(PEER_HEADER + body);
	return token;
}

#endif
