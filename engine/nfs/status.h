/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * status.h - turns nfsstat3 (RFC 1813, 2.6) and nfsstat4 (RFC 8881, 15.1) into errnos and names,
 * and the numbers of security flavors into values of enum path_sec.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who reported an error, which the errno alone does not tell. */
enum answer {
	ANSWER_NONE,   /* neither of the others; nfs/names.h uses it for RPC's errors, too */
	ANSWER_RPC,    /* the server's RPC, instead of results (RFC 5531, 9) */
	ANSWER_STATUS, /* NFS, or MOUNT */
};

/* The statuses that the client handles specially. */
enum nfs3_special {
	NFS3_STATUS_BAD_COOKIE = 10003,
	NFS3_STATUS_JUKEBOX = 10008,
};

/* Some NFSv3 servers also return GRACE while clients reclaim locks (RFC 7530, 13.1.9). */
enum nfs4_special { NFS4_STATUS_GRACE = 10013 };

/* The errno of a status; 0 for NFS3_OK and NFS4_OK, EIO for a value that the RFC lacks. */
int nfs3_errno(uint32_t status);
int nfs4_errno(uint32_t status);

/* True for JUKEBOX and GRACE, after which the call is sent again later. */
bool nfs3_asks_to_wait(uint32_t status);

/* The RFC's name. */
const char *nfs3_status_name(uint32_t status);
const char *nfs4_status_name(uint32_t status);

/* --- the security flavors that a server lists for an export --- */

/* The flavors that a job can use. */
struct flavors {
	uint32_t known; /* bit N: the enum path_sec of that value */
	bool none;	/* AUTH_NONE, which clients read as "any flavor" */
};

/* Adds a flavor by its number in MOUNT: RPC's (RFC 5531, 8.2), or a pseudo flavor (RFC 2623). */
void flavors_add(struct flavors *flavors, uint32_t number);

/* The pseudo flavor of RPCSEC_GSS's mechanism `oid` (without ASN.1's tag and length) and `service`;
 * RPCSEC_GSS's own number where a job cannot use them. */
uint32_t flavors_pseudo(const void *oid, size_t length, uint32_t service);
