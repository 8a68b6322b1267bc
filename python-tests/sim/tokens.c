/* SPDX-License-Identifier: GPL-2.0-only */
#include "tokens.h"

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

void token_mic(uint64_t key, const struct iovec *parts, int count, uint8_t *mic)
{
	uint64_t sum = sum_of(key, parts, count);

	memcpy(mic, &sum, TOKEN_MIC);
}

/* libFuzzer sees what is compared, and would forge it: it sees hashes. */
bool token_mic_ok(uint64_t key, const struct iovec *parts, int count, const uint8_t *mic,
		  uint32_t length)
{
	uint64_t sum = sum_of(key, parts, count), given;

	if (length != TOKEN_MIC)
		return false;
	memcpy(&given, mic, sizeof(given));
	return mix(given) == mix(sum);
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

/* The sum of the text, which no two tokens have in common, and the text. */
void token_wrap(uint64_t key, const struct iovec *parts, int count, uint8_t *token)
{
	uint64_t sum = sum_of(key, parts, count);
	uint8_t *end = token + TOKEN_WRAP;
	struct iovec text = {end, 0};

	memcpy(token, &sum, sizeof(sum));
	for (int i = 0; i < count; i++)
		if (parts[i].iov_len)
			end = mempcpy(end, parts[i].iov_base, parts[i].iov_len);
	text.iov_len = (size_t)(end - token) - TOKEN_WRAP;
	cipher(key ^ sum, &text, 1);
}

bool token_unwrap_parts(uint64_t key, const struct iovec *parts, int count)
{
	struct iovec text[3];
	uint64_t sum;

	memcpy(text, parts, (size_t)count * sizeof(*parts));
	memcpy(&sum, text[0].iov_base, sizeof(sum));
	text[0].iov_base = (uint8_t *)text[0].iov_base + TOKEN_WRAP;
	text[0].iov_len -= TOKEN_WRAP;
	cipher(key ^ sum, text, count);
	return sum == sum_of(key, text, count);
}

bool token_unwrap(uint64_t key, uint8_t *token, uint32_t length, uint8_t **plain,
		  uint32_t *plain_length)
{
	const struct iovec part = {token, length};

	if (length < TOKEN_WRAP)
		return false;
	*plain = token + TOKEN_WRAP;
	*plain_length = length - TOKEN_WRAP;
	return token_unwrap_parts(key, &part, 1);
}

/* --- in the place of engine/wire/krb5_token.c --- */

static uint64_t key_of(const struct krb5_keys *keys, enum krb5_side side)
{
	if (!keys->key)
		abort(); /* there is no context */
	return side == KRB5_INITIATOR ? token_client_key(keys->key) : token_server_key(keys->key);
}

uint32_t __wrap_krb5_mic_size(const struct krb5_keys *keys)
{
	return TOKEN_MIC;
}

bool __wrap_krb5_mic(struct krb5_keys *keys, enum krb5_side side, uint64_t sequence,
		     const struct iovec *parts, int count, uint8_t *mic)
{
	token_mic(key_of(keys, side), parts, count, mic);
	return true;
}

bool __wrap_krb5_mic_ok(struct krb5_keys *keys, enum krb5_side side, const struct iovec *parts,
			int count, const uint8_t *mic, uint32_t length)
{
	return token_mic_ok(key_of(keys, side), parts, count, mic, length);
}

uint32_t __wrap_krb5_wrap_size(const struct krb5_keys *keys)
{
	return TOKEN_WRAP;
}

bool __wrap_krb5_wrap(struct krb5_keys *keys, enum krb5_side side, uint64_t sequence,
		      const struct iovec *parts, int count, uint8_t *token)
{
	token_wrap(key_of(keys, side), parts, count, token);
	return true;
}

bool __wrap_krb5_wrap_end(struct krb5_keys *keys)
{
	return true;
}

bool __wrap_krb5_unwrap(struct krb5_keys *keys, enum krb5_side side, uint8_t *token,
			uint32_t length, uint8_t **plain, uint32_t *plain_length)
{
	return token_unwrap(key_of(keys, side), token, length, plain, plain_length);
}

uint32_t __wrap_krb5_wrap_front(const uint8_t *token, uint32_t have)
{
	return have > TOKEN_WRAP ? TOKEN_WRAP : 0;
}

bool __wrap_krb5_unwrap_parts(struct krb5_keys *keys, enum krb5_side side,
			      const struct iovec *parts, int count)
{
	return token_unwrap_parts(key_of(keys, side), parts, count);
}
