/* SPDX-License-Identifier: GPL-2.0-only */
#include "tls_records.h"

#include <endian.h>
#include <string.h>

#include "util.h"

static uint64_t next_key(struct tls_keys *keys)
{
	return token_key(keys->key, keys->number++);
}

void tls_keys_update(struct tls_keys *keys)
{
	*keys = (struct tls_keys){.key = token_key(keys->key, TLS_UPDATE)};
}

size_t tls_record_seal(struct tls_keys *keys, enum tls_record_type type, const void *bytes,
		       size_t length, uint8_t *record)
{
	uint8_t wire_type = (uint8_t)type;
	const struct iovec parts[] = {{&wire_type, 1}, {(void *)bytes, length}};
	uint16_t size = htobe16((uint16_t)(TOKEN_WRAP + 1 + length));

	memcpy(record, &size, TLS_HEAD);
	token_wrap(next_key(keys), parts, 2, record + TLS_HEAD);
	return TLS_HEAD + TOKEN_WRAP + 1 + length;
}

static size_t size_of(const struct tls_incoming *incoming)
{
	uint16_t size;

	memcpy(&size, incoming->bytes, TLS_HEAD);
	return TLS_HEAD + min_of((size_t)be16toh(size), sizeof(incoming->bytes) - TLS_HEAD);
}

size_t tls_record_missing(const struct tls_incoming *incoming)
{
	if (incoming->have < TLS_HEAD)
		return TLS_HEAD - incoming->have;
	return size_of(incoming) - incoming->have;
}

bool tls_record_open(struct tls_keys *keys, struct tls_incoming *incoming,
		     struct tls_record *record)
{
	uint32_t length;
	uint8_t *plain;
	bool good = token_unwrap(next_key(keys), incoming->bytes + TLS_HEAD,
				 (uint32_t)(incoming->have - TLS_HEAD), &plain, &length);

	incoming->have = 0;
	if (!good || !length)
		return false;
	*record = (struct tls_record){(enum tls_record_type) * plain, plain + 1, length - 1};
	return true;
}
