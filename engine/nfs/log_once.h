/* SPDX-License-Identifier: GPL-2.0-only */
/* log_once.h - what people are told of a client: once for a path, however many clients notice it.
 */
#pragma once

#include "client/events.h"

/* Of clients whose `server` is a struct path. */
extern const struct client_log log_once;

/* The server does not answer what comes before I/O: for so long that the client is given up. */
void log_unanswered(struct rpc_client *rpc);

/* It has refused that again and again, for as long. */
void log_refused(struct rpc_client *rpc);

/* Nor does the KDC, without which it has no context. */
void log_no_context(struct rpc_client *rpc);
