/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/krb5_token.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>

#include "wire/krb5_cts.h"
#include "wire/krb5_keys.h"

/* RFC 4121, 4.2.2 */
enum { SENT_BY_ACCEPTOR = 1, SEALED = 2, ACCEPTOR_SUBKEY = 4, KNOWN_FLAGS = 7 };

/* RFC 4121, 4.2.6; numbers are big-endian. In a MIC token EC and RRC are filler, too. */
struct header {
	uint8_t id[2], flags, filler;
	uint16_t extra_count, right_rotation;
	uint64_t sequence;
};

enum { HEADER = sizeof(struct header), CONFOUNDER = CTS_BLOCK, FILLER = 0xff };

_Static_assert(HEADER + CONFOUNDER == KRB5_WRAP_FRONT, "before the plaintext");

static const uint8_t mic_id[2] = {4, 4}, wrap_id[2] = {5, 4};

/* --- headers --- */

static uint8_t flags_of(const struct krb5_keys *keys, enum krb5_side side)
{
	return (side == KRB5_ACCEPTOR ? SENT_BY_ACCEPTOR : 0) |
	       (keys->acceptor_subkey ? ACCEPTOR_SUBKEY : 0);
}

/* Bits that are not known are not looked at (RFC 4121, 4.2.2). */
static bool header_ok(const struct header *header, const uint8_t id[2], uint8_t flags)
{
	return !memcmp(header->id, id, sizeof(header->id)) &&
	       (header->flags & KNOWN_FLAGS) == flags && header->filler == FILLER;
}

/* --- checksums --- */

static bool add_parts(gnutls_hmac_hd_t hmac, const struct iovec *parts, int count)
{
	for (int i = 0; i < count; i++) {
		if (parts[i].iov_len && gnutls_hmac(hmac, parts[i].iov_base, parts[i].iov_len))
			return false;
	}
	return true;
}

/* The HMAC of these parts, of which the checksum is the front. A sum that was begun is ended. */
static bool sum_parts(gnutls_hmac_hd_t hmac, const struct iovec *parts, int count, const void *last,
		      size_t last_length, uint8_t sum[KRB5_HMAC_MAX])
{
	bool added = add_parts(hmac, parts, count) && !gnutls_hmac(hmac, last, last_length);

	gnutls_hmac_output(hmac, sum);
	return added;
}

/* Of what is encrypted (RFC 3962), or of IV and ciphertext (RFC 8009). */
static bool sum_text(const struct krb5_keys *keys, enum krb5_side side, const uint8_t *bytes,
		     size_t length, uint8_t sum[KRB5_HMAC_MAX])
{
	static uint8_t iv[CTS_BLOCK];
	const struct iovec front = {iv, sizeof(iv)};

	return sum_parts(keys->sides[side].seal, &front, keys->enctype->sha2, bytes, length, sum);
}

/* --- MIC --- */

uint32_t krb5_mic_size(const struct krb5_keys *keys)
{
	return HEADER + keys->enctype->checksum_size;
}

bool krb5_mic(struct krb5_keys *keys, enum krb5_side side, uint64_t sequence,
	      const struct iovec *parts, int count, uint8_t *mic)
{
	const struct header header = {
		.id = {mic_id[0], mic_id[1]},
		.flags = flags_of(keys, side),
		.filler = FILLER,
		.extra_count = 0xffff,
		.right_rotation = 0xffff,
		.sequence = htobe64(sequence),
	};
	uint8_t sum[KRB5_HMAC_MAX];

	if (!sum_parts(keys->sides[side].sign, parts, count, &header, HEADER, sum))
		return false;
	memcpy(mic, &header, HEADER);
	memcpy(mic + HEADER, sum, keys->enctype->checksum_size);
	return true;
}

bool krb5_mic_ok(struct krb5_keys *keys, enum krb5_side side, const struct iovec *parts, int count,
		 const uint8_t *mic, uint32_t length)
{
	struct header header;
	uint8_t sum[KRB5_HMAC_MAX];

	if (length != krb5_mic_size(keys))
		return false;
	memcpy(&header, mic, HEADER);
	return header_ok(&header, mic_id, flags_of(keys, side)) &&
	       sum_parts(keys->sides[side].sign, parts, count, &header, HEADER, sum) &&
	       !gnutls_memcmp(sum, mic + HEADER, keys->enctype->checksum_size);
}

/* --- Wrap --- */

uint32_t krb5_wrap_size(const struct krb5_keys *keys)
{
	return KRB5_WRAP_FRONT + HEADER + keys->enctype->checksum_size;
}

/* Of what is encrypted (RFC 3962). */
static bool sum_plain(gnutls_hmac_hd_t hmac, const uint8_t confounder[CONFOUNDER],
		      const struct iovec *parts, int count, const struct header *header,
		      uint8_t sum[KRB5_HMAC_MAX])
{
	bool begun = !gnutls_hmac(hmac, confounder, CONFOUNDER);

	return sum_parts(hmac, parts, count, header, HEADER, sum) && begun;
}

bool krb5_wrap(struct krb5_keys *keys, enum krb5_side side, uint64_t sequence,
	       const struct iovec *parts, int count, uint8_t *token)
{
	const struct krb5_side_keys *own = &keys->sides[side];
	const struct header header = {
		.id = {wrap_id[0], wrap_id[1]},
		.flags = SEALED | flags_of(keys, side),
		.filler = FILLER,
		.sequence = htobe64(sequence),
	};
	uint8_t *text = token + HEADER, confounder[CONFOUNDER], sum[KRB5_HMAC_MAX];
	struct cts_stream stream;
	bool encrypted, summed;

	if (gnutls_rnd(GNUTLS_RND_NONCE, confounder, sizeof(confounder)))
		return false;
	cts_begin(&stream, own->cipher, text);
	cts_put(&stream, confounder, sizeof(confounder));
	for (int i = 0; i < count; i++)
		cts_put(&stream, parts[i].iov_base, parts[i].iov_len);
	cts_put(&stream, &header, HEADER);
	encrypted = cts_end(&stream);
	summed = keys->enctype->sha2 ? sum_text(keys, side, text, stream.at - text, sum)
				     : sum_plain(own->seal, confounder, parts, count, &header, sum);
	memcpy(token, &header, HEADER);
	memcpy(stream.at, sum, keys->enctype->checksum_size);
	return encrypted && summed;
}

/* --- Unwrap --- */

static void reverse(uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length / 2; i++) {
		uint8_t byte = bytes[i];

		bytes[i] = bytes[length - 1 - i];
		bytes[length - 1 - i] = byte;
	}
}

static void rotate_left(uint8_t *bytes, size_t length, size_t count)
{
	count %= length;
	if (!count)
		return;
	reverse(bytes, count);
	reverse(bytes + count, length - count);
	reverse(bytes, length);
}

/* True where the checksum behind these bytes is theirs. */
static bool sum_ok(const struct krb5_keys *keys, enum krb5_side side, const uint8_t *text,
		   size_t length)
{
	uint8_t sum[KRB5_HMAC_MAX];

	return sum_text(keys, side, text, length, sum) &&
	       !gnutls_memcmp(sum, text + length, keys->enctype->checksum_size);
}

static bool open_text(const struct krb5_keys *keys, enum krb5_side side, uint8_t *text,
		      size_t length)
{
	gnutls_cipher_hd_t cipher = keys->sides[side].cipher;

	if (keys->enctype->sha2)
		return sum_ok(keys, side, text, length) && cts_decrypt(cipher, text, length);
	return cts_decrypt(cipher, text, length) && sum_ok(keys, side, text, length);
}

bool krb5_unwrap(struct krb5_keys *keys, enum krb5_side side, uint8_t *token, uint32_t length,
		 uint8_t **plain, uint32_t *plain_length)
{
	uint32_t sum_size = keys->enctype->checksum_size, text_length, extra;
	uint8_t *text = token + HEADER;
	struct header header;

	if (length < krb5_wrap_size(keys))
		return false;
	memcpy(&header, token, HEADER);
	if (!header_ok(&header, wrap_id, SEALED | flags_of(keys, side)))
		return false;
	rotate_left(text, length - HEADER, be16toh(header.right_rotation));
	text_length = length - HEADER - sum_size;
	if (!open_text(keys, side, text, text_length))
		return false;
	header.right_rotation = 0; /* as it was encrypted */
	extra = be16toh(header.extra_count);
	*plain = text + CONFOUNDER;
	*plain_length = text_length - CONFOUNDER - HEADER - extra;
	return extra <= text_length - CONFOUNDER - HEADER &&
	       !memcmp(text + text_length - HEADER, &header, HEADER);
}
