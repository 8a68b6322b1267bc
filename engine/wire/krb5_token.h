/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * krb5_token.h - the Kerberos mechanism's per-message tokens (RFC 4121, 4.2): MIC and Wrap, for the
 * AES encryption types of RFC 3962 and RFC 8009. Pure: no Kerberos library, no KDC, nothing that
 * blocks. Only krb5_keys_new() allocates. Parts may be empty.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* A message's sender: each side has its own keys. */
enum krb5_side { KRB5_INITIATOR, KRB5_ACCEPTOR };

enum {
	KRB5_MIC_MAX = 40,	 /* bytes of the longest MIC token */
	KRB5_WRAP_FRONT = 32,	 /* of a Wrap token, before its plaintext: header and confounder */
	KRB5_WRAP_BACK_MAX = 40, /* of a Wrap token, behind its plaintext, at most */
	KRB5_PARTS_MAX = 3
};

/* The keys derived from a context's key. */
struct krb5_keys;

/*
 * `enctype` is IANA's number: 17 to 20. `acceptor_subkey`: the acceptor chose the key, as tokens
 * must say. 0, -ENOMEM, -EINVAL (the key's length) or -ENOTSUP (another enctype, or the crypto
 * library refuses it).
 */
int krb5_keys_new(struct krb5_keys **keys, uint32_t enctype, const uint8_t *key, uint32_t length,
		  bool acceptor_subkey);
/* Overwrites and frees the keys; NULL is allowed. */
void krb5_keys_free(struct krb5_keys *keys);

uint32_t krb5_mic_size(const struct krb5_keys *keys);
/* Bytes by which a Wrap token is longer than its plaintext. */
uint32_t krb5_wrap_size(const struct krb5_keys *keys);

/* Writes krb5_mic_size() bytes. False: the crypto library failed. */
bool krb5_mic(struct krb5_keys *keys, enum krb5_side side, uint64_t sequence,
	      const struct iovec *parts, int count, uint8_t *mic);
/* True where `mic` is a token of `side` for these bytes, with any sequence number. */
bool krb5_mic_ok(struct krb5_keys *keys, enum krb5_side side, const struct iovec *parts, int count,
		 const uint8_t *mic, uint32_t length);

/*
 * Encrypts `parts`, which do not change, into `token`, which is longer by krb5_wrap_size() bytes.
 * May put off the work until the side's next message: parts and token must stay valid until
 * krb5_wrap_end(). False: the crypto library failed.
 */
bool krb5_wrap(struct krb5_keys *keys, enum krb5_side side, uint64_t sequence,
	       const struct iovec *parts, int count, uint8_t *token);
/* Finishes an unfinished krb5_wrap(). False: the crypto library failed. NULL is allowed. */
bool krb5_wrap_end(struct krb5_keys *keys);
/*
 * Decrypts a token in place; *plain is where its plaintext begins. False if the token is not from
 * `side` with confidentiality, or its checksum is wrong: then no part of it may be used.
 */
bool krb5_unwrap(struct krb5_keys *keys, enum krb5_side side, uint8_t *token, uint32_t length,
		 uint8_t **plain, uint32_t *plain_length);

/* Returns KRB5_WRAP_FRONT if the token is not rotated and has no filler; else, or while its header
 * is incomplete, 0. */
uint32_t krb5_wrap_front(const uint8_t *token, uint32_t have);
/* krb5_unwrap() of such a token in at most KRB5_PARTS_MAX parts. All bytes before the plaintext lie
 * in the first part, all bytes behind it in the last one. */
bool krb5_unwrap_parts(struct krb5_keys *keys, enum krb5_side side, const struct iovec *parts,
		       int count);
