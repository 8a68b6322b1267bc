/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kerberos.h - Kerberos as a mechanism of RPCSEC_GSS: contexts by the system's GSS-API library,
 * messages by wire/krb5_token.h, whose tokens are compared with the library's when a context is
 * made. Without the library or GnuTLS at build time (HAVE_GSS) there is none.
 *
 * The library asks the KDC, and may wait for it for half a minute: it works in a thread of its own,
 * which outlives the mechanism where it must.
 */
#pragma once

#include "wire/gss_mechanism.h"

/* Strings are the owner's, and outlive the mechanism. NULL: the library's default. */
struct kerberos_terms {
	const char *principal; /* the client's */
	const char *keytab;    /* a file with its key */
	const char *ccache;    /* where tickets are; with a keytab, by default, in memory */
	const char *server;    /* nfs/host@REALM, or nfs@host; never NULL */
};

/* 0 or -ENOMEM. */
int kerberos_new(struct gss_mechanism **mechanism, const struct kerberos_terms *terms);
