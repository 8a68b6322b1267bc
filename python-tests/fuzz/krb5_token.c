/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * krb5_token.c - the input's first byte chooses keys and a side, and whether the rest is a
 * stranger's token, or what a peer seals that knows the key.
 */
#include <endian.h>
#include <string.h>

#include "fuzz.h"
#include "util.h"
#include "wire/krb5_keys.h"

/* --- a peer, who has the keys --- */

enum { PEER_HEADER = 16, PEER_ROTATION = 6 /* where RRC lies in it */ };

static const uint32_t peer_enctypes[] = {17, 18, 19, 20};
enum { PEER_KEYS = 2 * ARRAY_SIZE(peer_enctypes) };

/* One set for each enctype, without and with an acceptor's key. */
static struct krb5_keys *peer_keys(uint32_t choice)
{
	static struct krb5_keys *made[PEER_KEYS];
	static const uint8_t key[32] = "as long as the longest key is...";
	struct krb5_keys **keys = &made[choice % PEER_KEYS];
	uint32_t enctype = peer_enctypes[choice / 2 % ARRAY_SIZE(peer_enctypes)];

	if (!*keys)
		expect(!krb5_keys_new(keys, enctype, key, enctype % 2 ? 16 : 32, choice % 2));
	return *keys;
}

static void peer_add_sum(struct krb5_keys *keys, enum krb5_side side, const uint8_t *plain,
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
static uint8_t *peer_seal(struct krb5_keys *keys, enum krb5_side side, const uint8_t *data,
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

/* --- the engine --- */

static struct krb5_keys *keys;
static enum krb5_side side;

/* A token in parts, the middle one half of its plaintext, which stays where it is. */
static bool open_parts(uint8_t *token, uint32_t length, uint32_t plain_length)
{
	uint8_t *cut = token + KRB5_WRAP_FRONT, *behind = cut + plain_length / 2;
	const struct iovec parts[] = {
		{token, KRB5_WRAP_FRONT},
		{cut, plain_length / 2},
		{behind, (size_t)(token + length - behind)},
	};

	return krb5_unwrap_parts(keys, side, parts, ARRAY_SIZE(parts));
}

/* True where it is taken: then its plaintext is the beginning of that, in parts too. */
static bool opens(const uint8_t *token, uint32_t length, const uint8_t *expected)
{
	uint8_t *copy = malloc(max_of(length, 1u)), *plain;
	uint32_t plain_length;
	bool taken;

	memcpy(copy, token, length);
	taken = krb5_unwrap(keys, side, copy, length, &plain, &plain_length);
	if (taken) {
		expect(plain == copy + KRB5_WRAP_FRONT);
		expect(plain_length <= length - krb5_wrap_size(keys));
		expect(!memcmp(plain, expected, plain_length));
	}
	if (taken && krb5_wrap_front(token, length)) {
		memcpy(copy, token, length);
		expect(open_parts(copy, length, plain_length));
		expect(!memcmp(plain, expected, plain_length));
	}
	free(copy);
	return taken;
}

void fuzz_krb5_token(struct input *input)
{
	uint8_t choice = take_byte(input), *token;
	const struct iovec all = take(input, SIZE_MAX);
	uint32_t length = (uint32_t)all.iov_len;

	keys = peer_keys(choice & 7);
	side = choice >> 3 & 1;
	if (!(choice >> 4 & 1)) {
		expect(!krb5_mic_ok(keys, side, &all, 1, all.iov_base, length));
		expect(!opens(all.iov_base, length, NULL));
	} else if (length >= PEER_HEADER + 2 * CTS_BLOCK) {
		token = peer_seal(keys, side, all.iov_base, length, &length);
		opens(token, length, (uint8_t *)all.iov_base + KRB5_WRAP_FRONT);
		free(token);
	}
}
