/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kerberos_making.h - one context in the making, by the GSS-API library in a thread of its own.
 * Each step of the thread ends with a token for the server, with the context, or with a failure.
 */
#pragma once

#include "transport/kerberos.h"
#include "wire/krb5_token.h"

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
