/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * krb5_one_pass.h - AES-CBC encryption and HMAC-SHA1 of the same bytes side by side, of one
 * message or two, by the instructions of x86-64. Each step waits for the step before; meanwhile the
 * processor works on the other algorithm, or on the other message.
 */
#pragma once

#include <gnutls/gnutls.h>
#include <stdint.h>

enum { ONE_PASS_CHUNK = 64, ONE_PASS_BLOCK = 16 };

/* The expanded keys of both. */
struct one_pass_keys;

/* A message. */
struct one_pass {
	const struct one_pass_keys *keys;
	uint8_t chain[ONE_PASS_BLOCK]; /* the last ciphertext */
	uint8_t sum[2 * ONE_PASS_BLOCK];
	uint64_t summed; /* bytes, with the HMAC's own chunk */

	/* Whole chunks to be done next; `to` does not overlap them. */
	const uint8_t *from;
	uint8_t *to;
	size_t left; /* bytes */
};

/* Keys of AES-128 or AES-256, and of HMAC up to a chunk. NULL: the processor lacks the
 * instructions, or there is no memory. */
struct one_pass_keys *one_pass_keys_new(const gnutls_datum_t *aes, const gnutls_datum_t *hmac);
/* Overwrites them; NULL is allowed. */
void one_pass_keys_free(struct one_pass_keys *keys);

/* The initial vector is zero. */
void one_pass_begin(struct one_pass *pass, const struct one_pass_keys *keys);
/* Does the chunks left of both, which have the same keys; `other` may be NULL. */
void one_pass_run(struct one_pass *pass, struct one_pass *other);
/* The HMAC of all chunks and of these last bytes, a chunk at most. */
void one_pass_sum(struct one_pass *pass, const uint8_t *rest, size_t length, uint8_t hmac[20]);
