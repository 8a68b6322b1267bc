/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/starttls.h"

#include <errno.h>

#include "wire/record.h"

enum { XID = 4, AUTH_TLS = 7, NULL_PROCEDURE = 0 };
static const uint8_t word[] = {'S', 'T', 'A', 'R', 'T', 'T', 'L', 'S'};

void null_call_init(struct null_call *null, uint32_t xid, uint32_t program, uint32_t version,
		    bool probe)
{
	struct xdr_out out = {.at = null->call, .end = null->call + NULL_CALL_SIZE};

	null->sent = null->have = 0;
	xdr_put_u32(&out, RECORD_LAST_FRAGMENT | (NULL_CALL_SIZE - RECORD_MARK_SIZE));
	rpc_encode_header(&out, xid, program, version, NULL_PROCEDURE);
	rpc_put_empty(&out, probe ? AUTH_TLS : RPC_AUTH_NONE);
	rpc_put_empty(&out, RPC_AUTH_NONE);
}

int null_call_space(struct null_call *null, struct iovec *space)
{
	uint32_t length = RECORD_MARK_SIZE, mark;

	if (null->have >= RECORD_MARK_SIZE) {
		memcpy(&mark, null->reply, RECORD_MARK_SIZE);
		mark = be32toh(mark) ^ RECORD_LAST_FRAGMENT; /* not the last: too long */
		if (mark > NULL_REPLY_MAX - RECORD_MARK_SIZE)
			return -EPROTO;
		length += mark;
	}
	*space = (struct iovec){null->reply + null->have, length - null->have};
	return 0;
}

int null_call_decode(const struct null_call *null, struct rpc_reply_header *reply)
{
	struct xdr_in in = {null->reply + RECORD_MARK_SIZE, null->reply + null->have, false};
	const uint8_t *xid = null->call + RECORD_MARK_SIZE;

	rpc_decode_reply(&in, reply);
	if (in.bad || reply->verdict == RPC_NOT_A_REPLY ||
	    memcmp(xid, null->reply + RECORD_MARK_SIZE, XID))
		return -EPROTO;
	return 0;
}

bool starttls_offered(const struct rpc_reply_header *reply)
{
	return reply->verdict == RPC_SUCCESS && reply->verifier.flavor == RPC_AUTH_NONE &&
	       reply->verifier.length == sizeof(word) &&
	       !memcmp(reply->verifier.body, word, sizeof(word));
}
