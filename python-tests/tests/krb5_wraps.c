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
		const struct iovec *own = parts + PARTS * i;

		agree = peer_agrees(keys, KRB5_INITIATOR, tokens[i], length_of(keys, own), own,
				    PARTS) &&
			agree;
		free(tokens[i]);
	}
	return agree;
}
