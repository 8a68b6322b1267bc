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

/* --- a mechanism's operations --- */

static const struct token_mechanism *mechanism_of(struct gss_mechanism *base)
{
	const struct token_mechanism *mechanism = container_of(base, struct token_mechanism, base);

	if (!mechanism->key)
		abort(); /* there is no context */
	return mechanism;
}

static uint64_t client_key(struct gss_mechanism *base)
{
	return token_client_key(mechanism_of(base)->key);
}

static uint64_t server_key(struct gss_mechanism *base, bool earlier)
{
	const struct token_mechanism *mechanism = mechanism_of(base);

	return token_server_key(earlier ? mechanism->earlier : mechanism->key);
}

static uint32_t mic_size(const struct gss_mechanism *base)
{
	return TOKEN_MIC;
}

static uint32_t wrap_size(const struct gss_mechanism *base)
{
	return TOKEN_WRAP;
}

static bool mic(struct gss_mechanism *base, const struct iovec *parts, int count, uint8_t *to)
{
	token_mic(client_key(base), parts, count, to);
	return true;
}

static bool wrap(struct gss_mechanism *base, const struct iovec *parts, int count, uint8_t *to)
{
	token_wrap(client_key(base), parts, count, to);
	return true;
}

static bool verify(struct gss_mechanism *base, bool earlier, const struct iovec *parts, int count,
		   const uint8_t *token, uint32_t length)
{
	return token_mic_ok(server_key(base, earlier), parts, count, token, length);
}

static bool unwrap(struct gss_mechanism *base, bool earlier, uint8_t *token, uint32_t length,
		   uint8_t **plain, uint32_t *plain_length)
{
	return token_unwrap(server_key(base, earlier), token, length, plain, plain_length);
}

static uint32_t wrap_front(const uint8_t *token, uint32_t have)
{
	return have > TOKEN_WRAP ? TOKEN_WRAP : 0;
}

static bool unwrap_parts(struct gss_mechanism *base, bool earlier, const struct iovec *parts,
			 int count)
{
	return token_unwrap_parts(server_key(base, earlier), parts, count);
}

const struct gss_mechanism_ops token_ops = {
	.mic_size = mic_size,
	.wrap_size = wrap_size,
	.mic = mic,
	.wrap = wrap,
	.verify = verify,
	.unwrap = unwrap,
	.wrap_front = wrap_front,
	.unwrap_parts = unwrap_parts,
};
