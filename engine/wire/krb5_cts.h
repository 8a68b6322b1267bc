/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * krb5_cts.h - AES in CBC mode with ciphertext stealing, the last two blocks swapped (RFC 3962, 5):
 * ciphertext is as long as plaintext. The initial vector is zero.
 */
#pragma once

#include <gnutls/crypto.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

enum { CTS_BLOCK = 16 };

/* Encrypts bytes as they come: whole blocks straight from where they are, others are kept. */
struct cts_stream {
	gnutls_cipher_hd_t cipher;
	uint8_t *at; /* where the next ciphertext belongs */
	uint8_t kept[CTS_BLOCK];
	uint32_t length; /* of what is kept */
	bool failed;
};

/* Nothing else uses the cipher until cts_end(). */
void cts_begin(struct cts_stream *stream, gnutls_cipher_hd_t cipher, uint8_t *to);
void cts_put(struct cts_stream *stream, const void *bytes, size_t length);
/* After two blocks at least. stream->at is the ciphertext's end; false: the crypto library failed.
 */
bool cts_end(struct cts_stream *stream);

/* In place, two blocks at least, however they lie in parts. False: the crypto library failed. */
bool cts_decrypt(gnutls_cipher_hd_t cipher, const struct iovec *parts, int count);
