/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attributes4.h - NFSv4.1's attributes (RFC 8881, 5): those that clients ask for. A set of them is
 * a number here, whose bit N is attribute N.
 */
#pragma once

#include "core/call.h"
#include "core/nfs4.h"

static inline uint64_t attribute(uint32_t number)
{
	return 1ull << number;
}

/* Attributes from 64 on are forgotten. */
uint64_t attributes_get_set(struct xdr_in *in);
void attributes_put_set(struct xdr_out *out, uint64_t set);

/* All that can be served: for struct limits. */
uint64_t attributes_all(void);

/* Those of `asked` that the limits have. */
void attributes_put(const struct nfs_call *call, uint64_t file, uint64_t asked);

/* What a client sets, of which only the size means anything here; OK, or ATTRNOTSUPP. */
uint32_t attributes_get(struct xdr_in *in, uint64_t *set, uint64_t *size);
