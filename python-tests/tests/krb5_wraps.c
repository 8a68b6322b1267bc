/* SPDX-License-Identifier: GPL-2.0-only */
/* krb5_wraps.c - which of two ways makes Wrap tokens, for tests of both. */
#include "wire/krb5_keys.h"

bool krb5_in_one_pass(const struct krb5_keys *keys);
void krb5_by_gnutls(struct krb5_keys *keys);

bool krb5_in_one_pass(const struct krb5_keys *keys)
{
	return keys->sides[KRB5_INITIATOR].one_pass;
}

void krb5_by_gnutls(struct krb5_keys *keys)
{
	for (int side = 0; side < 2; side++) {
		one_pass_keys_free(keys->sides[side].one_pass);
		keys->sides[side].one_pass = NULL;
	}
}
