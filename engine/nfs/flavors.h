/* SPDX-License-Identifier: GPL-2.0-only */
/* flavors.h - the security flavors that an export takes, as its server lists them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Those that jobs have. */
struct flavors {
	uint32_t known; /* bit N: the enum path_sec of that value */
	bool none;	/* AUTH_NONE: as clients read it, any flavor will do */
};

/* Adds one by its number: RPC's (RFC 5531, 8.2), or a pseudo flavor (RFC 2623), as MOUNT has it. */
void flavors_add(struct flavors *flavors, uint32_t number);

/* The pseudo flavor of a mechanism (its OID, without ASN.1's tag and length) and service of
 * RPCSEC_GSS; RPCSEC_GSS's own number where it has none that jobs know. */
uint32_t flavors_pseudo(const void *oid, size_t length, uint32_t service);
