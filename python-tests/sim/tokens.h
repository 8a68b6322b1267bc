/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tokens.h - Kerberos's tokens (engine/wire/krb5_token.h) in the simulator, for both sides, by
 * --wrap: a sum and a cipher that cost next to nothing, by a context's key. They refuse what is
 * changed or another context's, and keep no secret.
 */
#pragma once

#include "wire/krb5_token.h"

enum { TOKEN_MIC = 8, TOKEN_WRAP = 8 }; /* bytes of a MIC, and those that a message grows by */

struct krb5_keys {
	uint64_t key; /* of the context; 0: there is none */
};

/* What both ends make of the two halves of a key. */
uint64_t token_key(uint64_t client, uint64_t server);
