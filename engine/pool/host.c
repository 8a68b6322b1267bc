/* SPDX-License-Identifier: GPL-2.0-only */
/* host.c - the host of a URL: a name or IPv4 address, a range of either, or an [IPv6] address. */
#include <stdio.h>
#include <string.h>

#include "grammar.h"

#define HOST_MAX 253 /* as text; RFC 1035 has 255 octets on the wire */

/* True for a name whose last part is a number: only an IPv4 address ends so. */
static bool ends_in_number(const char *name)
{
	const char *dot = strrchr(name, '.');
	const char *last = dot ? dot + 1 : name;

	return *last && !last[strspn(last, DIGITS)];
}

/* Reads FIRST-LAST]; the scanner is behind the '['. */
static int read_range(struct scanner *authority, struct host *host)
{
	const char *open = authority->at - 1;
	const char *first = authority->at, *end_of_first;
	bool read = scanner_number(authority, UINT32_MAX, &host->first);

	end_of_first = authority->at;
	read = read && scanner_take(authority, '-') &&
	       scanner_number(authority, UINT32_MAX, &host->last) && scanner_take(authority, ']');
	if (!read)
		return scanner_refuse(authority, open,
				      "'[...]' holds an IPv6 address, or a range of two numbers, "
				      "[FIRST-LAST]; for another choice of hosts, list the paths");
	if (host->first > host->last)
		return scanner_refuse(authority, open, "a range counts upwards: [%u-%u]",
				      host->last, host->first);
	host->ranged = true;
	host->digits = (int)(end_of_first - first);
	return 0;
}

/* Reads an IPv6 address and its ']'; the scanner is behind the '['. */
static int read_ipv6(struct scanner *authority, struct host *host)
{
	const char *open = authority->at - 1;

	host->before = scanner_until(authority, "]");
	if (!scanner_take(authority, ']'))
		return scanner_refuse(authority, open, "this '[' is never closed: [IPv6]");
	if (!address_is_valid(host->before))
		return scanner_refuse(authority, host->before.at, "'%s' is not an IPv6 address",
				      QUOTE(host->before));
	return 0;
}

static int read_name(struct scanner *authority, struct host *host)
{
	int err = 0;

	host->before = scanner_while(authority, NAME_CHARACTERS);
	if (scanner_take(authority, '[')) {
		err = read_range(authority, host);
		host->after = scanner_while(authority, NAME_CHARACTERS);
	}
	return err;
}

static bool bracket_holds_ipv6(struct scanner ahead)
{
	if (!scanner_take(&ahead, '['))
		return false;
	scanner_until(&ahead, ":]");
	return scanner_peek(&ahead) == ':';
}

static bool has_two_colons(struct scanner ahead)
{
	scanner_until(&ahead, ":");
	scanner_take(&ahead, ':');
	scanner_until(&ahead, ":");
	return scanner_peek(&ahead) == ':';
}

int host_read(struct scanner *authority, struct host *host)
{
	const char *at = authority->at;
	bool brackets = bracket_holds_ipv6(*authority);
	int err;

	*host = (struct host){.before = {at, at}, .after = {at, at}};
	if (!brackets && has_two_colons(*authority))
		return scanner_refuse(authority, at,
				      "an IPv6 address goes in brackets: nfs://[IPv6]/EXPORT");
	if (brackets)
		scanner_take(authority, '[');
	err = brackets ? read_ipv6(authority, host) : read_name(authority, host);
	if (err)
		return err;
	if (scanner_peek(authority) == '[')
		return scanner_refuse(authority, authority->at,
				      "a second '[': a host has one range; list the paths instead");
	if (!scanner_done(authority) && scanner_peek(authority) != ':')
		return scanner_refuse(authority, authority->at,
				      "a host has no such character, only letters, digits, "
				      "'-', '.' and '_'; behind it comes ':PORT' or '/EXPORT'");
	if (authority->at == at)
		return scanner_refuse(authority, at, "the host is missing: nfs://HOST/EXPORT");
	return 0;
}

unsigned int host_count(const struct host *host)
{
	uint32_t more = host->last - host->first;

	return more > POOL_PATHS_MAX ? POOL_PATHS_MAX + 1 : more + 1;
}

/* RFC 6874: in a URL the zone begins with "%25". Most people write "%" alone. */
static void decode_zone(char *name)
{
	static const char encoded[] = "%25";
	char *zone = strchr(name, ':') ? strstr(name, encoded) : NULL;

	if (zone && zone[strlen(encoded)])
		memmove(zone + 1, zone + strlen(encoded), strlen(zone + strlen(encoded)) + 1);
}

int host_name(const struct scanner *scanner, const struct host *host, unsigned int index,
	      char **name)
{
	int before = (int)span_length(host->before), after = (int)span_length(host->after);
	char number[HOST_MAX + 1] = "";
	char text[HOST_MAX + 1];
	int length = 0;

	if (host->ranged)
		length =
			snprintf(number, sizeof(number), "%0*u", host->digits, host->first + index);
	if (length <= HOST_MAX)
		length = snprintf(text, sizeof(text), "%.*s%s%.*s", before, host->before.at, number,
				  after, host->after.at);
	if (length > HOST_MAX)
		return scanner_refuse(scanner, host->before.at,
				      "a host's name has at most %d bytes", HOST_MAX);
	if (!strchr(text, ':') && ends_in_number(text) && !address_is_valid(span_over(text)))
		return scanner_refuse(scanner, host->before.at, "'%.40s' is not an IPv4 address",
				      text);
	decode_zone(text);
	*name = strdup(text);
	return *name ? 0 : pool_no_memory(scanner->err);
}
