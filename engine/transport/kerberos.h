/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kerberos.h - Kerberos as a mechanism of RPCSEC_GSS: contexts by the system's GSS-API library,
 * messages by wire/krb5_token.h, whose tokens are compared with the library's when a context is
 * made. Needs the library and GnuTLS at build time (HAVE_GSS).
 *
 * The library may wait half a minute for the KDC: it works in a thread of its own, which may
 * outlive the mechanism.
 */
#pragma once

#include "wire/gss_mechanism.h"

/* The strings are the owner's, and outlive the mechanism. NULL: the library's default. */
struct kerberos_terms {
	const char *principal; /* the client's */
	const char *keytab;    /* a file with its key */
	const char *ccache;    /* the tickets' cache; by default in memory, where keytab is set */
	const char *server;    /* nfs/host@REALM, or nfs@host; never NULL */
};

/* 0 or -ENOMEM. */
int kerberos_new(struct gss_mechanism **mechanism, const struct kerberos_terms *terms);
