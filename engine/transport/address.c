/* SPDX-License-Identifier: GPL-2.0-only */
/* address.c - an end of a connection as text, and back. */
#include "transport/transport.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

int rpc_address_test(const struct sockaddr_storage *local)
{
	const struct sockaddr *address = (const struct sockaddr *)local;
	int fd, error = 0;

	if (!is_one_hosts(local))
		return -EADDRNOTAVAIL;
	fd = socket(local->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, address, sizeof(*local)))
		error = -errno;
	else if (connect(fd, address, sizeof(*local)) && errno == EACCES) /* a broadcast address */
		error = -EADDRNOTAVAIL;
	close(fd);
	return error;
}

bool rpc_address_has_source(const struct sockaddr_storage *remote)
{
	int fd = socket(remote->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool has = fd < 0 || !connect(fd, (const struct sockaddr *)remote, sizeof(*remote)) ||
		   errno != EADDRNOTAVAIL;

	if (fd >= 0)
		close(fd);
	return has;
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
