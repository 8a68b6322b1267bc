/* SPDX-License-Identifier: GPL-2.0-only */
/* rpcrdma.c - the input is a reply's transport header, and a peer's private data. */
#include <string.h>

#include "fuzz.h"
#include "wire/rpcrdma.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xdr_in in = {data, data + size, false};
	struct rpcrdma_reply reply;
	char text[160];

	check_private(data, size);
	rpcrdma_decode_reply(&in, &reply);
	expect((reply.verdict == RPCRDMA_TOO_SHORT) == (size < 16));
	expect((reply.verdict == RPCRDMA_MSG) == !rpcrdma_verdict_errno(&reply));
	rpcrdma_verdict_text(&reply, text, sizeof(text));
	if (reply.verdict == RPCRDMA_MSG) {
		expect(reply.write.count <= RPCRDMA_SEGMENTS_MAX);
		expect(xdr_get_u32(&in) == reply.xid && !in.bad);
		check_written(&reply.write);
	}
	return 0;
}
