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
#include "wire/krb5_token.h"

/* The strings are the owner's, and outlive the mechanism. NULL: the library's default. */
struct kerberos_terms {
	const char *principal; /* the client's */
	const char *keytab;    /* a file with its key */
	const char *ccache;    /* the tickets' cache; by default in memory, where keytab is set */
	const char *server;    /* nfs/host@REALM, or nfs@host; never NULL */
};

/* 0 or -ENOMEM. */
int kerberos_new(struct gss_mechanism **mechanism, const struct kerberos_terms *terms);

/*
 * --- kerberos_making.c: one context in the making ---
 *
 * Each step of the library's thread ends with a token for the server, with the context, or with a
 * failure.
 */

struct making;

enum making_state { MAKING_WORKS, MAKING_HAS_TOKEN, MAKING_DONE, MAKING_FAILED };

struct making_result {
	const uint8_t *token; /* for the server */
	uint32_t length;
	const char *error;

	/* MAKING_DONE */
	struct krb5_keys *keys; /* the caller's */
	const char *enctype;	/* static */
	uint64_t lifetime;	/* nanoseconds; UINT64_MAX: for ever */
	uint64_t sequence;	/* of our first token */
};

/* Begins the first step. NULL: out of memory. The terms' strings are copied. */
struct making *making_begin(const struct kerberos_terms *terms);

/* The making's state; its result is valid until the next call of these functions. */
enum making_state making_look(struct making *making, struct making_result *result);

/* After a token: begins the next step, with the server's reply. */
void making_go_on(struct making *making, const uint8_t *reply, uint32_t length);

/* Frees it, now or when its thread ends; NULL is allowed. */
void making_leave(struct making *making);
