/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * record.c - the input is what a stream brings, and how it is cut by the receives.
 *
 * It begins with 16 bytes, whose squares are in turn the sizes of the receives; the stream follows.
 * A message begins with two words: the length of its head beyond them, and that of its bulk data,
 * with the flags NOBODYS, BROKEN and AGAIN.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "wire/record.h"
#include "wire/xdr.h"
#include "util.h"

#define NOBODYS 0x80000000u
#define BROKEN	0x40000000u
#define AGAIN	0x20000000u

enum {
	TURNS = 16,
	WORDS = 8,
	HEAD_MASK = 0xffff,
	BULK_MASK = 0x7fff,
	MESSAGE_MAX = 40000,
};

/* The message between on_reply() and on_finished(). */
struct receiver {
	uint8_t *bulk;
};

/* Without its data it is short enough to be handed over again. */
static bool is_short(const struct rpc_reply *reply, uint32_t head, uint32_t data)
{
	return reply->length >= head + data && reply->length - data <= RPC_STREAM_HEAD_MAX;
}

static int on_reply(void *context, const struct rpc_reply *reply, struct rpc_bulk *bulk)
{
	struct receiver *receiver = context;
	struct xdr_in in = {reply->message, reply->message + reply->have, false};
	uint32_t head = WORDS + (xdr_get_u32(&in) & HEAD_MASK), length = xdr_get_u32(&in);

	if (reply->cut) {
		expect(reply->cut == head && reply->whole);
		bulk->token = receiver->bulk;
		return (int)reply->have;
	}
	expect(!receiver->bulk);
	if (in.bad)
		return 0;
	if (length & NOBODYS)
		return (int)reply->have;
	if (length & BROKEN)
		return -EPROTO;
	if (head > reply->have)
		return 0;
	bulk->length = length & BULK_MASK;
	bulk->to = bulk->token = receiver->bulk = malloc(max_of(bulk->length, 1u));
	bulk->again = length & AGAIN && is_short(reply, head, bulk->length);
	return (int)head;
}

static void on_finished(void *context, void *token)
{
	struct receiver *receiver = context;

	expect(token && token == receiver->bulk);
	free(receiver->bulk);
	receiver->bulk = NULL;
}

/* Puts bytes where the reader wants them; how many there was room for. */
static uint32_t receive(struct record_reader *reader, const uint8_t *data, uint32_t length)
{
	struct iovec space[2];
	int count = record_space(reader, space);
	uint32_t taken = 0;

	expect(count == 1 || count == 2);
	expect(space[0].iov_len);
	for (int i = 0; i < count; i++) {
		uint32_t part = min_of((size_t)(length - taken), space[i].iov_len);

		memcpy(space[i].iov_base, data + taken, part);
		taken += part;
	}
	return taken;
}

static void feed(struct record_reader *reader, const uint8_t *sizes, const uint8_t *data,
		 uint32_t length)
{
	for (uint32_t turn = 0; length; turn++) {
		uint32_t size = 1 + (uint32_t)sizes[turn % TURNS] * sizes[turn % TURNS];
		uint32_t taken = receive(reader, data, min_of(size, length));

		if (size % 2)
			record_expect(reader);
		if (record_took(reader, taken))
			return;
		data += taken;
		length -= taken;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct receiver receiver = {NULL};
	const struct rpc_handler handler = {on_reply, on_finished, NULL, &receiver};
	struct record_reader reader;

	if (size < TURNS || record_reader_init(&reader, &handler, MESSAGE_MAX, RPC_REPLY_HEAD_MAX))
		return 0;
	feed(&reader, data, data + TURNS, size - TURNS);
	record_reader_free(&reader);
	free(receiver.bulk);
	return 0;
}
