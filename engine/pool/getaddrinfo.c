/* SPDX-License-Identifier: GPL-2.0-only */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "getaddrinfo.h"

static int explain(int failed, char *why, size_t why_size)
{
	snprintf(why, why_size, "%s",
		 failed == EAI_SYSTEM ? strerror(errno) : gai_strerror(failed));
	return failed == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH;
}

static bool has_family(const struct addrinfo *list, int family)
{
	for (; list; list = list->ai_next)
		if (list->ai_family == family)
			return true;
	return false;
}

static int resolve(const char *host, int family, struct addrinfo **list, char *why, size_t why_size)
{
	/* One socket type, so that each address is listed once. */
	struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM};
	int failed = getaddrinfo(host, NULL, &hints, list);

	return failed ? explain(failed, why, why_size) : 0;
}

int pool_getaddrinfo(const char *host, int family, struct sockaddr_storage *addrs, unsigned int max,
		     char *why, size_t why_size)
{
	struct addrinfo *list;
	unsigned int count = 0;
	int error = resolve(host, family, &list, why, why_size);

	if (error)
		return error;
	if (family == AF_UNSPEC)
		family = has_family(list, AF_INET) ? AF_INET : AF_INET6;
	for (struct addrinfo *found = list; found && count < max; found = found->ai_next) {
		if (found->ai_family != family)
			continue;
		memset(&addrs[count], 0, sizeof(addrs[count]));
		memcpy(&addrs[count++], found->ai_addr, found->ai_addrlen);
	}
	freeaddrinfo(list);
	return (int)count;
}
