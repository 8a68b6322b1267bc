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

/* Encrypts and decrypts. */
static void cipher(uint64_t key, uint8_t *text, uint32_t length)
{
	for (uint32_t at = 0; at < length; at += sizeof(key)) {
		uint32_t part = length - at < sizeof(key) ? length - at : sizeof(key);
		uint64_t word = 0, stream = mix(key + at);

		memcpy(&word, text + at, part);
		word ^= stream;
		memcpy(text + at, &word, part);
	}
}

/* The sum of the text, which no two tokens have in common, and the text. */
void token_wrap(uint64_t key, const struct iovec *parts, int count, uint8_t *token)
{
	uint64_t sum = sum_of(key, parts, count);
	uint8_t *text = token + TOKEN_WRAP;

	memcpy(token, &sum, sizeof(sum));
	for (int i = 0; i < count; i++)
		text = mempcpy(text, parts[i].iov_base, parts[i].iov_len);
	cipher(key ^ sum, token + TOKEN_WRAP, (uint32_t)(text - token) - TOKEN_WRAP);
}

bool token_unwrap(uint64_t key, uint8_t *token, uint32_t length, uint8_t **plain,
		  uint32_t *plain_length)
{
	struct iovec text;
	uint64_t sum;

	if (length < TOKEN_WRAP)
		return false;
	memcpy(&sum, token, sizeof(sum));
	text = (struct iovec){token + TOKEN_WRAP, length - TOKEN_WRAP};
	cipher(key ^ sum, text.iov_base, (uint32_t)text.iov_len);
	*plain = text.iov_base;
	*plain_length = (uint32_t)text.iov_len;
	return sum == sum_of(key, &text, 1);
}
