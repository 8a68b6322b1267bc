/* SPDX-License-Identifier: GPL-2.0-only */
/* tcp_socket.h - a TCP socket: connecting, and what channels ask of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/transport.h"

/*
 * A non-blocking socket that connects, or a negative errno. It comes from *source_port where that
 * is not 0 and is free; *source_port becomes its port. NULL is allowed.
 */
int tcp_connect(const struct rpc_address *address, uint16_t *source_port);

/*
 * 0: connected; -EINPROGRESS: not yet; another negative errno: failed. A connected socket blocks,
 * for WAIT_SLICE_MS when it receives, unless MSG_DONTWAIT is given.
 */
int tcp_socket_connected(int fd);

/* transport.h's unheard() */
uint64_t tcp_socket_unheard(int fd);

/* Bytes written and not acknowledged yet, whether sent or not. */
uint64_t tcp_socket_unacknowledged(int fd);

/* transport.h's names() */
void tcp_socket_names(int fd, char *local, char *remote, size_t size);

/* `at_once`: discards unacknowledged bytes, and frees the port. */
void tcp_socket_close(int fd, bool at_once);
