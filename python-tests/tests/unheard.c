/* SPDX-License-Identifier: GPL-2.0-only */
/* unheard.c - a socket to a host, and how long that has not been heard, for tests to call. */
#include <string.h>

#include "transport/stream.h"

int socket_to(uint16_t port);
uint64_t socket_unheard(int fd);

/* Connects to this machine. */
int socket_to(uint16_t port)
{
	struct sockaddr_in remote = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct rpc_address address = {.remote_length = sizeof(remote)};

	remote.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	memcpy(&address.remote, &remote, sizeof(remote));
	return tcp_connect(&address, NULL);
}

uint64_t socket_unheard(int fd)
{
	const struct rpc_channel channel = {.fd = fd};

	return tcp_socket_unheard(&channel);
}
