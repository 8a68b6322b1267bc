/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tokens.h - what a simulated mechanism of GSS-API protects messages by: a sum and a cipher that
 * cost next to nothing, by a context's key. They refuse what is changed or another context's, and
 * keep no secret.
 */
#pragma once

#include "wire/krb5_token.h"

enum { TOKEN_MIC = 8, TOKEN_WRAP = 8 }; /* bytes of a MIC, and those that a message grows by */

/* What both ends make of the two halves of a key; each end has a key of its own of it. */
uint64_t token_key(uint64_t client, uint64_t server);
static inline uint64_t token_client_key(uint64_t key)
{
	return key;
}
static inline uint64_t token_server_key(uint64_t key)
{
	return ~key;
}

void token_mic(uint64_t key, const struct iovec *parts, int count, uint8_t *mic);
bool token_mic_ok(uint64_t key, const struct iovec *parts, int count, const uint8_t *mic,
		  uint32_t length);

/* The parts as one token; decrypted in place. */
void token_wrap(uint64_t key, const struct iovec *parts, int count, uint8_t *token);
bool token_unwrap(uint64_t key, uint8_t *token, uint32_t length, uint8_t **plain,
		  uint32_t *plain_length);
/* The same of a token in three parts at most; the first has more than TOKEN_WRAP bytes. */
bool token_unwrap_parts(uint64_t key, const struct iovec *parts, int count);

/* In the place of Kerberos' keys: tokens.c has its tokens (engine/wire/krb5_token.h) by --wrap. */
struct krb5_keys {
	uint64_t key; /* of the context; 0: there is none */
};
