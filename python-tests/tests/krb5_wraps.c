/* SPDX-License-Identifier: GPL-2.0-only */
/* krb5_wraps.c - messages that are wrapped together, and by GnuTLS, for tests to compare. */
#include "../fuzz/krb5_peer.h"

enum { PARTS = 3, MESSAGES_MAX = 4 };

static uint32_t length_of(const struct krb5_keys *keys, const struct iovec *parts)
{
	size_t length = krb5_wrap_size(keys);

	for (int i = 0; i < PARTS; i++)
		length += parts[i].iov_len;
	return (uint32_t)length;
}

/* True where a token that GnuTLS makes of the same message is the same, and opens to these parts.
 */
static bool agrees(struct krb5_keys *keys, const uint8_t *token, const struct iovec *parts)
{
	uint32_t length = length_of(keys, parts), plain_length, again_length;
	uint8_t *opened = malloc(length), *plain, *again;
	bool agree;

	memcpy(opened, token, length);
	agree = krb5_unwrap(keys, KRB5_INITIATOR, opened, length, &plain, &plain_length);
	for (int i = 0; agree && i < PARTS; i++) {
		agree = !parts[i].iov_len || !memcmp(plain, parts[i].iov_base, parts[i].iov_len);
		plain += parts[i].iov_len;
	}
	again = peer_seal(keys, KRB5_INITIATOR, opened, length - keys->enctype->checksum_size,
			  &again_length);
	agree = agree && again_length == length && !memcmp(again, token, length);
	free(again);
	free(opened);
	return agree;
}

/* Each message has three parts; `choice` is peer_keys()'. 1: GnuTLS makes the same of them all, 0:
 * it does not, -1: the processor cannot do it in one pass. */
int krb5_wraps_agree(uint32_t choice, bool one_pass, const struct iovec *parts, int messages);

int krb5_wraps_agree(uint32_t choice, bool one_pass, const struct iovec *parts, int messages)
{
	struct krb5_keys *keys = peer_keys(choice);
	struct krb5_side_keys *side = &keys->sides[KRB5_INITIATOR];
	struct one_pass_keys *kept = side->one_pass;
	uint8_t *tokens[MESSAGES_MAX];
	bool agree = true;

	if (one_pass && !kept)
		return -1;
	side->one_pass = one_pass ? kept : NULL;
	for (int i = 0; i < messages; i++) {
		const struct iovec *own = parts + PARTS * i;

		tokens[i] = malloc(length_of(keys, own));
		agree = krb5_wrap(keys, KRB5_INITIATOR, 7, own, PARTS, tokens[i]) && agree;
	}
	agree = krb5_wrap_end(keys) && agree;
	side->one_pass = kept;
	for (int i = 0; i < messages; i++) {
		agree = agrees(keys, tokens[i], parts + PARTS * i) && agree;
		free(tokens[i]);
	}
	return agree;
}
