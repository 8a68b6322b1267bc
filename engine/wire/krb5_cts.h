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

#include "wire/krb5_one_pass.h"

enum { CTS_BLOCK = 16 };

/* What encrypts a message, and makes the HMAC of its plaintext. */
struct cts_keys {
	gnutls_cipher_hd_t cipher;
	gnutls_hmac_hd_t hmac;		      /* NULL: no HMAC */
	const struct one_pass_keys *one_pass; /* of both; NULL: GnuTLS does all the work */
};

/* Encrypts bytes as they come: whole chunks from where they are; the rest is kept. */
struct cts_stream {
	struct cts_keys keys;
	struct one_pass pass;
	uint8_t *at; /* where the next ciphertext belongs */
	uint8_t kept[ONE_PASS_CHUNK];
	uint32_t length; /* bytes kept */
	bool failed;
};

/* Without `one_pass` nothing else may use the keys until cts_end(). With it the bytes of cts_put()
 * must stay unchanged until then, and one_pass_run() may run two streams together before. */
void cts_begin(struct cts_stream *stream, struct cts_keys keys, uint8_t *to);
void cts_put(struct cts_stream *stream, const void *bytes, size_t length);
/* After two blocks at least. Leaves stream->at at the ciphertext's end, and writes `hmac` where
 * there is a key for it; false: the crypto library failed. */
bool cts_end(struct cts_stream *stream, uint8_t *hmac);

/* Decrypts in place, at least two blocks, in any parts. False: the crypto library failed. */
bool cts_decrypt(gnutls_cipher_hd_t cipher, const struct iovec *parts, int count);
