/* SPDX-License-Identifier: GPL-2.0-only */
#include "replies.h"

#include <errno.h>
#include <sys/socket.h>

#include "util.h"
#include "wire/record.h"

enum { AREA = 64 * 1024, PAD_MAX = 3 };
enum { SPANS_MAX_OF_REPLY = 1 + (REPLY_DATA_MAX + PAD_MAX + AREA - 1) / AREA };

static const uint8_t area[AREA] __attribute__((aligned(4096)));

bool replies_begin(struct replies *replies, struct xdr_out *head)
{
	if (replies_empty(replies))
		replies->first = replies->last = replies->heads_used = 0;
	if (replies->last + SPANS_MAX_OF_REPLY > REPLIES_SPANS ||
	    replies->heads_used + RECORD_MARK_SIZE + REPLY_HEAD_MAX > REPLIES_HEADS)
		return false;
	head->at = replies->heads + replies->heads_used + RECORD_MARK_SIZE;
	head->end = head->at + REPLY_HEAD_MAX;
	head->bad = false;
	return true;
}

static void add_span(struct replies *replies, const uint8_t *bytes, uint32_t length)
{
	replies->spans[replies->last].iov_base = (void *)bytes;
	replies->spans[replies->last++].iov_len = length;
}

/* Heads without data lie one behind the other: they are one span. */
static void add_head(struct replies *replies, const uint8_t *bytes, uint32_t length)
{
	struct iovec *last = replies_empty(replies) ? NULL : &replies->spans[replies->last - 1];

	if (last && (uint8_t *)last->iov_base + last->iov_len == bytes)
		last->iov_len += length;
	else
		add_span(replies, bytes, length);
}

static void add_data(struct replies *replies, uint32_t length)
{
	while (length) {
		uint32_t part = min_of(length, (uint32_t)AREA);

		add_span(replies, area, part);
		length -= part;
	}
}

void replies_add(struct replies *replies, const struct xdr_out *head, uint32_t data)
{
	uint8_t *start = replies->heads + replies->heads_used;
	uint32_t length = head->at - start;
	uint32_t padded = data + xdr_pad(data);
	uint32_t mark = htobe32((length - RECORD_MARK_SIZE + padded) | RECORD_LAST_FRAGMENT);

	memcpy(start, &mark, RECORD_MARK_SIZE);
	replies->heads_used += length;
	add_head(replies, start, length);
	add_data(replies, padded);
}

static void drop(struct replies *replies, size_t length)
{
	while (length) {
		struct iovec *span = &replies->spans[replies->first];
		size_t part = min_of(length, span->iov_len);

		span->iov_base = (uint8_t *)span->iov_base + part;
		span->iov_len -= part;
		length -= part;
		if (!span->iov_len)
			replies->first++;
	}
}

int replies_send(struct replies *replies, int fd)
{
	while (!replies_empty(replies)) {
		struct msghdr message = {
			.msg_iov = &replies->spans[replies->first],
			.msg_iovlen = replies->last - replies->first,
		};
		ssize_t length = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (length < 0)
			return -errno;
		drop(replies, length);
	}
	return 0;
}
