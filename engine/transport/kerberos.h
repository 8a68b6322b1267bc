/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kerberos.h - Kerberos as a mechanism of RPCSEC_GSS. The system's GSS-API library makes contexts;
 * wire/krb5_token.h makes messages' tokens. For each new context, sample tokens of both are
 * compared. Needs the library and GnuTLS at build time (HAVE_GSS).
 *
 * The library may wait half a minute for the KDC, so it runs in its own thread, which may outlive
 * the mechanism.
 */
#pragma once

#include "terms/terms.h"
#include "wire/rpcsec_gss.h"
#include "wire/krb5_token.h"

/* 0 or -ENOMEM. `terms` outlive the mechanism; their server_principal is never NULL. */
int kerberos_new(struct gss_mechanism **mechanism, const struct terms *terms);
