/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * krb5_token.c - the input's first byte chooses keys, a side, and what the rest is: a stranger's
 * token, what a peer that knows the key seals, or a message of our own.
 */
#include "krb5_peer.h"

enum kind { FOREIGN, SEALED, OWN_MIC, OWN_WRAP };
enum { PARTS = 3 }; /* of our own message, the first of them nowhere */

/* True where it was taken: then the plaintext lies within. */
static bool unwrap(struct krb5_keys *keys, enum krb5_side side, uint8_t *token, size_t length,
		   uint8_t **plain, uint32_t *plain_length)
{
	if (!krb5_unwrap(keys, side, token, (uint32_t)length, plain, plain_length))
		return false;
	expect(*plain == token + KRB5_WRAP_FRONT);
	expect(*plain_length <= length - krb5_wrap_size(keys));
	return true;
}

/* A stranger's: without the key there is no token. */
static void foreign(struct krb5_keys *keys, enum krb5_side side, const uint8_t *data, size_t size)
{
	const struct iovec parts = {(uint8_t *)data, size};
	uint8_t *token = malloc(max_of(size, (size_t)1)), *plain;
	uint32_t length;

	memcpy(token, data, size);
	expect(!krb5_mic_ok(keys, side, &parts, 1, token, (uint32_t)size));
	expect(!unwrap(keys, side, token, size, &plain, &length));
	free(token);
}

/* In good order, whatever its header says. */
static void sealed(struct krb5_keys *keys, enum krb5_side side, const uint8_t *data, size_t size)
{
	uint8_t *token, *plain;
	uint32_t length, plain_length;

	if (size < PEER_HEADER + 2 * CTS_BLOCK)
		return;
	token = peer_seal(keys, side, data, size, &length);
	if (unwrap(keys, side, token, length, &plain, &plain_length))
		expect(!memcmp(plain, data + KRB5_WRAP_FRONT, plain_length));
	free(token);
}

/* What we make is taken, and with a bit turned over it is not. */
static void own_mic(struct krb5_keys *keys, enum krb5_side side, const struct iovec *parts,
		    uint32_t bit)
{
	uint32_t length = krb5_mic_size(keys);
	uint8_t *mic = malloc(length);

	expect(krb5_mic(keys, side, bit, parts, PARTS, mic));
	expect(krb5_mic_ok(keys, side, parts, PARTS, mic, length));
	mic[bit / 8 % length] ^= 1 << bit % 8;
	expect(!krb5_mic_ok(keys, side, parts, PARTS, mic, length));
	free(mic);
}

/* The same token in parts: its plaintext stays where it is. */
static void own_wrap_in_parts(struct krb5_keys *keys, enum krb5_side side,
			      const struct iovec *parts, uint32_t sequence)
{
	size_t sum = parts[1].iov_len + parts[2].iov_len, length = sum + krb5_wrap_size(keys);
	uint8_t *token = malloc(length), *cut = token + KRB5_WRAP_FRONT + parts[1].iov_len;
	const struct iovec cut_up[] = {
		{token, KRB5_WRAP_FRONT + parts[1].iov_len},
		{cut, parts[2].iov_len / 2},
		{cut + parts[2].iov_len / 2,
		 length - sum - KRB5_WRAP_FRONT + (parts[2].iov_len + 1) / 2},
	};

	expect(krb5_wrap(keys, side, sequence, parts, PARTS, token) && krb5_wrap_end(keys));
	expect(krb5_wrap_front(token, (uint32_t)length) == KRB5_WRAP_FRONT);
	expect(krb5_unwrap_parts(keys, side, cut_up, PARTS));
	expect(!memcmp(token + KRB5_WRAP_FRONT, parts[1].iov_base, sum));
	free(token);
}

static void own_wrap(struct krb5_keys *keys, enum krb5_side side, const struct iovec *parts,
		     uint32_t bit)
{
	size_t sum = parts[1].iov_len + parts[2].iov_len, length = sum + krb5_wrap_size(keys);
	uint8_t *token = malloc(length), *plain;
	uint32_t plain_length;

	expect(krb5_wrap(keys, side, bit, parts, PARTS, token) && krb5_wrap_end(keys));
	expect(peer_agrees(keys, side, token, (uint32_t)length, parts, PARTS));
	expect(unwrap(keys, side, token, length, &plain, &plain_length) && plain_length == sum);
	expect(!memcmp(plain, parts[1].iov_base, sum));
	expect(krb5_wrap(keys, side, bit, parts, PARTS, token) && krb5_wrap_end(keys));
	token[PEER_HEADER + bit / 8 % (length - PEER_HEADER)] ^= 1 << bit % 8;
	expect(!unwrap(keys, side, token, length, &plain, &plain_length));
	free(token);
	own_wrap_in_parts(keys, side, parts, bit);
}

/* Begins with which bit to turn over, and where the message is cut. */
static void own(enum kind kind, struct krb5_keys *keys, enum krb5_side side, const uint8_t *data,
		size_t size)
{
	uint8_t *bytes = (uint8_t *)data + 3;
	struct iovec parts[PARTS] = {{NULL, 0}};
	uint32_t bit;

	if (size < 3)
		return;
	size -= 3;
	bit = data[0] << 8 | data[1];
	parts[1] = (struct iovec){bytes, min_of(size, (size_t)data[2])};
	parts[2] = (struct iovec){bytes + parts[1].iov_len, size - parts[1].iov_len};
	if (kind == OWN_MIC)
		own_mic(keys, side, parts, bit);
	else
		own_wrap(keys, side, parts, bit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum krb5_side side;
	enum kind kind;
	struct krb5_keys *keys;

	if (!size)
		return 0;
	keys = peer_keys(*data & 7);
	side = *data >> 3 & 1;
	kind = *data >> 4 & 3;
	if (kind == FOREIGN)
		foreign(keys, side, data + 1, size - 1);
	else if (kind == SEALED)
		sealed(keys, side, data + 1, size - 1);
	else
		own(kind, keys, side, data + 1, size - 1);
	return 0;
}
