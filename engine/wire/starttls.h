/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * starttls.h - the probe by which a client asks for TLS (RFC 9289, 4.1): a NULL call whose
 * credential has the flavor AUTH_TLS, and a reply whose verifier says STARTTLS. The same call
 * without credentials, over TLS, asks whether the server has taken the client for one of its own.
 */
#pragma once

#include "wire/message.h"

enum { NULL_CALL_SIZE = 44 }; /* with its record mark */

/* A record with a NULL call; `probe`: the one that asks for TLS. */
void null_call_encode(uint8_t call[NULL_CALL_SIZE], uint32_t xid, uint32_t program,
		      uint32_t version, bool probe);

/* True where the reply to a probe says that TLS may begin. */
bool starttls_offered(const struct rpc_reply_header *reply);
