/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * connection.h - a client's connection: bytes in, calls answered in the order of their arrival,
 * replies out. All replies to what has arrived together leave together.
 */
#pragma once

#include "service.h"

struct connection;

/* Takes over the socket, which does not block; NULL: no memory. */
struct connection *connection_open(int fd, struct front *front);
void connection_close(struct connection *connection);

int connection_fd(const struct connection *connection);

/*
 * Serves what has arrived. 0: wait for more of it, -EAGAIN: wait until the client takes its
 * replies, another negative errno: close it (-ECONNRESET: the client is gone, -EPROTO: what it
 * says is not NFS).
 */
int connection_serve(struct connection *connection);
