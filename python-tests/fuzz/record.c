/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * record.c - the input is what a stream brings, and how it is cut by the receives.
 *
 * It begins with 16 bytes, whose squares are in turn the sizes of the receives; the stream follows.
 * A message begins with two words: the length of its head beyond them, and that of its bulk data,
 * with the flags NOBODYS, BROKEN, AGAIN and DROPPED. The stream is read twice, dropping and keeping
 * what is DROPPED: all else is the same.
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
#define DROPPED 0x10000000u

enum {
	TURNS = 16,
	WORDS = 8,
	/* A head is below RPC_REPLY_HEAD_MAX: a longer one is refused, unless it comes at once. */
	HEAD_MASK = 0x7fff,
	BULK_MASK = 0x7fff,
	MESSAGE_MAX = 40000,
};

/* `bulk` is of the message between on_reply() and on_finished(). */
struct receiver {
	bool drops;
	uint8_t *bulk;
	uint64_t seen; /* a hash of what it was handed */
};

static void note(struct receiver *receiver, const uint8_t *bytes, uint32_t length)
{
	while (length--)
		receiver->seen = (receiver->seen ^ *bytes++) * 0x100000001b3;
}

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
		note(receiver, reply->message, reply->have);
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
	bulk->token = receiver->bulk = malloc(max_of(bulk->length, 1u));
	bulk->to = receiver->drops && length & DROPPED ? NULL : receiver->bulk;
	note(receiver, reply->message, head);
	bulk->again = length & AGAIN && is_short(reply, head, bulk->length);
	return (int)head;
}

static void on_finished(void *context, void *token)
{
	struct receiver *receiver = context;

	expect(token && token == receiver->bulk);
	receiver->seen++;
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

		if (space[i].iov_base)
			memcpy(space[i].iov_base, data + taken, part);
		taken += part;
	}
	return taken;
}

/* An empty stage may be lent to others, who write into it. */
static void lend_stage(const struct record_reader *reader)
{
	if (record_stage_is_empty(reader))
		memset(reader->stage, 0xEE, 1024);
}

/* What it ended with. */
static int feed(struct record_reader *reader, const uint8_t *sizes, const uint8_t *data,
		uint32_t length)
{
	for (uint32_t turn = 0; length; turn++) {
		uint32_t size = 1 + (uint32_t)sizes[turn % TURNS] * sizes[turn % TURNS];
		uint32_t taken = receive(reader, data, min_of(size, length));
		int error;

		if (size % 2)
			record_expect(reader);
		error = record_took(reader, taken);
		if (error)
			return error;
		lend_stage(reader);
		data += taken;
		length -= taken;
	}
	return 0;
}

/* A hash of what is seen of it, and of its end. */
static uint64_t read_stream(const uint8_t *data, uint32_t size, bool drops)
{
	struct receiver receiver = {.drops = drops, .seen = 1};
	const struct rpc_handler handler = {on_reply, on_finished, NULL, &receiver};
	struct record_reader reader;
	uint8_t *stage = malloc(record_stage_size(RPC_REPLY_HEAD_MAX));

	expect(stage);
	record_reader_init(&reader, &handler, MESSAGE_MAX, RPC_REPLY_HEAD_MAX, stage);
	receiver.seen ^= (uint64_t)feed(&reader, data, data + TURNS, size - TURNS);
	free(stage);
	free(receiver.bulk);
	return receiver.seen;
}

void fuzz_record(struct input *input)
{
	size_t size = (size_t)(input->end - input->at);

	if (size >= TURNS)
		expect(read_stream(input->at, size, true) == read_stream(input->at, size, false));
}
