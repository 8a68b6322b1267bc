/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * placed.c - an RDMA channel takes a reply, without a device, and this prints what came of it.
 * Arguments: a file with the reply, how many bytes of data its RPC message names, and how far
 * behind the beginning of the call's memory these belong.
 */
#include "transport/rdma.c"

enum { XID = 0x11223344, RPC_HEAD = 24, SIZE = 512 };

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
	FILE *file = argc == 4 ? fopen(argv[1], "rb") : NULL;

	if (!file)
		return 2;
	named = (uint32_t)atoi(argv[2]);
	behind = (uint32_t)atoi(argv[3]);
	return -take_message(&rdma, message, (uint32_t)fread(message, 1, sizeof(message), file));
}
