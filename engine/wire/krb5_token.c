/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/krb5_token.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>

#include "wire/krb5_keys.h"

/* RFC 4121, 4.2.2 */
enum { SENT_BY_ACCEPTOR = 1, SEALED = 2, ACCEPTOR_SUBKEY = 4, KNOWN_FLAGS = 7 };

/* RFC 4121, 4.2.6; numbers are big-endian. In a MIC token EC and RRC are filler as well. */
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

/* Unknown flags are ignored (RFC 4121, 4.2.2). */
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

/* Writes the HMAC of parts and `last`: the checksum is its beginning. Always resets `hmac`. */
static bool sum_parts(gnutls_hmac_hd_t hmac, const struct iovec *parts, int count, const void *last,
		      size_t last_length, uint8_t sum[KRB5_HMAC_MAX])
{
	bool added = add_parts(hmac, parts, count) && !gnutls_hmac(hmac, last, last_length);

	gnutls_hmac_output(hmac, sum);
	return added;
}

/* The HMAC of the plaintext (RFC 3962), or of IV and ciphertext (RFC 8009). */
static bool sum_text(const struct krb5_keys *keys, enum krb5_side side, const struct iovec *parts,
		     int count, uint8_t sum[KRB5_HMAC_MAX])
{
	static uint8_t iv[CTS_BLOCK];
	const struct iovec front = {iv, sizeof(iv)};
	gnutls_hmac_hd_t hmac = keys->sides[side].seal;
	bool begun = add_parts(hmac, &front, keys->enctype->sha2);
	bool added = add_parts(hmac, parts, count);

	gnutls_hmac_output(hmac, sum);
	return begun && added;
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

/* Ends the stream whose text begins at `text`, and writes the checksum behind it. */
static bool end_text(const struct krb5_keys *keys, enum krb5_side side, struct cts_stream *stream,
		     uint8_t *text)
{
	uint8_t sum[KRB5_HMAC_MAX];
	bool made = cts_end(stream, sum);

	if (keys->enctype->sha2) {
		const struct iovec sealed = {text, stream->at - text};

		made = sum_text(keys, side, &sealed, 1, sum) && made;
	}
	memcpy(stream->at, sum, keys->enctype->checksum_size);
	return made;
}

bool krb5_wrap(struct krb5_keys *keys, enum krb5_side side, uint64_t sequence,
	       const struct iovec *parts, int count, uint8_t *token)
{
	const struct krb5_side_keys *own = &keys->sides[side];
	const struct cts_keys with = {
		.cipher = own->cipher,
		.hmac = keys->enctype->sha2 ? NULL : own->seal,
		.one_pass = own->one_pass,
	};
	const struct header header = {
		.id = {wrap_id[0], wrap_id[1]},
		.flags = SEALED | flags_of(keys, side),
		.filler = FILLER,
		.sequence = htobe64(sequence),
	};
	uint8_t confounder[CONFOUNDER];
	struct cts_stream stream;

	if (gnutls_rnd(GNUTLS_RND_NONCE, confounder, sizeof(confounder)))
		return false;
	memcpy(token, &header, HEADER);
	cts_begin(&stream, with, token + HEADER);
	cts_put(&stream, confounder, sizeof(confounder));
	for (int i = 0; i < count; i++)
		cts_put(&stream, parts[i].iov_base, parts[i].iov_len);
	cts_put(&stream, &header, HEADER);
	if (own->one_pass && !keys->waits) {
		keys->waiting = stream;
		keys->waits = true;
		return true;
	}
	if (keys->waits)
		one_pass_run(&stream.pass, &keys->waiting.pass);
	return end_text(keys, side, &stream, token + HEADER) && krb5_wrap_end(keys);
}

bool krb5_wrap_end(struct krb5_keys *keys)
{
	if (!keys || !keys->waits)
		return true;
	keys->waits = false;
	return end_text(keys, KRB5_INITIATOR, &keys->waiting, NULL);
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

/* Where the last of these parts ends. */
static uint8_t *end_of(const struct iovec *parts, int count)
{
	return (uint8_t *)parts[count - 1].iov_base + parts[count - 1].iov_len;
}

/* True if the checksum behind these parts is right. */
static bool sum_ok(const struct krb5_keys *keys, enum krb5_side side, const struct iovec *text,
		   int count)
{
	uint8_t sum[KRB5_HMAC_MAX];

	return sum_text(keys, side, text, count, sum) &&
	       !gnutls_memcmp(sum, end_of(text, count), keys->enctype->checksum_size);
}

bool krb5_unwrap(struct krb5_keys *keys, enum krb5_side side, uint8_t *token, uint32_t length,
		 uint8_t **plain, uint32_t *plain_length)
{
	const struct iovec whole = {token, length};
	uint32_t size = krb5_wrap_size(keys), extra;
	struct header header;

	if (length < size)
		return false;
	memcpy(&header, token, HEADER);
	rotate_left(token + HEADER, length - HEADER, be16toh(header.right_rotation));
	header.right_rotation = 0; /* as it was encrypted */
	memcpy(token, &header, HEADER);
	extra = be16toh(header.extra_count);
	*plain = token + KRB5_WRAP_FRONT;
	*plain_length = length - size - extra;
	return extra <= length - size && krb5_unwrap_parts(keys, side, &whole, 1);
}

uint32_t krb5_wrap_front(const uint8_t *token, uint32_t have)
{
	struct header header;

	if (have < HEADER)
		return 0;
	memcpy(&header, token, HEADER);
	return header.extra_count || header.right_rotation ? 0 : KRB5_WRAP_FRONT;
}

bool krb5_unwrap_parts(struct krb5_keys *keys, enum krb5_side side, const struct iovec *parts,
		       int count)
{
	gnutls_cipher_hd_t cipher = keys->sides[side].cipher;
	struct iovec text[KRB5_PARTS_MAX];
	struct header header;
	bool opened;

	memcpy(text, parts, count * sizeof(*parts));
	memcpy(&header, text[0].iov_base, HEADER);
	text[0].iov_base = (uint8_t *)text[0].iov_base + HEADER;
	text[0].iov_len -= HEADER;
	text[count - 1].iov_len -= keys->enctype->checksum_size;
	if (!header_ok(&header, wrap_id, SEALED | flags_of(keys, side)))
		return false;
	opened = keys->enctype->sha2
			 ? sum_ok(keys, side, text, count) && cts_decrypt(cipher, text, count)
			 : cts_decrypt(cipher, text, count) && sum_ok(keys, side, text, count);
	return opened && !memcmp(end_of(text, count) - HEADER, &header, HEADER);
}
