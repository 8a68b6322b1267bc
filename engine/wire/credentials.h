/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * credentials.h - who calls, and how a reply shows that it is the server's: one table for each
 * flavor of authentication (RFC 5531, 8.2).
 *
 * A flavor's own structure begins with a struct rpc_credentials. It belongs to whoever made it, and
 * outlives all calls that use it. Nothing here blocks or allocates.
 */
#pragma once

#include "wire/xdr.h"

/* RFC 5531, 8.2 */
enum rpc_flavor_number { RPC_AUTH_NONE = 0, RPC_AUTH_SYS = 1, RPC_AUTH_SHORT = 2 };

/* A reply's verifier, where it lies in the message. */
struct rpc_verifier {
	uint32_t flavor, length;
	const uint8_t *body;
};

struct rpc_credentials;
struct rpc_payload;

struct rpc_flavor {
	/* Writes credential and verifier behind the header that begins at `start`. */
	void (*put)(const struct rpc_credentials *credentials, struct xdr_out *out,
		    const uint8_t *start);

	/*
	 * Makes a call's arguments, which end at out->at, and its data what goes over the wire.
	 * False: it cannot. This and its opposites below are NULL in a flavor without integrity or
	 * privacy.
	 */
	bool (*wrap)(const struct rpc_credentials *credentials, struct xdr_out *out,
		     const uint8_t *arguments, const struct rpc_payload *data);

	/* False where the reply `xid` is not to be believed: asked before any of it is used. */
	bool (*check)(const struct rpc_credentials *credentials, uint32_t xid,
		      const struct rpc_verifier *verifier);

	/* The opposite of wrap(), for results before they are decoded; false as for check(). */
	bool (*unwrap)(const struct rpc_credentials *credentials, uint32_t xid, struct xdr_in *in);

	/* The same for bulk data, once all of it is in place and before the I/O gets it. */
	bool (*unwrap_data)(const struct rpc_credentials *credentials, uint32_t xid, void *data,
			    uint32_t length);
};

struct rpc_credentials {
	const struct rpc_flavor *flavor;
};
