/* SPDX-License-Identifier: GPL-2.0-only */
#include "tokens.h"

#include <string.h>

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

bool token_mic_ok(uint64_t key, const struct iovec *parts, int count, const uint8_t *mic,
		  uint32_t length)
{
	uint64_t sum = sum_of(key, parts, count);

	return length == TOKEN_MIC && !memcmp(mic, &sum, TOKEN_MIC);
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
