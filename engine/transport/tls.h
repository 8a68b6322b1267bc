/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tls.h - what an RPC channel with TLS (RFC 9289) is opened with. Needs GnuTLS at build time
 * (HAVE_TLS).
 *
 * Credentials are read from files once, and serve any number of channels of one thread. They must
 * not be used after a fork.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "terms/choices.h"

/* PEM files. */
struct tls_files {
	const char *ca; /* authorities that sign servers' certificates; NULL: the system's */
	const char *certificate, *key; /* the client's; NULL: none */
};

struct tls_credentials;

/* 0, or a negative errno with the reason in `why`, of RPC_WHY_MAX bytes. */
int tls_credentials_new(struct tls_credentials **credentials, const struct tls_files *files,
			char *why);
void tls_credentials_free(struct tls_credentials *credentials);

/* Does this kernel have TLS? For root the kernel loads its module, where there is one. */
bool ktls_there(void);

/* Shared by the channels of one path, in one thread; they write only `rekeyed`. */
struct tls_terms {
	const struct tls_credentials *credentials;
	enum tls_ktls ktls;
	bool rekeyed; /* a server changed a channel's keys: KTLS_AUTO means GnuTLS from now on */
	bool mutual;  /* the server must ask for the client's certificate */
	const char *name;	   /* or address, that the server's certificate must have */
	uint32_t program, version; /* of the probe and the NULL call */
};
