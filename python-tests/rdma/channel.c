/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * channel.c - an RDMA channel without a device.
 *
 * By a file with a reply, how many bytes of data its RPC message names, and how far behind the
 * beginning of the call's memory these belong: it takes that reply, and prints what came of it.
 *
 * Without arguments: whether it takes one more call, with one credit left and with none, and how
 * long the message is that asks for data which fits into a Send of the server's, though not of
 * ours: nothing is added, as the reply has the data inline.
 */
#include "transport/rdma.c"

enum { XID = 0x11223344, RPC_HEAD = 24, CALL_HEAD = 100, SIZE = 512 };
enum { WRONG_COMMAND_LINE = 2 };

static uint8_t data[2 * SIZE];
static uint32_t named, behind;

static int reply(void *context, const struct rpc_reply *message, struct rpc_bulk *bulk)
{
	*bulk = (struct rpc_bulk){data + behind, named, data, false};
	return RPC_HEAD;
}

static void finished(void *context, void *token)
{
	printf("taken, %02x%02x", data[0], data[named - 1]);
}

static void refused(void *context, uint32_t xid, int error, const char *why)
{
	printf("%d: %s", error, why);
}

static void print_bounds(void)
{
	static uint8_t message[RPCRDMA_INLINE_MIN], asked[2 * RPCRDMA_INLINE_MIN];
	static struct rdma rdma = {
		.buffers = message,
		.calls_max = 4,
		.window = 3,
		.outstanding = 2,
		.agreed = {.send = RPCRDMA_INLINE_MIN, .receive = 4 * RPCRDMA_INLINE_MIN},
	};
	const struct rpc_payload read = {.at = asked, .length = sizeof(asked), .incoming = true};
	struct rpcrdma_call header = {0};
	struct xdr_out head;
	bool one = rdma_begin(&rdma.base, &head), none;

	rdma.outstanding = rdma.window;
	none = rdma_begin(&rdma.base, &head);
	printf("%d, %d, ", one, none);
	printf("%u, ", place_data(&rdma, &header, message, CALL_HEAD, &read));
	printf("%u", header.write.count);
}

int main(int argc, char **argv)
{
	static const struct rpc_handler handler = {
		.reply = reply, .finished = finished, .refused = refused};
	static struct transport_counters counters;
	static struct rdma rdma = {
		.base.counters = &counters,
		.terms.handler = &handler,
		.calls_max = 1,
		.outstanding = 1,
		.xids = {XID},
		.calls = {{
			.data = {.at = data, .length = SIZE, .incoming = true},
			.written = {1, {{0xdeadbeef, SIZE, 0x7f1234567000}}},
		}},
	};
	uint8_t message[2 * SIZE];
	FILE *file;

	if (argc == 1) {
		print_bounds();
		return 0;
	}
	file = argc == 4 ? fopen(argv[1], "rb") : NULL;
	if (!file)
		return WRONG_COMMAND_LINE;
	named = (uint32_t)atoi(argv[2]);
	behind = (uint32_t)atoi(argv[3]);
	return -take_message(&rdma, message, (uint32_t)fread(message, 1, sizeof(message), file));
}
