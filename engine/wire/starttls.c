/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/starttls.h"

#include "wire/record.h"

enum { MARK = 4, AUTH_TLS = 7, NULL_PROCEDURE = 0 };
static const uint8_t word[] = {'S', 'T', 'A', 'R', 'T', 'T', 'L', 'S'};

void null_call_encode(uint8_t call[NULL_CALL_SIZE], uint32_t xid, uint32_t program,
		      uint32_t version, bool probe)
{
	struct xdr_out out = {.at = call, .end = call + NULL_CALL_SIZE};

	xdr_put_u32(&out, RECORD_LAST_FRAGMENT | (NULL_CALL_SIZE - MARK));
	rpc_encode_header(&out, xid, program, version, NULL_PROCEDURE);
	rpc_put_empty(&out, probe ? AUTH_TLS : RPC_AUTH_NONE);
	rpc_put_empty(&out, RPC_AUTH_NONE);
}

bool starttls_offered(const struct rpc_reply_header *reply)
{
	return reply->verdict == RPC_SUCCESS && reply->verifier.flavor == RPC_AUTH_NONE &&
	       reply->verifier.length == sizeof(word) &&
	       !memcmp(reply->verifier.body, word, sizeof(word));
}
