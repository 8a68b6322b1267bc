/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * starttls.h - the probe by which a client asks for TLS (RFC 9289, 4.1): a NULL call whose
 * credential has the flavor AUTH_TLS, and a reply whose verifier says STARTTLS. The same call
 * without credentials, over TLS, asks whether the server accepts the client.
 */
#pragma once

#include <sys/uio.h>

#include "wire/message.h"

enum { NULL_CALL_SIZE = 44, NULL_REPLY_MAX = 512 }; /* with their record marks */

struct null_call {
	uint8_t call[NULL_CALL_SIZE];
	uint32_t sent;
	uint8_t reply[NULL_REPLY_MAX];
	uint32_t have;
};

/* Writes the call, unsent; `probe`: it asks for TLS. */
void null_call_init(struct null_call *null, uint32_t xid, uint32_t program, uint32_t version,
		    bool probe);

/*
 * Where the rest of the reply belongs, as far as its length is known; empty: the reply is there. 0,
 * or -EPROTO: it is longer than a reply to NULL can be, or in fragments.
 */
int null_call_space(struct null_call *null, struct iovec *space);

/* Reads the whole reply. 0, or -EPROTO: it is not a reply to this call. */
int null_call_decode(const struct null_call *null, struct rpc_reply_header *reply);

/* True where the reply to a probe says that TLS may begin. */
bool starttls_offered(const struct rpc_reply_header *reply);
