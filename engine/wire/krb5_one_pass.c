/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/krb5_keys.h"

#ifdef __x86_64__

#include <cpuid.h>
#include <endian.h>
#include <gnutls/crypto.h>
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

#define INSTRUCTIONS __attribute__((target("aes,sha,sse4.1")))
#define INLINE	     INSTRUCTIONS static inline __attribute__((always_inline))

enum { LANES_MAX = 2, ROUNDS_MAX = 14, WORDS = 4, INNER = 0x36, OUTER = 0x5c };

/* SHA-1's state, as its instructions have it: a and e are the highest words. */
struct state {
	__m128i abcd, e;
};

struct one_pass_keys {
	union {
		__m128i round[ROUNDS_MAX + 1];
		uint32_t words[WORDS * (ROUNDS_MAX + 1)];
	} aes;
	uint32_t rounds;
	struct state inner, outer; /* after the chunk that is HMAC's padded key */
};

/* --- SHA-1 (FIPS 180-4, 6.1.2), of one message or two at once --- */

INLINE __m128i turn_words(__m128i words)
{
	return _mm_shuffle_epi8(words, _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f));
}

/* Four rounds; the instruction takes the function's number as a constant. */
INLINE __m128i four_rounds(__m128i abcd, __m128i e, int function)
{
	switch (function) {
	case 0: return _mm_sha1rnds4_epu32(abcd, e, 0);
	case 1: return _mm_sha1rnds4_epu32(abcd, e, 1);
	case 2: return _mm_sha1rnds4_epu32(abcd, e, 2);
	default: return _mm_sha1rnds4_epu32(abcd, e, 3);
	}
}

/* Rounds 4 i to 4 i + 3, and the words of those that come 16 rounds later. */
INLINE void sum_words(struct state *state, __m128i words[4], int i)
{
	__m128i before = state->abcd, *now = &words[i % 4];
	__m128i e = i ? _mm_sha1nexte_epu32(state->e, *now) : _mm_add_epi32(state->e, *now);

	*state = (struct state){four_rounds(before, e, i / 5), before};
	*now = _mm_sha1msg1_epu32(*now, words[(i + 1) % 4]);
	*now = _mm_xor_si128(*now, words[(i + 2) % 4]);
	*now = _mm_sha1msg2_epu32(*now, words[(i + 3) % 4]);
}

INLINE void sum_chunks(struct state *states, const uint8_t *const *chunks, int lanes)
{
	__m128i words[LANES_MAX][4];
	struct state now[LANES_MAX];

	for (int lane = 0; lane < lanes; lane++) {
		const __m128i_u *blocks = (const __m128i_u *)chunks[lane];

		now[lane] = states[lane];
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			words[lane][i] = turn_words(blocks[i]);
	}
#pragma GCC unroll 20
	for (int i = 0; i < 20; i++) {
#pragma GCC unroll 2
		for (int lane = 0; lane < lanes; lane++)
			sum_words(&now[lane], words[lane], i);
	}
	for (int lane = 0; lane < lanes; lane++) {
		states[lane].abcd = _mm_add_epi32(now[lane].abcd, states[lane].abcd);
		states[lane].e = _mm_sha1nexte_epu32(now[lane].e, states[lane].e);
	}
}

/* Ends the SHA-1: `state` is of `summed` bytes, and `rest`, at most a chunk, follows them. */
INSTRUCTIONS static void end_sum(struct state state, uint64_t summed, const uint8_t *rest,
				 size_t length, uint8_t sum[20])
{
	uint8_t chunks[2 * ONE_PASS_CHUNK] = {0};
	const uint8_t *end = chunks + (length + 8) / ONE_PASS_CHUNK * ONE_PASS_CHUNK;
	const uint64_t bits = htobe64(8 * (summed + length));

	memcpy(chunks, rest, length);
	chunks[length] = 0x80;
	memcpy(chunks + (end - chunks) + ONE_PASS_CHUNK - sizeof(bits), &bits, sizeof(bits));
	for (const uint8_t *chunk = chunks; chunk <= end; chunk += ONE_PASS_CHUNK)
		sum_chunks(&state, &chunk, 1);
	state = (struct state){turn_words(state.abcd), turn_words(state.e)};
	memcpy(sum, &state, 20);
}

/* RFC 2104 */
INSTRUCTIONS static struct state begin_hmac(const gnutls_datum_t *key, uint8_t pad)
{
	struct state state = {
		.abcd = _mm_set_epi32(0x67452301, (int)0xefcdab89, (int)0x98badcfe, 0x10325476),
		.e = _mm_set_epi32((int)0xc3d2e1f0, 0, 0, 0),
	};
	uint8_t bytes[ONE_PASS_CHUNK];
	const uint8_t *chunk = bytes;

	memset(bytes, pad, sizeof(bytes));
	for (uint32_t i = 0; i < key->size; i++)
		bytes[i] ^= key->data[i];
	sum_chunks(&state, &chunk, 1);
	gnutls_memset(bytes, 0, sizeof(bytes));
	return state;
}

void one_pass_sum(struct one_pass *pass, const uint8_t *rest, size_t length, uint8_t hmac[20])
{
	struct state state;
	uint8_t inner[20];

	memcpy(&state, pass->sum, sizeof(state));
	end_sum(state, pass->summed, rest, length, inner);
	end_sum(pass->keys->outer, ONE_PASS_CHUNK, inner, sizeof(inner), hmac);
}

/* --- AES (FIPS 197, 5) --- */

INSTRUCTIONS static void expand_key(struct one_pass_keys *keys, const gnutls_datum_t *key)
{
	uint32_t *words = keys->aes.words, size = key->size / sizeof(*words), constant = 1;

	keys->rounds = size + 6;
	memcpy(words, key->data, key->size);
	for (uint32_t i = size; i < WORDS * (keys->rounds + 1); i++) {
		__m128i last = _mm_set1_epi32((int)words[i - 1]);
		__m128i substituted = _mm_aeskeygenassist_si128(last, 0);
		uint32_t word = words[i - 1];

		if (i % size == 0) {
			word = (uint32_t)_mm_extract_epi32(substituted, 1) ^ constant;
			constant = constant << 1 ^ (constant >> 7) * 0x11b;
		} else if (size == 8 && i % size == 4) {
			word = (uint32_t)_mm_extract_epi32(substituted, 0);
		}
		words[i] = words[i - size] ^ word;
	}
}

/* The next block of each message (CBC). */
INLINE void encrypt_blocks(const struct one_pass_keys *keys, __m128i *chains,
			   const uint8_t *const *from, uint8_t *const *to, int at, int lanes)
{
	const uint32_t rounds = keys->rounds;

	for (int lane = 0; lane < lanes; lane++) {
		chains[lane] ^= *(const __m128i_u *)(from[lane] + at) ^ keys->aes.round[0];
	}
#pragma GCC unroll 14
	for (uint32_t i = 1; i < rounds; i++) {
		for (int lane = 0; lane < lanes; lane++)
			chains[lane] = _mm_aesenc_si128(chains[lane], keys->aes.round[i]);
	}
	for (int lane = 0; lane < lanes; lane++) {
		chains[lane] = _mm_aesenclast_si128(chains[lane], keys->aes.round[rounds]);
		*(__m128i_u *)(to[lane] + at) = chains[lane];
	}
}

/* --- AES and SHA-1 in one pass --- */

/* Encrypts and sums `length` bytes of each message, interleaved so that the processor can do both
 * at once. */
INLINE void do_chunks(struct one_pass *const *passes, int lanes, size_t length)
{
	const uint8_t *from[LANES_MAX];
	uint8_t *to[LANES_MAX];
	struct state states[LANES_MAX];
	__m128i chains[LANES_MAX];

	for (int lane = 0; lane < lanes; lane++) {
		from[lane] = passes[lane]->from;
		to[lane] = passes[lane]->to;
		memcpy(&chains[lane], passes[lane]->chain, sizeof(chains[lane]));
		memcpy(&states[lane], passes[lane]->sum, sizeof(states[lane]));
	}
	for (size_t done = 0; done < length; done += ONE_PASS_CHUNK) {
		for (int at = 0; at < ONE_PASS_CHUNK; at += CTS_BLOCK)
			encrypt_blocks(passes[0]->keys, chains, from, to, at, lanes);
		sum_chunks(states, from, lanes);
		for (int lane = 0; lane < lanes; lane++) {
			from[lane] += ONE_PASS_CHUNK;
			to[lane] += ONE_PASS_CHUNK;
		}
	}
	for (int lane = 0; lane < lanes; lane++) {
		struct one_pass *pass = passes[lane];

		memcpy(pass->chain, &chains[lane], sizeof(chains[lane]));
		memcpy(pass->sum, &states[lane], sizeof(states[lane]));
		pass->from = from[lane];
		pass->to = to[lane];
		pass->summed += length;
		pass->left -= length;
	}
}

INSTRUCTIONS void one_pass_run(struct one_pass *pass, struct one_pass *other)
{
	struct one_pass *both[LANES_MAX] = {pass, other};

	if (other) {
		do_chunks(both, LANES_MAX, min_of(pass->left, other->left));
		if (!pass->left)
			both[0] = other;
	}
	do_chunks(both, 1, both[0]->left);
}

void one_pass_begin(struct one_pass *pass, const struct one_pass_keys *keys)
{
	*pass = (struct one_pass){.keys = keys, .summed = ONE_PASS_CHUNK};
	memcpy(pass->sum, &keys->inner, sizeof(keys->inner));
}

/* --- keys --- */

struct one_pass_keys *one_pass_keys_new(const gnutls_datum_t *aes, const gnutls_datum_t *hmac)
{
	uint32_t a, b, c, d;
	struct one_pass_keys *keys;

	if (!__builtin_cpu_supports("aes") || !__builtin_cpu_supports("sse4.1") ||
	    !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_SHA))
		return NULL;
	keys = calloc(1, sizeof(*keys));
	if (!keys)
		return NULL;
	expand_key(keys, aes);
	keys->inner = begin_hmac(hmac, INNER);
	keys->outer = begin_hmac(hmac, OUTER);
	return keys;
}

void one_pass_keys_free(struct one_pass_keys *keys)
{
	if (keys)
		gnutls_memset(keys, 0, sizeof(*keys));
	free(keys);
}

#else

/* Without keys the other functions are never called. */
struct one_pass_keys *one_pass_keys_new(const gnutls_datum_t *aes, const gnutls_datum_t *hmac)
{
	return NULL;
}

void one_pass_keys_free(struct one_pass_keys *keys)
{
}
void one_pass_begin(struct one_pass *pass, const struct one_pass_keys *keys)
{
}
void one_pass_run(struct one_pass *pass, struct one_pass *other)
{
}
void one_pass_sum(struct one_pass *pass, const uint8_t *rest, size_t length, uint8_t hmac[20])
{
}

#endif
