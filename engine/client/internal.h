/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * internal.h - the interfaces between the files of client/. Each file calls only functions of files
 * listed above it; client.c calls all of them.
 */
#pragma once

#include "client/client.h"

/* True where other connections can take over the client's calls. */
static inline bool client_is_replaceable(const struct rpc_client *rpc)
{
	return rpc->events->role(rpc) == CLIENT_REPLACEABLE;
}

/* --- call.c, beside call.h --- */

/* Free the call of session set-up, or of a probe, if there is one: these calls are in no list. */
void client_drop_setup(struct rpc_client *rpc, bool answered);
void client_drop_probe(struct rpc_client *rpc);

/* These implement struct rpc_handler. */
void client_reply_finished(void *context, void *token);
void client_call_refused(void *context, uint32_t xid, int error, const char *why);

/* The channel has failed with a negative errno: its calls wait for the next channel. */
void client_lose(struct rpc_client *rpc, int error);

/* --- send.c --- */

/* Sends session set-up first, then waiting calls until the channel takes no more. */
void client_send(struct rpc_client *rpc);

/* Sends a liveness probe, a NULL call. A probe that cannot be sent counts as unanswered. */
void client_probe(struct rpc_client *rpc);

/* --- reply.c --- */

/* Implements struct rpc_handler. */
int client_reply_begins(void *context, const struct rpc_reply *reply, struct rpc_bulk *bulk);
