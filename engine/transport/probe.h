/* SPDX-License-Identifier: GPL-2.0-only */
/* probe.h - does anything listen there? */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

/*
 * Connects by TCP and closes again. 0, or a negative errno: connect(2)'s, -ETIMEDOUT after
 * `timeout` nanoseconds, -EINTR where stop() says so.
 */
int probe(const struct rpc_address *address, uint64_t timeout, bool (*stop)(void));
