/* SPDX-License-Identifier: GPL-2.0-only */
/* rpc.c - the input is an RPC reply, or its transport header for RDMA and a peer's private data. */
#include <string.h>

#include "fuzz.h"
#include "wire/message.h"
#include "wire/rpcrdma.h"

void fuzz_message(struct input *input)
{
	enum { HEADER_MIN = 24 }; /* of a call that was accepted */
	struct xdr_in in = {input->at, input->end, false};
	struct rpc_reply_header header;
	char text[100];

	rpc_decode_reply(&in, &header);
	expect(header.verdict <= RPC_NOT_A_REPLY);
	expect((header.verdict == RPC_SUCCESS) == !rpc_verdict_errno(&header));
	rpc_verdict_text(&header, 4, text, sizeof(text));
	if (header.verdict == RPC_SUCCESS && !in.bad)
		expect(in.at >= input->at + HEADER_MIN);
}

/* RFC 8797: magic number and version, and thresholds in KiB less one; all else tells nothing. */
static void check_private(const uint8_t *data, size_t size)
{
	static const uint8_t begin[] = {0xf6, 0xab, 0x0e, 0x18, 1};
	struct rpcrdma_inline peers = rpcrdma_decode_private(data, size);
	bool told = size >= 8 && !memcmp(data, begin, sizeof(begin));

	expect(peers.send == (told ? 1024u * (data[6] + 1) : RPCRDMA_INLINE_MIN));
	expect(peers.receive == (told ? 1024u * (data[7] + 1) : RPCRDMA_INLINE_MIN));
}

/* A chunk of as many segments was offered, each for 64 KiB. */
static void check_written(const struct rpcrdma_chunk *returned)
{
	struct rpcrdma_chunk offered = {.count = returned->count};
	uint64_t bytes;

	for (uint32_t i = 0; i < offered.count; i++)
		offered.segments[i].length = 65536;
	if (rpcrdma_written(&offered, returned, &bytes))
		expect(bytes <= offered.count * 65536ull);
}

void fuzz_rpcrdma(struct input *input)
{
	struct xdr_in in = {input->at, input->end, false};
	size_t size = (size_t)(input->end - input->at);
	struct rpcrdma_reply reply;
	char text[160];

	check_private(input->at, size);
	rpcrdma_decode_reply(&in, &reply);
	expect((reply.verdict == RPCRDMA_TOO_SHORT) == (size < 16));
	expect((reply.verdict == RPCRDMA_MSG) == !rpcrdma_verdict_text(&reply, text, sizeof(text)));
	if (reply.verdict == RPCRDMA_MSG) {
		expect(reply.write.count <= RPCRDMA_SEGMENTS_MAX);
		expect(xdr_get_u32(&in) == reply.xid && !in.bad);
		check_written(&reply.write);
	}
}
