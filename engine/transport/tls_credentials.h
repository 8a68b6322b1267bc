/* SPDX-License-Identifier: GPL-2.0-only */
/* tls_credentials.h - what tls.h's credentials are to GnuTLS. */
#pragma once

#include <gnutls/gnutls.h>

#include "transport/tls.h"

struct tls_credentials {
	gnutls_certificate_credentials_t x509;
};
