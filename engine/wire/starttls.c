/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/starttls.h"

#include "wire/record.h"

enum { MARK = 4, AUTH_TLS = 7, NULL_PROCEDURE = 0 };
static const uint8_t word[] = {'S', 'T', 'A', 'R', 'T', 'T', 'L', 'S'};

/* An empty credential, and the verifier AUTH_NONE. */
static void put_empty(struct xdr_out *out, uint32_t flavor)
{
	xdr_put_u32(out, flavor);
	xdr_put_u32(out, 0);
	xdr_put_u32(out, RPC_AUTH_NONE);
	xdr_put_u32(out, 0);
}

static void put_none(struct rpc_credentials *credentials, struct rpc_stamp *stamp,
		     struct xdr_out *out, const uint8_t *start)
{
	put_empty(out, RPC_AUTH_NONE);
}

static void put_tls(struct rpc_credentials *credentials, struct rpc_stamp *stamp,
		    struct xdr_out *out, const uint8_t *start)
{
	put_empty(out, AUTH_TLS);
}

void null_call_encode(uint8_t call[NULL_CALL_SIZE], uint32_t xid, uint32_t program,
		      uint32_t version, bool probe)
{
	static const struct rpc_flavor none = {.put = put_none}, tls = {.put = put_tls};
	struct rpc_credentials credentials = {.flavor = probe ? &tls : &none};
	struct xdr_out out = {.at = call, .end = call + NULL_CALL_SIZE};

	xdr_put_u32(&out, RECORD_LAST_FRAGMENT | (NULL_CALL_SIZE - MARK));
	rpc_encode_call(&out, xid, program, version, NULL_PROCEDURE, &credentials, NULL);
}

bool starttls_offered(const struct rpc_reply_header *reply)
{
	return reply->verdict == RPC_SUCCESS && reply->verifier.flavor == RPC_AUTH_NONE &&
	       reply->verifier.length == sizeof(word) &&
	       !memcmp(reply->verifier.body, word, sizeof(word));
}
