/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/krb5_keys.h"

#include <string.h>

#include "util.h"

static void start_iv(gnutls_cipher_hd_t cipher)
{
	uint8_t iv[CTS_BLOCK] = {0};

	gnutls_cipher_set_iv(cipher, iv, sizeof(iv));
}

/* --- encryption --- */

/* Encrypts whole blocks. */
static void encrypt(struct cts_stream *stream, const uint8_t *blocks, size_t length, uint8_t *to)
{
	if (length && gnutls_cipher_encrypt2(stream->keys.cipher, blocks, length, to, length))
		stream->failed = true;
}

static void sum(struct cts_stream *stream, const uint8_t *bytes, size_t length)
{
	if (stream->keys.hmac && length && gnutls_hmac(stream->keys.hmac, bytes, length))
		stream->failed = true;
}

/* With one_pass the chunks wait for the next run, which may take another stream's as well. */
static void take_chunks(struct cts_stream *stream, const uint8_t *chunks, size_t length)
{
	if (stream->keys.one_pass) {
		one_pass_run(&stream->pass, NULL);
		stream->pass.from = chunks;
		stream->pass.to = stream->at;
		stream->pass.left = length;
	} else {
		encrypt(stream, chunks, length, stream->at);
		sum(stream, chunks, length);
	}
	stream->at += length;
}

static void keep(struct cts_stream *stream, const uint8_t *bytes, size_t length)
{
	memcpy(stream->kept + stream->length, bytes, length);
	stream->length += length;
}

void cts_begin(struct cts_stream *stream, struct cts_keys keys, uint8_t *to)
{
	*stream = (struct cts_stream){.keys = keys, .at = to};
	if (keys.one_pass)
		one_pass_begin(&stream->pass, keys.one_pass);
	else
		start_iv(keys.cipher);
}

/* Keeps the last chunk until more follows: the end of a message is encrypted differently. */
void cts_put(struct cts_stream *stream, const void *bytes, size_t length)
{
	size_t first = min_of(sizeof(stream->kept) - stream->length, length), whole;
	const uint8_t *rest = bytes;

	if (!length)
		return; /* `bytes` may be NULL */
	keep(stream, rest, first);
	rest += first;
	length -= first;
	if (!length)
		return;
	take_chunks(stream, stream->kept, sizeof(stream->kept));
	stream->length = 0;
	whole = (length - 1) / sizeof(stream->kept) * sizeof(stream->kept);
	take_chunks(stream, rest, whole);
	keep(stream, rest + whole, length - whole);
}

bool cts_end(struct cts_stream *stream, uint8_t *hmac)
{
	size_t whole = (stream->length - 1) / CTS_BLOCK * CTS_BLOCK, rest = stream->length - whole;
	uint8_t last[CTS_BLOCK] = {0}, *before;

	/* Adds the kept bytes, and finishes the HMAC. GnuTLS encrypts the last blocks. */
	if (stream->keys.one_pass) {
		one_pass_run(&stream->pass, NULL);
		one_pass_sum(&stream->pass, stream->kept, stream->length, hmac);
		gnutls_cipher_set_iv(stream->keys.cipher, stream->pass.chain, CTS_BLOCK);
	} else if (stream->keys.hmac) {
		sum(stream, stream->kept, stream->length);
		gnutls_hmac_output(stream->keys.hmac, hmac);
	}
	encrypt(stream, stream->kept, whole, stream->at);
	stream->at += whole;
	memcpy(last, stream->kept + whole, rest);
	encrypt(stream, last, sizeof(last), last);
	before = stream->at - CTS_BLOCK;
	memcpy(stream->at, before, rest);
	memcpy(before, last, sizeof(last));
	stream->at += rest;
	return !stream->failed;
}

/* --- decryption --- */

/* A position in parts. */
struct place {
	const struct iovec *part;
	size_t offset;
};

static uint8_t *at(const struct place *place)
{
	return (uint8_t *)place->part->iov_base + place->offset;
}

/* Returns how many bytes are contiguous at a position, at most `most`. */
static size_t together(struct place *place, size_t most)
{
	while (place->offset == place->part->iov_len)
		*place = (struct place){place->part + 1, 0};
	return min_of(most, place->part->iov_len - place->offset);
}

/* Steps over `length` bytes, and copies them to `out` or from `in`, which may be NULL. */
static void step(struct place *place, size_t length, uint8_t *out, const uint8_t *in)
{
	while (length) {
		size_t piece = together(place, length);

		if (out)
			out = mempcpy(out, at(place), piece);
		if (in) {
			memcpy(at(place), in, piece);
			in += piece;
		}
		place->offset += piece;
		length -= piece;
	}
}

/* Decrypts contiguous blocks together, and a block split over parts in a copy. */
static bool decrypt_blocks(gnutls_cipher_hd_t cipher, struct place place, size_t length)
{
	bool decrypted = true;

	while (length && decrypted) {
		size_t blocks = together(&place, length) / CTS_BLOCK * CTS_BLOCK;
		struct place begin = place;
		uint8_t block[CTS_BLOCK];

		if (blocks) {
			decrypted = !gnutls_cipher_decrypt(cipher, at(&place), blocks);
			place.offset += blocks;
		} else {
			blocks = CTS_BLOCK;
			step(&place, blocks, block, NULL);
			decrypted = !gnutls_cipher_decrypt(cipher, block, blocks);
			step(&begin, blocks, NULL, block);
		}
		length -= blocks;
	}
	return decrypted;
}

bool cts_decrypt(gnutls_cipher_hd_t cipher, const struct iovec *parts, int count)
{
	struct place place = {parts, 0}, end;
	uint8_t swapped[2 * CTS_BLOCK], *stolen = swapped + CTS_BLOCK;
	uint8_t last[CTS_BLOCK], before[CTS_BLOCK];
	size_t length = 0, rest, front;

	for (int i = 0; i < count; i++)
		length += parts[i].iov_len;
	rest = (length - 1) % CTS_BLOCK + 1;
	front = length - CTS_BLOCK - rest;
	step(&place, front, NULL, NULL);
	end = place;
	step(&place, CTS_BLOCK + rest, swapped, NULL);
	start_iv(cipher);
	if (gnutls_cipher_decrypt2(cipher, swapped, CTS_BLOCK, last, sizeof(last)))
		return false;
	/* Decrypting gives (plaintext, zero-padded) XOR the previous block (RFC 3962, 5). */
	memcpy(before, last, sizeof(before));
	memcpy(before, stolen, rest);
	for (size_t i = 0; i < rest; i++)
		stolen[i] ^= last[i];
	start_iv(cipher);
	if (!decrypt_blocks(cipher, (struct place){parts, 0}, front) ||
	    gnutls_cipher_decrypt2(cipher, before, sizeof(before), swapped, CTS_BLOCK))
		return false;
	step(&end, CTS_BLOCK + rest, NULL, swapped);
	return true;
}
