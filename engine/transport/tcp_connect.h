/* SPDX-License-Identifier: GPL-2.0-only */
/* tcp_connect.h - a TCP socket that begins to connect, and the port that it comes from. */
#pragma once

#include "transport/transport.h"

/*
 * A socket that begins to connect and does not block, or a negative errno. It comes from
 * *source_port where that is not 0 and can be had; *source_port becomes its port. NULL is allowed.
 */
int tcp_connect(const struct rpc_address *address, uint16_t *source_port);
