/* SPDX-License-Identifier: GPL-2.0-only */
/* unheard.c - how long a socket's other host has not been heard, for tests to call. */
#include "transport/stream.h"

uint64_t socket_unheard(int fd);

uint64_t socket_unheard(int fd)
{
	const struct rpc_channel channel = {.fd = fd};

	return tcp_socket_unheard(&channel);
}
