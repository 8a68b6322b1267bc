/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/status.h"

#include <string.h>

#include "pool/pool.h"
#include "util.h"
#include "wire/credentials.h"
#include "wire/rpcsec_gss.h"

enum { V3, V4 };

struct status {
	uint32_t value;
	int error;
	const char *names[2]; /* by V3 and V4; NULL: that version has no such value */
};

#define BOTH_NAMES(value, error, name) {value, error, {"NFS3ERR_" #name, "NFS4ERR_" #name}},
#define V3_NAME(value, error, name)    {value, error, {"NFS3ERR_" #name, NULL}},
#define V4_NAME(value, error, name)    {value, error, {NULL, "NFS4ERR_" #name}},

static const struct status statuses[] = {{0, 0, {"NFS3_OK", "NFS4_OK"}},
					 {NFS4ERR_GRACE, EAGAIN, {"NFS4ERR_GRACE", NULL}},
					 NFS_STATUSES(BOTH_NAMES, V3_NAME, V4_NAME)};

static const struct status unknown = {0, EIO, {"an unknown nfsstat3", "an unknown nfsstat4"}};

static const struct status *find(uint32_t value, int version)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].value == value && statuses[i].names[version])
			return &statuses[i];
	return &unknown;
}

int nfs3_errno(uint32_t status)
{
	return find(status, V3)->error;
}

int nfs4_errno(uint32_t status)
{
	return find(status, V4)->error;
}

const char *nfs3_status_name(uint32_t status)
{
	return find(status, V3)->names[V3];
}

const char *nfs4_status_name(uint32_t status)
{
	return find(status, V4)->names[V4];
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
