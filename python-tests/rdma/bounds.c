/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bounds.c - whether an RDMA channel without a device takes one more call, with one credit left and
 * with none, and how long the message is that asks for data which fits into a Send of the server's,
 * though not of ours: nothing is added, as the reply has the data inline.
 */
#include "transport/rdma.c"

enum { RPC_HEAD = 100 };

int main(void)
{
	static uint8_t message[RPCRDMA_INLINE_MIN], data[2 * RPCRDMA_INLINE_MIN];
	static struct rdma rdma = {
		.buffers = message,
		.calls_max = 4,
		.window = 3,
		.outstanding = 2,
		.agreed = {.send = RPCRDMA_INLINE_MIN, .receive = 4 * RPCRDMA_INLINE_MIN},
	};
	const struct rpc_payload read = {.at = data, .length = sizeof(data), .incoming = true};
	struct rpcrdma_call header = {0};
	struct xdr_out head;
	bool one = rdma_begin(&rdma.base, &head), none;

	rdma.outstanding = rdma.window;
	none = rdma_begin(&rdma.base, &head);
	printf("%d, %d, ", one, none);
	fflush(stdout);
	printf("%u, ", place_data(&rdma, &header, message, RPC_HEAD, &read));
	printf("%u", header.write.count);
	return 0;
}
