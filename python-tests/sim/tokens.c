/* SPDX-License-Identifier: GPL-2.0-only */
#include "contexts.h"

#include <stdlib.h>
#include <string.h>

#include "util.h"

/* The last steps of splitmix64. */
static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint64_t token_key(uint64_t client, uint64_t server)
{
	return mix(client) ^ server;
}

/* The same of the same bytes, however they lie in parts. */
static uint64_t sum_of(uint64_t key, const struct iovec *parts, int count)
{
	uint64_t sum = mix(key), word = 0, length = 0;

	for (int i = 0; i < count; i++) {
		const uint8_t *at = parts[i].iov_base, *end = at + parts[i].iov_len;

		for (; at < end; at++) {
			word = word << 8 | *at;
			if (++length % sizeof(word))
				continue;
			sum = (sum ^ word) * 0x94d049bb133111ebull;
			sum ^= sum >> 29;
		}
	}
	return mix(sum ^ word ^ length << 32);
}

/* Encrypts and decrypts, however the bytes lie in parts. */
static void cipher(uint64_t key, const struct iovec *parts, int count)
{
	uint64_t stream = 0, length = 0;

	for (int i = 0; i < count; i++) {
		uint8_t *at = parts[i].iov_base, *end = at + parts[i].iov_len;

		for (; at < end; at++) {
			if (length % sizeof(stream) == 0)
				stream = mix(key + length);
			*at ^= (uint8_t)(stream >> 8 * (length++ % sizeof(stream)));
		}
	}
}

static uint64_t key_of(const struct krb5_keys *keys, enum krb5_side side)
{
	if (!keys->key)
		abort(); /* there is no context */
	return side == KRB5_INITIATOR ? keys->key : ~keys->key;
}

/* --- in the place of engine/wire/krb5_token.c --- */

uint32_t __wrap_krb5_mic_size(const struct krb5_keys *keys)
{
	return TOKEN_MIC;
}

bool __wrap_krb5_mic(struct krb5_keys *keys, enum krb5_side side, uint64_t sequence,
		     const struct iovec *parts, int count, uint8_t *mic)
{
	uint64_t sum = sum_of(key_of(keys, side), parts, count);

	memcpy(mic, &sum, TOKEN_MIC);
	return true;
}

bool __wrap_krb5_mic_ok(struct krb5_keys *keys, enum krb5_side side, const struct iovec *parts,
			int count, const uint8_t *mic, uint32_t length)
{
	uint64_t sum = sum_of(key_of(keys, side), parts, count);

	return length == TOKEN_MIC && !memcmp(mic, &sum, TOKEN_MIC);
}

uint32_t __wrap_krb5_wrap_size(const struct krb5_keys *keys)
{
	return TOKEN_WRAP;
}

/* The sum of the text, which no two tokens have in common, and the text. */
bool __wrap_krb5_wrap(struct krb5_keys *keys, enum krb5_side side, uint64_t sequence,
		      const struct iovec *parts, int count, uint8_t *token)
{
	uint64_t key = key_of(keys, side), sum = sum_of(key, parts, count);
	uint8_t *end = mempcpy(token, &sum, TOKEN_WRAP);
	struct iovec text = {end, 0};

	for (int i = 0; i < count; i++)
		if (parts[i].iov_len)
			end = mempcpy(end, parts[i].iov_base, parts[i].iov_len);
	text.iov_len = (size_t)(end - token) - TOKEN_WRAP;
	cipher(key ^ sum, &text, 1);
	return true;
}

bool __wrap_krb5_wrap_end(struct krb5_keys *keys)
{
	return true;
}

uint32_t __wrap_krb5_wrap_front(const uint8_t *token, uint32_t have)
{
	return have > TOKEN_WRAP ? TOKEN_WRAP : 0;
}

bool __wrap_krb5_unwrap_parts(struct krb5_keys *keys, enum krb5_side side,
			      const struct iovec *parts, int count)
{
	uint64_t key = key_of(keys, side), sum;
	struct iovec text[KRB5_PARTS_MAX];

	memcpy(text, parts, (size_t)count * sizeof(*parts));
	memcpy(&sum, text[0].iov_base, sizeof(sum));
	text[0].iov_base = (uint8_t *)text[0].iov_base + TOKEN_WRAP;
	text[0].iov_len -= TOKEN_WRAP;
	cipher(key ^ sum, text, count);
	return sum == sum_of(key, text, count);
}

bool __wrap_krb5_unwrap(struct krb5_keys *keys, enum krb5_side side, uint8_t *token,
			uint32_t length, uint8_t **plain, uint32_t *plain_length)
{
	const struct iovec part = {token, length};

	if (length < TOKEN_WRAP)
		return false;
	*plain = token + TOKEN_WRAP;
	*plain_length = length - TOKEN_WRAP;
	return __wrap_krb5_unwrap_parts(keys, side, &part, 1);
}
