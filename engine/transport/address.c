/* SPDX-License-Identifier: GPL-2.0-only */
/* address.c - an end of a connection as text, and back. */
#include "transport/transport.h"

#include <netdb.h>
#include <string.h>

void rpc_address_text(const struct sockaddr *address, char *text, size_t size)
{
	bool six = address->sa_family == AF_INET6;
	socklen_t length = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getnameinfo(address, length, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(text, size, "?");
	else
		snprintf(text, size, six ? "[%s]:%s" : "%s:%s", host, port);
}

static bool is_one_hosts(const struct sockaddr_storage *address)
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
	in_addr_t four = ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr);

	if (address->ss_family == AF_INET6)
		return !IN6_IS_ADDR_UNSPECIFIED(six) && !IN6_IS_ADDR_MULTICAST(six);
	return four != INADDR_ANY && !IN_MULTICAST(four);
}

/* Binds a UDP socket (`from` NULL: does not), and connects it, which sends nothing. 0 or -errno. */
static int probe(const struct sockaddr_storage *from, const struct sockaddr_storage *to)
{
	int fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), error = 0;

	if (fd < 0)
		return -errno;
	if ((from && bind(fd, (const struct sockaddr *)from, sizeof(*from))) ||
	    connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		error = -errno;
	close(fd);
	return error;
}

bool rpc_address_is_ours(const struct sockaddr_storage *local)
{
	int error = is_one_hosts(local) ? probe(local, local) : -EADDRNOTAVAIL;

	return error != -EADDRNOTAVAIL && error != -EACCES; /* EACCES: a broadcast address */
}

bool rpc_address_has_source(const struct sockaddr_storage *remote)
{
	return probe(NULL, remote) != -EADDRNOTAVAIL;
}

int rpc_address_read(const char *host, const char *port, struct sockaddr_storage *address,
		     socklen_t *length)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *found;
	int error = getaddrinfo(host, port, &hints, &found);

	if (error)
		return error;
	memcpy(address, found->ai_addr, found->ai_addrlen);
	*length = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}
