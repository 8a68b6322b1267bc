/* SPDX-License-Identifier: GPL-2.0-only */
/* tls_credentials.h - what tls.h's credentials are to GnuTLS, and why it fails with them. */
#pragma once

#include <gnutls/gnutls.h>

#include "transport/tls.h"

struct tls_credentials {
	gnutls_certificate_credentials_t x509;
};

/* --- why TLS has failed, and what to do, in `why` of RPC_WHY_MAX bytes --- */

/* The server has ended it by an alert (RFC 8446, 6). */
void tls_why_alert(char *why, gnutls_alert_description_t alert);

/* Its certificate was not taken: gnutls_session_get_verify_cert_status(). */
void tls_why_certificate(char *why, unsigned int status);

/* Adds to that the names which the certificate has, where it is for others than the server's. */
void tls_why_names(char *why, gnutls_session_t session);
