/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/krb5_keys.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

enum { KEY_MAX = 32, CONSTANT = 5, CONSTANT_BITS = 8 * CONSTANT };

/* RFC 3961, 5.3 */
enum purpose { CHECKSUM = 0x99, ENCRYPTION = 0xaa, INTEGRITY = 0x55 };

/* RFC 4121, 2 */
static const struct {
	uint32_t seal, sign;
} usages[KRB5_SIDES] = {
	[KRB5_INITIATOR] = {.seal = 24, .sign = 25},
	[KRB5_ACCEPTOR] = {.seal = 22, .sign = 23},
};

#define AES_128 16, GNUTLS_CIPHER_AES_128_CBC
#define AES_256 32, GNUTLS_CIPHER_AES_256_CBC

static const struct krb5_enctype enctypes[] = {
	[17] = {"aes128-cts-hmac-sha1-96", AES_128, 16, 12, GNUTLS_MAC_SHA1, false},
	[18] = {"aes256-cts-hmac-sha1-96", AES_256, 32, 12, GNUTLS_MAC_SHA1, false},
	[19] = {"aes128-cts-hmac-sha256-128", AES_128, 16, 16, GNUTLS_MAC_SHA256, true},
	[20] = {"aes256-cts-hmac-sha384-192", AES_256, 24, 24, GNUTLS_MAC_SHA384, true},
};

/* --- derivation --- */

/* n-fold of a key's constant to a block (RFC 3961, 5.1): the one's complement sum of copies, each
 * rotated by 13 bits more than the one before. */
static void fold(uint64_t constant, uint8_t block[CTS_BLOCK])
{
	uint32_t sums[CTS_BLOCK] = {0}, carry = 0;

	for (uint32_t i = 0; i < CTS_BLOCK * CONSTANT; i++) {
		uint32_t turned = 13 * (i / CONSTANT) % CONSTANT_BITS;
		uint64_t copy = constant >> turned | constant << (CONSTANT_BITS - turned);

		sums[i % CTS_BLOCK] += copy >> 8 * (CONSTANT - 1 - i % CONSTANT) & 0xff;
	}
	do {
		for (int i = CTS_BLOCK - 1; i >= 0; i--) {
			carry += sums[i];
			sums[i] = carry & 0xff;
			carry >>= 8;
		}
	} while (carry);
	for (int i = 0; i < CTS_BLOCK; i++)
		block[i] = (uint8_t)sums[i];
}

/* DK (RFC 3961, 5.1): each block is the encryption of the previous one. */
static int derive_sha1(const struct krb5_enctype *enctype, const gnutls_datum_t *base,
		       uint64_t constant, uint8_t key[KEY_MAX])
{
	uint8_t iv[CTS_BLOCK] = {0}, block[CTS_BLOCK];
	gnutls_cipher_hd_t cipher;
	int error = gnutls_cipher_init(&cipher, enctype->cipher, base, NULL);

	if (error)
		return error;
	fold(constant, block);
	for (uint32_t i = 0; !error && i < base->size; i += CTS_BLOCK) {
		gnutls_cipher_set_iv(cipher, iv, sizeof(iv));
		error = gnutls_cipher_encrypt(cipher, block, sizeof(block));
		memcpy(key + i, block, sizeof(block));
	}
	gnutls_memset(block, 0, sizeof(block));
	gnutls_cipher_deinit(cipher);
	return error;
}

/* KDF-HMAC-SHA2 (RFC 8009, 3); one iteration gives enough bytes. */
static int derive_sha2(const struct krb5_enctype *enctype, const gnutls_datum_t *base,
		       uint64_t constant, uint32_t size, uint8_t key[KEY_MAX])
{
	struct {
		uint32_t turn;
		uint8_t label[CONSTANT], zero;
		uint32_t bits;
	} __attribute__((packed)) input = {.turn = htobe32(1), .bits = htobe32(8 * size)};
	uint8_t digest[KRB5_HMAC_MAX];
	int error;

	constant = htobe64(constant << (64 - CONSTANT_BITS));
	memcpy(input.label, &constant, CONSTANT);
	error = gnutls_hmac_fast(enctype->hmac, base->data, base->size, &input, sizeof(input),
				 digest);
	if (!error)
		memcpy(key, digest, size);
	gnutls_memset(digest, 0, sizeof(digest));
	return error;
}

static int derive(const struct krb5_enctype *enctype, const gnutls_datum_t *base, uint32_t usage,
		  enum purpose purpose, gnutls_datum_t *key)
{
	uint64_t constant = (uint64_t)usage << 8 | purpose;

	key->size = purpose == ENCRYPTION ? enctype->key_size : enctype->hmac_key_size;
	if (enctype->sha2)
		return derive_sha2(enctype, base, constant, key->size, key->data);
	return derive_sha1(enctype, base, constant, key->data);
}

/* --- handles --- */

static int hmac_new(gnutls_hmac_hd_t *hmac, const struct krb5_enctype *enctype,
		    const gnutls_datum_t *key)
{
	int error = gnutls_hmac_init(hmac, enctype->hmac, key->data, key->size);

	if (error)
		*hmac = NULL; /* GnuTLS has freed it */
	return error;
}

static int cipher_new(gnutls_cipher_hd_t *cipher, const struct krb5_enctype *enctype,
		      const gnutls_datum_t *key)
{
	int error = gnutls_cipher_init(cipher, enctype->cipher, key, NULL);

	if (error)
		*cipher = NULL; /* the same */
	return error;
}

static int side_init(struct krb5_keys *keys, enum krb5_side number, const gnutls_datum_t *base)
{
	const struct krb5_enctype *enctype = keys->enctype;
	struct krb5_side_keys *side = &keys->sides[number];
	const uint32_t sign_usage = usages[number].sign, seal_usage = usages[number].seal;
	uint8_t bytes[3][KEY_MAX];
	gnutls_datum_t sign = {.data = bytes[0]}, seal = {.data = bytes[1]};
	gnutls_datum_t cipher = {.data = bytes[2]};
	int error = derive(enctype, base, sign_usage, CHECKSUM, &sign)
			    ?: derive(enctype, base, seal_usage, INTEGRITY, &seal)
			    ?: derive(enctype, base, seal_usage, ENCRYPTION, &cipher)
			    ?: hmac_new(&side->sign, enctype, &sign)
			    ?: hmac_new(&side->seal, enctype, &seal)
			    ?: cipher_new(&side->cipher, enctype, &cipher);

	if (!error && enctype->hmac == GNUTLS_MAC_SHA1)
		side->one_pass = one_pass_keys_new(&cipher, &seal); /* or NULL */
	gnutls_memset(bytes, 0, sizeof(bytes));
	return error;
}

int krb5_keys_new(struct krb5_keys **keys, uint32_t enctype, const uint8_t *key, uint32_t length,
		  bool acceptor_subkey)
{
	const gnutls_datum_t base = {(uint8_t *)key, length};
	struct krb5_keys *made;
	int error = 0;

	if (enctype >= ARRAY_SIZE(enctypes) || !enctypes[enctype].name)
		return -ENOTSUP;
	if (length != enctypes[enctype].key_size)
		return -EINVAL;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	made->enctype = &enctypes[enctype];
	made->acceptor_subkey = acceptor_subkey;
	for (int i = 0; !error && i < KRB5_SIDES; i++)
		error = side_init(made, i, &base);
	if (error) {
		krb5_keys_free(made);
		return error == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -ENOTSUP;
	}
	*keys = made;
	return 0;
}

void krb5_keys_free(struct krb5_keys *keys)
{
	if (!keys)
		return;
	/* GnuTLS overwrites the handles' keys. */
	for (int i = 0; i < KRB5_SIDES; i++) {
		struct krb5_side_keys *side = &keys->sides[i];

		if (side->sign)
			gnutls_hmac_deinit(side->sign, NULL);
		if (side->seal)
			gnutls_hmac_deinit(side->seal, NULL);
		if (side->cipher)
			gnutls_cipher_deinit(side->cipher);
		one_pass_keys_free(side->one_pass);
	}
	gnutls_memset(keys, 0, sizeof(*keys)); /* may hold plaintext of a waiting message */
	free(keys);
}
