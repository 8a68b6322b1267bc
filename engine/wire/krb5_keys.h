/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * krb5_keys.h - the keys by which krb5_token.c makes and checks tokens: derived from a context's
 * key for the usages of RFC 4121 (2), each in a handle of GnuTLS that serves all messages. Also
 * declares the two ciphers that krb5_token.c uses: krb5_one_pass.c and krb5_cts.c.
 */
#pragma once

#include <gnutls/crypto.h>

#include "wire/krb5_token.h"

/*
 * --- krb5_one_pass.c: AES-CBC encryption and HMAC-SHA1 of the same bytes side by side ---
 *
 * Works on one or two messages, with x86-64's AES and SHA instructions. Each step depends on the
 * one before it; meanwhile the processor works on the other algorithm, or on the other message.
 */

enum { ONE_PASS_CHUNK = 64, CTS_BLOCK = 16 };

/* The expanded keys of both algorithms. */
struct one_pass_keys;

/* A message being encrypted and summed. */
struct one_pass {
	const struct one_pass_keys *keys;
	uint8_t chain[CTS_BLOCK]; /* the last ciphertext block */
	uint8_t sum[2 * CTS_BLOCK];
	uint64_t summed; /* bytes, including the HMAC's key chunk */

	/* The whole chunks to do next; `to` does not overlap them. */
	const uint8_t *from;
	uint8_t *to;
	size_t left; /* bytes */
};

/* Keys of AES-128 or AES-256, and of HMAC up to a chunk. NULL: the processor lacks the
 * instructions, or there is no memory. */
struct one_pass_keys *one_pass_keys_new(const gnutls_datum_t *aes, const gnutls_datum_t *hmac);
/* Overwrites and frees the keys; NULL is allowed. */
void one_pass_keys_free(struct one_pass_keys *keys);

/* The initial vector is zero. */
void one_pass_begin(struct one_pass *pass, const struct one_pass_keys *keys);
/* Does all chunks that are left of both passes, which share keys; `other` may be NULL. */
void one_pass_run(struct one_pass *pass, struct one_pass *other);
/* Writes the HMAC of all chunks and these last bytes, at most a chunk. */
void one_pass_sum(struct one_pass *pass, const uint8_t *rest, size_t length, uint8_t hmac[20]);

/*
 * --- krb5_cts.c: AES in CBC mode with ciphertext stealing ---
 *
 * The last two blocks are swapped (RFC 3962, 5): ciphertext is as long as plaintext. The initial
 * vector is zero.
 */

/* The keys that encrypt a message, and make the HMAC of its plaintext. */
struct cts_keys {
	gnutls_cipher_hd_t cipher;
	gnutls_hmac_hd_t hmac;		      /* NULL: no HMAC */
	const struct one_pass_keys *one_pass; /* of both; NULL: GnuTLS does all the work */
};

/* Encrypts a stream of bytes: whole chunks without a copy; the rest is kept. */
struct cts_stream {
	struct cts_keys keys;
	struct one_pass pass;
	uint8_t *at; /* where the next ciphertext is written */
	uint8_t kept[ONE_PASS_CHUNK];
	uint32_t length; /* bytes kept */
	bool failed;
};

/* Without `one_pass` no other stream may use the keys until cts_end(). With it, the bytes given to
 * cts_put() must stay unchanged until then, and one_pass_run() may run two streams together. */
void cts_begin(struct cts_stream *stream, struct cts_keys keys, uint8_t *to);
void cts_put(struct cts_stream *stream, const void *bytes, size_t length);
/* Ends a message of at least two blocks. Sets stream->at to the ciphertext's end, and writes `hmac`
 * if there is a key for it. False: the crypto library failed. */
bool cts_end(struct cts_stream *stream, uint8_t *hmac);

/* Decrypts in place, at least two blocks, in any parts. False: the crypto library failed. */
bool cts_decrypt(gnutls_cipher_hd_t cipher, const struct iovec *parts, int count);

/* --- krb5_keys.c --- */

enum {
	KRB5_HMAC_MAX = 48, /* of SHA-384, before truncation to a checksum */
	KRB5_SIDES = 2
};

/* An encryption type (RFC 3962, RFC 8009); sizes in bytes. */
struct krb5_enctype {
	const char *name;
	uint32_t key_size; /* of the context's key and of Ke */
	gnutls_cipher_algorithm_t cipher;
	uint32_t hmac_key_size, checksum_size;
	gnutls_mac_algorithm_t hmac;
	bool sha2; /* RFC 8009: keys are derived by HMAC, and the HMAC is of the ciphertext */
};

/* The keys of one side's messages. */
struct krb5_side_keys {
	gnutls_hmac_hd_t sign;	   /* Kc of usage "sign": MIC tokens */
	gnutls_hmac_hd_t seal;	   /* Ki of usage "seal": Wrap tokens */
	gnutls_cipher_hd_t cipher; /* Ke of usage "seal" */
	/* Ke and Ki, for RFC 3962 on a processor with AES and SHA; NULL: GnuTLS wraps. */
	struct one_pass_keys *one_pass;
};

struct krb5_keys {
	const struct krb5_enctype *enctype;
	bool acceptor_subkey;
	struct krb5_side_keys sides[KRB5_SIDES];
	struct cts_stream waiting; /* if `waits`: a message to encrypt together with the next one */
	bool waits;
};
