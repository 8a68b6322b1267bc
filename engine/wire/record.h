/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * record.h - the receiving side of record marking (RFC 5531, 11): turns the bytes of a stream into
 * replies.
 *
 * The reader says where the next bytes belong; the caller puts them there. Heads are read ahead
 * into a stage. Bulk data that is not there yet goes straight to where the handler wants it, and
 * the same receive takes the bytes behind it into the stage; unwanted data is dropped. Only a part
 * of the bytes on their way is read ahead: the client handles it while the server sends the rest.
 * Fragments may have any size, even 0. Pure: no sockets. Even a hostile stream cannot make the
 * reader write outside its stage and the bulk buffers.
 */
#pragma once

#include <sys/uio.h>

#include "wire/reply.h"

enum {
	RECORD_MARK_SIZE = 4,
	RECORD_STAGE_LEAST = 40 * 1024, /* bytes: the least that is read ahead */
	RECORD_BULKY = 16 * 1024,	/* bytes: longer replies are received into place */
};
#define RECORD_LAST_FRAGMENT 0x80000000u /* in a mark; the rest is the fragment's length */

/* The part of a message that the reader reads. */
enum record_part { RECORD_HEAD, RECORD_BULK, RECORD_REST };

struct record_reader {
	const struct rpc_handler *handler;
	uint32_t message_max, head_max;

	/* bytes received and not yet used: stage[from … to) */
	uint8_t *stage;
	uint32_t from, to;

	/* replies on their way: how many, and their recent mean size in bytes */
	uint32_t expected, reply_size;
	uint32_t portion; /* reads ahead 1/portion of their bytes; 2 until the owner sets it */

	/* the message being read */
	enum record_part part;
	bool in_fragment;  /* a fragment's mark has been read */
	bool last;	   /* the fragment is the message's last */
	uint32_t fragment; /* bytes of the fragment not yet used */
	uint32_t message;  /* bytes announced by the marks of this message */
	struct rpc_bulk bulk;
	uint32_t bulk_done;
	uint32_t kept; /* bytes before `from`: a head that will be handed over again */
};

/* The bytes of a stage, for heads of up to head_max bytes. */
uint32_t record_stage_size(uint32_t head_max);

/*
 * The handler must outlive the reader. The caller owns the stage; between record_took() and
 * record_space() it may set reader->stage to another one while record_stage_is_empty().
 */
void record_reader_init(struct record_reader *reader, const struct rpc_handler *handler,
			uint32_t message_max, uint32_t head_max, uint8_t *stage);

bool record_stage_is_empty(const struct record_reader *reader);

/* A call is queued: one more reply is to come. */
static inline void record_expect(struct record_reader *reader)
{
	reader->expected++;
}

/*
 * Sets where to put the next bytes, at least one; returns the number of entries used.
 * If space[0].iov_base is NULL, the caller drops up to iov_len bytes, and there is no space[1].
 */
int record_space(struct record_reader *reader, struct iovec space[2]);

/*
 * `length` bytes, at least 1, were put into record_space()'s entries: handles every reply that they
 * complete. 0, or a negative errno: -EMSGSIZE (a message longer than message_max), -EBADMSG (a
 * message that ends too early, or a head longer than head_max), or what the handler returned.
 */
int record_took(struct record_reader *reader, uint32_t length);

/* Bytes of the replies on their way. */
static inline uint64_t record_on_its_way(const struct record_reader *reader)
{
	return (uint64_t)reader->expected * reader->reply_size;
}

/* True where `portion` limits what is read ahead. */
static inline bool record_takes_portion(const struct record_reader *reader)
{
	const uint64_t least = reader->portion > 2 ? RECORD_STAGE_LEAST : 2 * RECORD_STAGE_LEAST;

	return record_on_its_way(reader) > least && reader->reply_size < RECORD_BULKY;
}

/* True where a reply has begun and not ended. */
static inline bool record_is_midway(const struct record_reader *reader)
{
	return reader->in_fragment || reader->message || reader->from != reader->to;
}
