/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attributes.h - NFSv4.1's attributes (RFC 8881, 5): those that clients of the sink ask for. A set
 * of them is a number here, whose bit N is attribute N.
 */
#pragma once

#include "nfs4.h"
#include "service.h"

/* Attributes from 64 on are forgotten. */
uint64_t attributes_get_set(struct xdr_in *in);
void attributes_put_set(struct xdr_out *out, uint64_t set);

/* Those of `asked` that there are. */
void attributes_put(const struct service *service, struct xdr_out *out, uint32_t file,
		    uint64_t asked);

/* What a client sets, of which only the size means anything here; OK, or ATTRNOTSUPP. */
uint32_t attributes_get(struct xdr_in *in, uint64_t *set, uint64_t *size);

static inline uint64_t attribute(uint32_t number)
{
	return 1ull << number;
}
