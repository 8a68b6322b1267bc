/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * krb5_token.c - the input's first byte chooses keys and a side, and whether the rest is a
 * stranger's token, or what a peer seals that knows the key.
 */
#include "krb5_peer.h"

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
