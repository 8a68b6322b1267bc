/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * krb5_keys.h - the keys by which krb5_token.c makes and checks tokens: derived from a context's
 * key for the usages of RFC 4121 (2), each in a handle of GnuTLS that serves all messages.
 */
#pragma once

#include <gnutls/crypto.h>

#include "wire/krb5_cts.h"
#include "wire/krb5_token.h"

enum {
	KRB5_HMAC_MAX = 48, /* of SHA-384, before it is cut to a checksum */
	KRB5_SIDES = 2
};

/* An encryption type (RFC 3962, RFC 8009); sizes in bytes. */
struct krb5_enctype {
	uint32_t number;
	uint32_t key_size; /* of the context's key and of Ke */
	uint32_t hmac_key_size;
	uint32_t checksum_size;
	gnutls_cipher_algorithm_t cipher;
	gnutls_mac_algorithm_t hmac;
	bool sha2; /* RFC 8009: keys are derived by HMAC, and the HMAC is of the ciphertext */
};

/* The keys of one side's messages. */
struct krb5_side_keys {
	gnutls_hmac_hd_t sign;	   /* Kc of usage "sign": MIC tokens */
	gnutls_hmac_hd_t seal;	   /* Ki of usage "seal": Wrap tokens */
	gnutls_cipher_hd_t cipher; /* Ke of usage "seal" */
	/* Ke and Ki, where the processor has instructions for SHA-1; NULL: GnuTLS wraps. */
	struct one_pass_keys *one_pass;
};

struct krb5_keys {
	const struct krb5_enctype *enctype;
	bool acceptor_subkey;
	struct krb5_side_keys sides[KRB5_SIDES];
	struct cts_stream waiting; /* if `waits`: a message to encrypt together with the next */
	bool waits;
};
