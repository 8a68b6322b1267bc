/* SPDX-License-Identifier: GPL-2.0-only */
#include "transport/tls_credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/transport.h"

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
		snprintf(why, RPC_WHY_MAX, "tls_ca=%s: no certificate in PEM is in it%s%s", file,
			 count ? ": " : "", count ? gnutls_strerror(count) : "");
	else
		snprintf(why, RPC_WHY_MAX,
			 "this system trusts no authority: install ca-certificates, or give "
			 "tls_ca=");
	return -EINVAL;
}

static int read_own(gnutls_certificate_credentials_t x509, const struct tls_files *files, char *why)
{
	int error;

	if (!files->certificate)
		return 0;
	error = check_readable("tls_cert", files->certificate, why)
			?: check_readable("tls_key", files->key, why);
	if (error)
		return error;
	error = gnutls_certificate_set_x509_key_file(x509, files->certificate, files->key,
						     GNUTLS_X509_FMT_PEM);
	if (error >= 0)
		return 0;
	if (error == GNUTLS_E_DECRYPTION_FAILED)
		snprintf(why, RPC_WHY_MAX,
			 "tls_key=%s: the key is encrypted: write it without its passphrase "
			 "(openssl pkey -in FILE -out PLAIN) and give that, readable by you alone",
			 files->key);
	else if (error == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
		snprintf(why, RPC_WHY_MAX, "tls_key=%s: no key in PEM is in it", files->key);
	else
		snprintf(why, RPC_WHY_MAX, "tls_cert=%s, tls_key=%s: %s", files->certificate,
			 files->key, gnutls_strerror(error));
	return -EINVAL;
}

int tls_credentials_new(struct tls_credentials **out, const struct tls_files *files, char *why)
{
	struct tls_credentials *credentials = calloc(1, sizeof(*credentials));
	int error = -ENOMEM;

	snprintf(why, RPC_WHY_MAX, "%s", strerror(ENOMEM));
	if (credentials && !gnutls_certificate_allocate_credentials(&credentials->x509))
		error = read_ca(credentials->x509, files->ca, why)
				?: read_own(credentials->x509, files, why);
	if (error)
		tls_credentials_free(credentials);
	else
		*out = credentials;
	return error;
}

void tls_credentials_free(struct tls_credentials *credentials)
{
	if (credentials && credentials->x509)
		gnutls_certificate_free_credentials(credentials->x509);
	free(credentials);
}
