/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/krb5_cts.h"

#include <string.h>

#include "util.h"

static void start_iv(gnutls_cipher_hd_t cipher)
{
	uint8_t iv[CTS_BLOCK] = {0};

	gnutls_cipher_set_iv(cipher, iv, sizeof(iv));
}

/* --- encryption --- */

static void encrypt(struct cts_stream *stream, const uint8_t *blocks, size_t length)
{
	if (length && gnutls_cipher_encrypt2(stream->cipher, blocks, length, stream->at, length))
		stream->failed = true;
	stream->at += length;
}

static void keep(struct cts_stream *stream, const uint8_t *bytes, size_t length)
{
	memcpy(stream->kept + stream->length, bytes, length);
	stream->length += length;
}

void cts_begin(struct cts_stream *stream, gnutls_cipher_hd_t cipher, uint8_t *to)
{
	*stream = (struct cts_stream){.cipher = cipher, .at = to};
	start_iv(cipher);
}

void cts_put(struct cts_stream *stream, const void *bytes, size_t length)
{
	size_t missing = stream->length ? CTS_BLOCK - stream->length : 0;
	size_t first = min_of(missing, length), whole;
	const uint8_t *rest = bytes;

	if (!length)
		return; /* from nowhere, perhaps */
	keep(stream, rest, first);
	rest += first;
	length -= first;
	if (stream->length == CTS_BLOCK) {
		encrypt(stream, stream->kept, CTS_BLOCK);
		stream->length = 0;
	}
	whole = length / CTS_BLOCK * CTS_BLOCK;
	encrypt(stream, rest, whole);
	keep(stream, rest + whole, length - whole);
}

/* The last block has been encrypted where the one before belongs, if none is kept. */
bool cts_end(struct cts_stream *stream)
{
	uint8_t last[CTS_BLOCK] = {0}, *before;
	uint32_t length = stream->length ?: CTS_BLOCK;

	if (stream->length) {
		memcpy(last, stream->kept, length);
		if (gnutls_cipher_encrypt(stream->cipher, last, sizeof(last)))
			stream->failed = true;
	} else {
		stream->at -= CTS_BLOCK;
		memcpy(last, stream->at, sizeof(last));
	}
	before = stream->at - CTS_BLOCK;
	memcpy(stream->at, before, length);
	memcpy(before, last, sizeof(last));
	stream->at += length;
	return !stream->failed;
}

/* --- decryption --- */

bool cts_decrypt(gnutls_cipher_hd_t cipher, uint8_t *text, size_t length)
{
	size_t rest = (length - 1) % CTS_BLOCK + 1, front = length - CTS_BLOCK - rest;
	uint8_t *swapped = text + front, *stolen = swapped + CTS_BLOCK;
	uint8_t last[CTS_BLOCK], before[CTS_BLOCK];

	start_iv(cipher);
	if (gnutls_cipher_decrypt2(cipher, swapped, CTS_BLOCK, last, sizeof(last)))
		return false;
	/* It is the plaintext, zeros behind it, xor the block before, whose end it shows so. */
	memcpy(before, last, sizeof(before));
	memcpy(before, stolen, rest);
	for (size_t i = 0; i < rest; i++)
		stolen[i] ^= last[i];
	start_iv(cipher);
	return (!front || !gnutls_cipher_decrypt(cipher, text, front)) &&
	       !gnutls_cipher_decrypt2(cipher, before, sizeof(before), swapped, CTS_BLOCK);
}
