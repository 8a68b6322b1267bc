/* SPDX-License-Identifier: GPL-2.0-only */
/* addresses.c - ranges of addresses: ADDRESS, FIRST-LAST, or PREFIX/LENGTH, whose first and last
 * address are left out if the prefix has more than two. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

#include "grammar.h"
#include "util.h"

/* The address in network byte order. */
static uint8_t *bytes_of(struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET6)
		return ((struct sockaddr_in6 *)address)->sin6_addr.s6_addr;
	return (uint8_t *)&((struct sockaddr_in *)address)->sin_addr;
}

static uint32_t bits_of(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 ? 128 : 32;
}

/* The address's last 32 bits, the only ones in which the addresses of a range differ. */
static uint8_t *low_bytes(struct sockaddr_storage *address)
{
	return bytes_of(address) + bits_of(address) / 8 - sizeof(uint32_t);
}

static uint32_t low_bits(struct sockaddr_storage *address)
{
	uint32_t low;

	memcpy(&low, low_bytes(address), sizeof(low));
	return ntohl(low);
}

static void add(struct sockaddr_storage *address, uint32_t number)
{
	uint32_t low = htonl(low_bits(address) + number);

	memcpy(low_bytes(address), &low, sizeof(low));
}

/* Reads an address without a zone. */
static bool read_one(struct span span, struct sockaddr_storage *address)
{
	char text[INET6_ADDRSTRLEN];

	*address = (struct sockaddr_storage){.ss_family = AF_INET};
	if (span_length(span) >= sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)span_length(span), span.at);
	if (inet_pton(AF_INET, text, bytes_of(address)) == 1)
		return true;
	address->ss_family = AF_INET6;
	return inet_pton(AF_INET6, text, bytes_of(address)) == 1;
}

bool address_is_valid(struct span address)
{
	struct scanner scanner = {.at = address.at, .end = address.end};
	struct sockaddr_storage read;

	if (!read_one(scanner_until(&scanner, "%"), &read))
		return false;
	if (!scanner_take(&scanner, '%'))
		return true;
	return read.ss_family == AF_INET6 &&
	       span_length(scanner_while(&scanner, NAME_CHARACTERS)) && scanner_done(&scanner);
}

/* True if all bits from number `from` on are 0. */
static bool ends_in_zeros(struct sockaddr_storage *address, uint32_t from)
{
	const uint8_t *bytes = bytes_of(address);

	for (uint32_t bit = from; bit < bits_of(address); bit++)
		if (bytes[bit / 8] & 0x80 >> bit % 8)
			return false;
	return true;
}

/* Reads the length of a prefix; the scanner is behind the '/'. */
static bool read_prefix(struct scanner *scanner, struct address_range *range)
{
	uint32_t bits = bits_of(&range->first), length;
	uint64_t size;

	if (!scanner_number(scanner, bits, &length) || !scanner_done(scanner) ||
	    !ends_in_zeros(&range->first, length))
		return false;
	size = 1ull << min_of(bits - length, 32u);
	if (size > 2) {
		add(&range->first, 1);
		size -= 2;
	}
	range->count = (uint32_t)size;
	return true;
}

/* Reads the last address of a range; the scanner is behind the '-'. */
static bool read_last(struct scanner *scanner, struct address_range *range)
{
	struct sockaddr_storage last;
	size_t alike = bits_of(&range->first) / 8 - sizeof(uint32_t);
	uint32_t first = low_bits(&range->first);

	if (!read_one(scanner_until(scanner, ""), &last) ||
	    last.ss_family != range->first.ss_family || low_bits(&last) < first ||
	    memcmp(bytes_of(&last), bytes_of(&range->first), alike) != 0)
		return false;
	range->count = min_of(low_bits(&last) - first, UINT32_MAX - 1) + 1;
	return true;
}

const char *address_range_read(const char *text, size_t length, struct address_range *range)
{
	struct scanner scanner = {.text = text, .at = text, .end = text + length};

	*range = (struct address_range){0};
	if (!read_one(scanner_until(&scanner, "-/"), &range->first))
		return "not an address";
	range->count = 1;
	if (scanner_take(&scanner, '/'))
		return read_prefix(&scanner, range)
			       ? NULL
			       : "not a prefix, with only zeros behind its length";
	if (scanner_take(&scanner, '-'))
		return read_last(&scanner, range)
			       ? NULL
			       : "not a range, from the lower to the higher address";
	return NULL;
}

const char *address_text(const struct sockaddr_storage *address, char text[ADDRESS_TEXT])
{
	socklen_t length = address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							  : sizeof(struct sockaddr_in);

	if (getnameinfo((const struct sockaddr *)address, length, text, ADDRESS_TEXT, NULL, 0,
			NI_NUMERICHOST))
		snprintf(text, ADDRESS_TEXT, "?");
	return text;
}

uint64_t addresses_in(const struct address_range *ranges, uint32_t count)
{
	uint64_t total = ranges->count;

	for (uint32_t i = 1; i < count; i++)
		total += ranges[i].count;
	return total;
}

struct sockaddr_storage address_in_turn(const struct address_range *ranges, uint32_t count,
					uint32_t turn)
{
	uint64_t place = turn % addresses_in(ranges, count);
	struct sockaddr_storage address;

	while (place >= ranges->count)
		place -= (ranges++)->count;
	address = ranges->first;
	add(&address, (uint32_t)place);
	return address;
}
