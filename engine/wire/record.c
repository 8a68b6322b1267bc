/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/record.h"

#include <string.h>

#include "util.h"

enum {
	LONG_HEAD = 1024,	/* a longer head is a listing's */
	STAGE = 128 * 1024,	/* many small replies by one receive */
	PART_LEAST = 8 * 1024,	/* RECORD_STAGE_LEAST for portions smaller than half */
	READAHEAD_BULKY = 4096, /* bytes behind a bulky reply: heads, but little bulk data */
};

uint32_t record_stage_size(uint32_t head_max)
{
	return max_of((uint32_t)STAGE, head_max + 2 * RECORD_MARK_SIZE);
}

void record_reader_init(struct record_reader *reader, const struct rpc_handler *handler,
			uint32_t message_max, uint32_t head_max, uint8_t *stage)
{
	memset(reader, 0, sizeof(*reader));
	reader->handler = handler;
	reader->message_max = message_max;
	reader->head_max = head_max;
	reader->portion = 2;
	reader->stage = stage;
}

static uint32_t staged(const struct record_reader *reader)
{
	return reader->to - reader->from;
}

bool record_stage_is_empty(const struct record_reader *reader)
{
	return !staged(reader) && !reader->kept;
}

/*
 * How many bytes to read into the stage. If one receive took all bytes on their way, client and
 * server would work in turn. Bytes that fit into RECORD_STAGE_LEAST, such as 8 READs of 4 KiB, are
 * read together: reading halves would cost more than the waits.
 */
static uint32_t readahead(const struct record_reader *reader)
{
	bool smaller = reader->portion > 2 && record_takes_portion(reader);
	uint64_t part = record_on_its_way(reader) / (smaller ? reader->portion : 2);
	uint64_t least = smaller ? PART_LEAST : RECORD_STAGE_LEAST;

	if (reader->reply_size >= RECORD_BULKY)
		return READAHEAD_BULKY;
	return (uint32_t)min_of(max_of(part, least), (uint64_t)STAGE);
}

/* Bytes of bulk data that arrive next, and are received into place. */
static uint32_t next_bulk(const struct record_reader *reader)
{
	if (reader->part != RECORD_BULK || !reader->in_fragment || staged(reader))
		return 0;
	return min_of(reader->bulk.length - reader->bulk_done, reader->fragment);
}

/* Bytes up to the end of a long head, such as a listing's, which is read whole. */
static uint32_t rest_of_head(const struct record_reader *reader)
{
	if (reader->part != RECORD_HEAD || !reader->in_fragment || staged(reader) < LONG_HEAD)
		return 0;
	return min_of(reader->fragment, reader->head_max) + RECORD_MARK_SIZE;
}

int record_space(struct record_reader *reader, struct iovec space[2])
{
	uint32_t bulk = next_bulk(reader), used = reader->from - reader->kept;

	if (used) {
		reader->from -= used;
		reader->to -= used;
		memmove(reader->stage, reader->stage + used, reader->to);
	}
	if (bulk && !reader->bulk.to) {
		space[0] = (struct iovec){NULL, bulk};
		return 1;
	}
	if (bulk) {
		space[0].iov_base = (uint8_t *)reader->bulk.to + reader->bulk_done;
		space[0].iov_len = bulk;
		space[1].iov_base = reader->stage + reader->to;
		space[1].iov_len = readahead(reader) - reader->to;
		return 2;
	}
	/* There is room, since less than a head, a tail and a mark is staged. */
	space[0].iov_base = reader->stage + reader->to;
	space[0].iov_len = max_of(readahead(reader), rest_of_head(reader)) - reader->to;
	return 1;
}

/* Reads the mark at `at`; the caller removes it. */
static int open_fragment(struct record_reader *reader, uint32_t at)
{
	uint32_t mark, length;

	memcpy(&mark, reader->stage + at, RECORD_MARK_SIZE);
	mark = be32toh(mark);
	length = mark & ~RECORD_LAST_FRAGMENT;
	if (length > reader->message_max - reader->message)
		return -EMSGSIZE;
	reader->message += length;
	reader->fragment += length;
	reader->last = mark & RECORD_LAST_FRAGMENT;
	reader->in_fragment = true;
	return 0;
}

/* A head continues in the next fragment: removes the mark between them. */
static int join_fragments(struct record_reader *reader)
{
	uint32_t at = reader->from + reader->fragment;
	int error = open_fragment(reader, at);

	if (error)
		return error;
	memmove(reader->stage + at, reader->stage + at + RECORD_MARK_SIZE,
		reader->to - at - RECORD_MARK_SIZE);
	reader->to -= RECORD_MARK_SIZE;
	return 0;
}

/* The read_ functions return 1 after progress, 0 if they need more bytes, or a negative errno. */
static int read_head(struct record_reader *reader)
{
	struct rpc_reply reply = {
		.message = reader->stage + reader->from,
		.have = min_of(reader->fragment, staged(reader)),
		.length = reader->last ? reader->fragment : 0,
	};
	int head;

	reply.whole = reader->last && reply.have == reader->fragment;
	reader->bulk = (struct rpc_bulk){0};
	head = reader->handler->reply(reader->handler->context, &reply, &reader->bulk);
	if (head < 0)
		return head;
	if (head) {
		reader->from += head;
		reader->fragment -= head;
		reader->kept = reader->bulk.again ? head : 0;
		reader->bulk_done = 0;
		reader->part = RECORD_BULK;
		return 1;
	}
	if (reply.whole || reply.have >= reader->head_max)
		return -EBADMSG;
	if (reply.have < reader->fragment || staged(reader) - reply.have < RECORD_MARK_SIZE)
		return 0;
	return join_fragments(reader) ?: 1;
}

/* Copies bulk data that came with the head. A kept head moves along with `from`. */
static void copy_bulk(struct record_reader *reader, uint32_t length)
{
	uint8_t *at = reader->stage + reader->from;

	if (reader->bulk.to)
		memcpy((uint8_t *)reader->bulk.to + reader->bulk_done, at, length);
	if (reader->kept)
		memmove(at + length - reader->kept, at - reader->kept, reader->kept);
	reader->from += length;
	reader->fragment -= length;
	reader->bulk_done += length;
}

/* After the bulk data: calls reply() again with the bytes before and behind the data. */
static int read_again(struct record_reader *reader)
{
	const uint32_t length = reader->kept + reader->fragment;
	const struct rpc_reply reply = {
		.message = reader->stage + reader->from - reader->kept,
		.have = length,
		.whole = true,
		.length = length,
		.cut = reader->kept,
	};
	int head;

	if (staged(reader) < reader->fragment)
		return 0;
	reader->kept = 0;
	reader->bulk = (struct rpc_bulk){0};
	head = reader->handler->reply(reader->handler->context, &reply, &reader->bulk);
	return head ?: -EBADMSG;
}

static int read_bulk(struct record_reader *reader)
{
	uint32_t missing = reader->bulk.length - reader->bulk_done;
	uint32_t at_hand = min_of(reader->fragment, staged(reader));
	uint32_t length = min_of(missing, at_hand);

	if (length)
		copy_bulk(reader, length);
	if (reader->bulk_done == reader->bulk.length) {
		int whole = reader->kept ? read_again(reader) : 1;

		if (whole <= 0)
			return whole;
		reader->part = RECORD_REST;
		if (reader->bulk.token)
			reader->handler->finished(reader->handler->context, reader->bulk.token);
		return 1;
	}
	if (reader->fragment)
		return 0;
	if (reader->last)
		return -EBADMSG;
	reader->in_fragment = false;
	return 1;
}

static int read_rest(struct record_reader *reader)
{
	uint32_t length = min_of(reader->fragment, staged(reader));

	reader->from += length;
	reader->fragment -= length;
	if (reader->fragment)
		return 0;
	reader->in_fragment = false;
	if (reader->last) {
		reader->reply_size = (7 * reader->reply_size + reader->message) / 8;
		reader->expected -= reader->expected > 0;
		reader->part = RECORD_HEAD;
		reader->message = 0;
	}
	return 1;
}

static int read_part(struct record_reader *reader)
{
	int error;

	if (!reader->in_fragment) {
		if (staged(reader) < RECORD_MARK_SIZE)
			return 0;
		error = open_fragment(reader, reader->from);
		reader->from += RECORD_MARK_SIZE;
		if (error)
			return error;
	}
	switch (reader->part) {
	case RECORD_HEAD: return read_head(reader);
	case RECORD_BULK: return read_bulk(reader);
	default: return read_rest(reader);
	}
}

int record_took(struct record_reader *reader, uint32_t length)
{
	uint32_t placed = min_of(length, next_bulk(reader));
	int went_on;

	reader->bulk_done += placed;
	reader->fragment -= placed;
	reader->to += length - placed;
	do
		went_on = read_part(reader);
	while (went_on > 0);
	return went_on;
}
