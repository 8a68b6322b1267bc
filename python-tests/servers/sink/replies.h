/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * replies.h - the replies of one connection that have not left yet, sent together.
 *
 * A reply is a head, encoded into the queue's own memory, and for READ so many zeros behind it, all
 * out of one small area of memory that stays in the processor's cache. (sendfile(2) of a memfd was
 * measured too: it halves the copies and doubles the time, for client and server.) Nothing here
 * blocks.
 */
#pragma once

#include <stdbool.h>
#include <sys/uio.h>

#include "wire/xdr.h"

enum {
	REPLY_HEAD_MAX = 512,
	REPLY_DATA_MAX = 16 << 20,
	REPLIES_HEADS = 128 * 1024,
	REPLIES_SPANS = 1024, /* UIO_MAXIOV */
};

struct replies {
	uint32_t first, last; /* spans[first … last) are to be sent */
	uint32_t heads_used;
	struct iovec spans[REPLIES_SPANS];
	uint8_t heads[REPLIES_HEADS];
};

static inline bool replies_empty(const struct replies *replies)
{
	return replies->first == replies->last;
}

/* Room for one reply, with at most REPLY_DATA_MAX bytes of data; false: full, send first. */
bool replies_begin(struct replies *replies, struct xdr_out *head);

/* Queues the reply whose head was written since begin(), with `data` bytes behind it, padded. */
void replies_add(struct replies *replies, const struct xdr_out *head, uint32_t data);

/* Sends. 0: all is gone, -EAGAIN: the client takes no more now, another negative errno: failed. */
int replies_send(struct replies *replies, int fd);
