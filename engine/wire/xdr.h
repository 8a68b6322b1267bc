/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * xdr.h - bounded cursors over XDR (RFC 4506), one for writing and one for reading.
 *
 * A cursor that is asked for more than it holds turns bad and stays bad: from then on it stores
 * nothing and its numbers are 0. So a whole message is encoded or decoded, and checked once. What
 * was read before is then not valid either.
 */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct xdr_out {
	uint8_t *at, *end;
	bool bad;
};

/* Why nothing more is read: the bytes have ended, or what they say cannot be (xdr_require()). */
enum xdr_flaw { XDR_SOUND, XDR_SHORT, XDR_WRONG };

struct xdr_in {
	const uint8_t *at, *end;
	enum xdr_flaw bad;
};

/* The bytes that bring `length` up to a multiple of four (RFC 4506, 3). */
static inline uint32_t xdr_pad(uint32_t length)
{
	return -length & 3;
}

/* Room for `size` bytes, a multiple of four, which are to be written there; or NULL. */
static inline uint8_t *xdr_room(struct xdr_out *out, size_t size)
{
	uint8_t *room = out->at;

	if ((size_t)(out->end - room) < size)
		out->bad = true;
	if (out->bad)
		return NULL;
	out->at += size;
	return room;
}

static inline void xdr_put_fixed(struct xdr_out *out, const void *bytes, uint32_t length)
{
	uint32_t pad = xdr_pad(length);
	uint8_t *room = xdr_room(out, (size_t)length + pad);

	if (!room)
		return;
	memcpy(room, bytes, length);
	if (pad)
		memset(room + length, 0, pad);
}

static inline void xdr_put_u32(struct xdr_out *out, uint32_t value)
{
	const uint32_t wire = htobe32(value);

	xdr_put_fixed(out, &wire, sizeof(wire));
}

static inline void xdr_put_u64(struct xdr_out *out, uint64_t value)
{
	xdr_put_u32(out, value >> 32);
	xdr_put_u32(out, (uint32_t)value);
}

/* Variable-length opaque or string: its length, then its bytes. */
static inline void xdr_put_opaque(struct xdr_out *out, const void *bytes, uint32_t length)
{
	xdr_put_u32(out, length);
	xdr_put_fixed(out, bytes, length);
}

/* Steps over `length` bytes and their pad: where they begin, or NULL. */
static inline const uint8_t *xdr_skip(struct xdr_in *in, uint32_t length)
{
	const uint8_t *bytes = in->at;
	size_t padded = (size_t)length + xdr_pad(length);

	if ((size_t)(in->end - bytes) < padded && !in->bad)
		in->bad = XDR_SHORT;
	if (in->bad)
		return NULL;
	in->at += padded;
	return bytes;
}

static inline void xdr_get_fixed(struct xdr_in *in, void *to, uint32_t length)
{
	const uint8_t *bytes = xdr_skip(in, length);

	if (bytes)
		memcpy(to, bytes, length);
}

static inline uint32_t xdr_get_u32(struct xdr_in *in)
{
	const uint8_t *bytes = xdr_skip(in, sizeof(uint32_t));
	uint32_t wire = 0;

	if (bytes)
		memcpy(&wire, bytes, sizeof(wire));
	return be32toh(wire);
}

static inline uint64_t xdr_get_u64(struct xdr_in *in)
{
	uint64_t high = xdr_get_u32(in);

	return high << 32 | xdr_get_u32(in);
}

/* Nothing more is read unless `sound`, or if bytes were missing before. */
static inline void xdr_require(struct xdr_in *in, bool sound)
{
	if (!sound && !in->bad)
		in->bad = XDR_WRONG;
}

static inline bool xdr_get_bool(struct xdr_in *in)
{
	uint32_t value = xdr_get_u32(in);

	xdr_require(in, value <= 1);
	return value == 1;
}

/* Reads an opaque or a string of at most `max` bytes; returns its length. `to`: NULL to skip it. */
static inline uint32_t xdr_get_opaque(struct xdr_in *in, void *to, uint32_t max)
{
	uint32_t length = xdr_get_u32(in);
	const uint8_t *bytes;

	xdr_require(in, length <= max);
	bytes = xdr_skip(in, length);
	if (!bytes)
		return 0;
	if (to)
		memcpy(to, bytes, length);
	return length;
}
