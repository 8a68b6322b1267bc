/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * resolve.h - the resolver of the C library, as pool_resolve() takes it. The one part of this
 * directory that does I/O.
 *
 * A name that has addresses of both families stands for its IPv4 ones, unless AF_INET6 is asked
 * for: they are two ways to one interface, and not two paths.
 */
#pragma once

#include "pool.h"

int pool_getaddrinfo(const char *host, int family, struct sockaddr_storage *addrs, unsigned int max,
		     char *why, size_t why_size);
