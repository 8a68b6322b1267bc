/* SPDX-License-Identifier: GPL-2.0-only */
/* tcp_socket.h - a TCP socket: it begins to connect; what channels ask of it from then on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/transport.h"

/*
 * A socket that begins to connect and does not block, or a negative errno. It comes from
 * *source_port where that is not 0 and can be had; *source_port becomes its port. NULL is allowed.
 */
int tcp_connect(const struct rpc_address *address, uint16_t *source_port);

/*
 * 0: connected; -EINPROGRESS: not yet; another negative errno: failed. From 0 on it blocks, for
 * WAIT_SLICE_MS when it receives, unless it is used with MSG_DONTWAIT.
 */
int tcp_socket_connected(int fd);

/* transport.h's unheard() */
uint64_t tcp_socket_unheard(int fd);

/* Bytes that it holds, sent or not, because they have not been acknowledged. */
uint64_t tcp_socket_unacknowledged(int fd);

/* transport.h's names() */
void tcp_socket_names(int fd, char *local, char *remote, size_t size);

/* `at_once`: what it still holds does not reach the other end, and its port is free. */
void tcp_socket_close(int fd, bool at_once);
