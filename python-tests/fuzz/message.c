/* SPDX-License-Identifier: GPL-2.0-only */
/* message.c - the input is an RPC reply. */
#include "fuzz.h"
#include "wire/message.h"

enum { HEADER_MIN = 24 }; /* of a call that was accepted */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xdr_in in = {data, data + size, false};
	struct rpc_reply_header header;
	char text[100];

	rpc_decode_reply(&in, &header);
	expect(header.verdict <= RPC_NOT_A_REPLY);
	expect((header.verdict == RPC_SUCCESS) == !rpc_verdict_errno(&header));
	rpc_verdict_text(&header, 4, text, sizeof(text));
	if (header.verdict == RPC_SUCCESS && !in.bad)
		expect(in.at >= data + HEADER_MIN);
	return 0;
}
