/* SPDX-License-Identifier: GPL-2.0-only */
/* tls_credentials.c - keys and certificates for GnuTLS, and the reasons why TLS fails with them. */
#include "transport/tls.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <fcntl.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>

/* GnuTLS does not say why it cannot read a file. */
static int check_readable(const char *option, const char *file, char *why)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC), error = fd < 0 ? -errno : 0;

	if (error)
		snprintf(why, RPC_WHY_MAX, "%s=%s: %s", option, file, strerror(-error));
	else
		close(fd);
	return error;
}

static int read_ca(gnutls_certificate_credentials_t x509, const char *file, char *why)
{
	int error = file ? check_readable("tls_ca", file, why) : 0, count;

	if (error)
		return error;
	count = file ? gnutls_certificate_set_x509_trust_file(x509, file, GNUTLS_X509_FMT_PEM)
		     : gnutls_certificate_set_x509_system_trust(x509);
	if (count > 0)
		return 0;
	if (file)
		snprintf(why, RPC_WHY_MAX, "tls_ca=%s: it has no PEM certificate%s%s", file,
			 count ? ": " : "", count ? gnutls_strerror(count) : "");
	else
		snprintf(why, RPC_WHY_MAX,
			 "this system trusts no authority: install ca-certificates, or give "
			 "tls_ca=");
	return -EINVAL;
}

static int read_own(gnutls_certificate_credentials_t x509, const struct terms *terms, char *why)
{
	int error;

	if (terms->xprtsec != XPRTSEC_MTLS)
		return 0;
	error = check_readable("tls_cert", terms->tls_cert, why)
			?: check_readable("tls_key", terms->tls_key, why);
	if (error)
		return error;
	error = gnutls_certificate_set_x509_key_file(x509, terms->tls_cert, terms->tls_key,
						     GNUTLS_X509_FMT_PEM);
	if (error >= 0)
		return 0;
	if (error == GNUTLS_E_DECRYPTION_FAILED)
		snprintf(why, RPC_WHY_MAX,
			 "tls_key=%s: the key is encrypted: write it without its passphrase "
			 "(openssl pkey -in FILE -out PLAIN) and give that, readable by you alone",
			 terms->tls_key);
	else if (error == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
		snprintf(why, RPC_WHY_MAX, "tls_key=%s: it has no PEM key", terms->tls_key);
	else
		snprintf(why, RPC_WHY_MAX, "tls_cert=%s, tls_key=%s: %s", terms->tls_cert,
			 terms->tls_key, gnutls_strerror(error));
	return -EINVAL;
}

int tls_credentials_new(gnutls_certificate_credentials_t *out, const struct terms *terms, char *why)
{
	gnutls_certificate_credentials_t x509 = NULL;
	int error = -ENOMEM;

	snprintf(why, RPC_WHY_MAX, "%s", strerror(ENOMEM));
	if (!gnutls_certificate_allocate_credentials(&x509))
		error = read_ca(x509, terms->tls_ca, why) ?: read_own(x509, terms, why);
	if (error)
		tls_credentials_free(x509);
	else
		*out = x509;
	return error;
}

void tls_credentials_free(gnutls_certificate_credentials_t x509)
{
	if (x509)
		gnutls_certificate_free_credentials(x509);
}

/* --- why TLS has failed --- */

enum { NAME_ROOM = 256, NAMES_TOLD = 3 /* of 40 bytes each: RPC_WHY_MAX has room for these */ };

void tls_why_alert(char *why, gnutls_alert_description_t alert)
{
	const char *hint = "its log says why";

	switch ((int)alert) {
	case GNUTLS_A_CERTIFICATE_REQUIRED:
		hint = "it wants a client's certificate: xprtsec=mtls, tls_cert= and tls_key=";
		break;
	case GNUTLS_A_CERTIFICATE_EXPIRED: hint = "tls_cert= has expired: get a new one"; break;
	case GNUTLS_A_PROTOCOL_VERSION: hint = "it does not speak TLS 1.3, which RPC needs"; break;
	case GNUTLS_A_UNSUPPORTED_CERTIFICATE:
		hint = "is tls_cert= one for clients (extendedKeyUsage with clientAuth)?";
		break;
	case GNUTLS_A_UNKNOWN_CA:
	case GNUTLS_A_BAD_CERTIFICATE:
	case GNUTLS_A_CERTIFICATE_REVOKED:
	case GNUTLS_A_CERTIFICATE_UNKNOWN:
	case GNUTLS_A_ACCESS_DENIED:
		hint = "is tls_cert= signed by an authority that it trusts?";
		break;
	}
	snprintf(why, RPC_WHY_MAX, "the server ended TLS by the alert \"%s\": %s",
		 gnutls_alert_get_name(alert) ?: "unknown", hint);
}

static void add_names(char *why, gnutls_session_t session)
{
	unsigned int count;
	const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &count);
	char name[NAME_ROOM + 1], address[INET6_ADDRSTRLEN];
	gnutls_x509_crt_t certificate;
	int kind = 0;

	if (gnutls_x509_crt_init(&certificate))
		return;
	gnutls_x509_crt_import(certificate, chain, GNUTLS_X509_FMT_DER);
	for (unsigned int i = 0; i < NAMES_TOLD && kind >= 0; i++) {
		size_t size = NAME_ROOM, length = strlen(why);

		kind = gnutls_x509_crt_get_subject_alt_name(certificate, i, name, &size, NULL);
		name[size < NAME_ROOM ? size : 0] = '\0';
		if (kind == GNUTLS_SAN_IPADDRESS)
			inet_ntop(size == 4 ? AF_INET : AF_INET6, name, address, sizeof(address));
		if (kind >= 0)
			snprintf(why + length, RPC_WHY_MAX - length, "%s%.40s",
				 i ? ", " : ": it has ",
				 kind == GNUTLS_SAN_IPADDRESS ? address : name);
	}
	gnutls_x509_crt_deinit(certificate);
	for (; *why; why++)
		if (!isprint((unsigned char)*why))
			*why = '?';
}

void tls_why_certificate(char *why, gnutls_session_t session)
{
	unsigned int status = gnutls_session_get_verify_cert_status(session);
	const char *what = "is not trusted: set tls_ca= to the authority that signed it";

	if (status & GNUTLS_CERT_INSECURE_ALGORITHM)
		what = "is signed by too weak an algorithm: the server needs a new one";
	else if (status & GNUTLS_CERT_SIGNER_NOT_FOUND)
		; /* an untrusted issuer outranks all findings below */
	else if (status & (GNUTLS_CERT_SIGNER_NOT_CA | GNUTLS_CERT_SIGNER_CONSTRAINTS_FAILURE))
		what = "is signed by a certificate that may not sign it (basicConstraints, "
		       "keyUsage or nameConstraints): the server needs a new one";
	else if (status & GNUTLS_CERT_PURPOSE_MISMATCH)
		what = "is not for servers (its extendedKeyUsage lacks serverAuth): the server "
		       "needs a new one";
	else if (status & GNUTLS_CERT_UNEXPECTED_OWNER)
		what = "is for another name: connect by a name that it has, or give tls_name=";
	else if (status & GNUTLS_CERT_EXPIRED)
		what = "has expired: the server needs a new one";
	else if (status & GNUTLS_CERT_NOT_ACTIVATED)
		what = "is not valid yet: is the clock right, here and there?";
	else if (status & GNUTLS_CERT_REVOKED)
		what = "was revoked: the server needs a new one";
	snprintf(why, RPC_WHY_MAX, "the server's certificate %s", what);
	if (status & GNUTLS_CERT_UNEXPECTED_OWNER && !(status & GNUTLS_CERT_SIGNER_NOT_FOUND))
		add_names(why, session);
}
