/* SPDX-License-Identifier: GPL-2.0-only */
/* path_client.h - an RPC client of a path's server: what those for I/O and for names share. */
#pragma once

#include "client/client.h"
#include "nfs/path.h"

/* One for path_client_init(); its events, clock, counters, latency and calls_max are to be added.
 */
struct rpc_client path_client(struct path *path);

/* client_init() and client_free(), and its credentials'. */
int path_client_init(struct rpc_client *rpc);
void path_client_free(struct rpc_client *rpc);

/*
 * client_ready(), by up to five channels where the next may take what the one before failed by;
 * and -ETIMEDOUT where the server does not answer what comes before I/O for longer
 * than path_names_timeout(). What failed has been logged.
 */
int path_client_ready(struct rpc_client *rpc);

/* Waits until it is ready: 0, or a negative errno (-EINTR: the run was stopped), logged. */
int path_client_await(struct rpc_client *rpc);
