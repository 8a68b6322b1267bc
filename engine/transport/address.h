/* SPDX-License-Identifier: GPL-2.0-only */
/* address.h - an end of a connection as text, and back. */
#pragma once

#include <stddef.h>
#include <sys/socket.h>

/* "address:port" or "[address]:port", or "?" for what is no internet address. */
void rpc_address_text(const struct sockaddr *address, char *text, size_t size);

/* Reads a literal address and a port's number. 0, or getaddrinfo(3)'s error, for gai_strerror(). */
int rpc_address_read(const char *host, const char *port, struct sockaddr_storage *address,
		     socklen_t *length);
