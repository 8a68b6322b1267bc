/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/status.h"

#include <string.h>

#include "pool/pool.h"
#include "util.h"
#include "wire/credentials.h"
#include "wire/rpcsec_gss.h"

#define V3_ROW(value, error, name) {value, error, "NFS3ERR_" #name},
#define V4_ROW(value, error, name) {value, error, "NFS4ERR_" #name},

static const struct nfs_status statuses3[] = {{NFS3_OK, 0, "NFS3_OK"},
					      {NFS4ERR_GRACE, EAGAIN, "NFS4ERR_GRACE"},
					      NFS_STATUSES(V3_ROW, V3_ROW, NFS_NONE)};
static const struct nfs_status statuses4[] = {{NFS4_OK, 0, "NFS4_OK"},
					      NFS_STATUSES(V4_ROW, NFS_NONE, V4_ROW)};

static const struct nfs_status *find(const struct nfs_status *known, size_t count, uint32_t value,
				     const struct nfs_status *unknown)
{
	for (size_t i = 0; i < count; i++)
		if (known[i].value == value)
			return &known[i];
	return unknown;
}

const struct nfs_status *nfs3_status(uint32_t value)
{
	static const struct nfs_status unknown = {0, EIO, "an unknown nfsstat3"};

	return find(statuses3, ARRAY_SIZE(statuses3), value, &unknown);
}

const struct nfs_status *nfs4_status(uint32_t value)
{
	static const struct nfs_status unknown = {0, EIO, "an unknown nfsstat4"};

	return find(statuses4, ARRAY_SIZE(statuses4), value, &unknown);
}

bool nfs3_asks_to_wait(uint32_t status)
{
	return status == NFS3ERR_JUKEBOX || status == NFS4ERR_GRACE;
}

/* --- security flavors --- */

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
