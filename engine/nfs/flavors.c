/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/flavors.h"

#include <string.h>

#include "pool/pool.h"
#include "wire/credentials.h"
#include "wire/rpcsec_gss.h"

enum { PSEUDO_KRB5 = 390003, PSEUDO_KRB5P = 390005 }; /* krb5i lies between them */

void flavors_add(struct flavors *flavors, uint32_t number)
{
	if (number == RPC_AUTH_NONE)
		flavors->none = true;
	else if (number == RPC_AUTH_SYS)
		flavors->known |= 1u << SEC_SYS;
	else if (number >= PSEUDO_KRB5 && number <= PSEUDO_KRB5P)
		flavors->known |= 1u << (SEC_KRB5 + (number - PSEUDO_KRB5));
}

uint32_t flavors_pseudo(const void *oid, size_t length, uint32_t service)
{
	/* 1.2.840.113554.1.2.2 (RFC 4121, 1) */
	static const uint8_t kerberos[] = {0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02};

	if (length != sizeof(kerberos) || memcmp(oid, kerberos, length) != 0 ||
	    service < GSS_SERVICE_NONE || service > GSS_SERVICE_PRIVACY)
		return RPC_GSS;
	return PSEUDO_KRB5 + (service - GSS_SERVICE_NONE);
}
