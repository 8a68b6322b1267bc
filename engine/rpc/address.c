/* SPDX-License-Identifier: GPL-2.0-only */
#include "rpc/address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>

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
