/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * internal.h - the interfaces between the files of client/. Each calls only those above it here;
 * client.c calls them all.
 */
#pragma once

#include "client/client.h"

/* True where other connections can take over the client's calls. */
static inline bool client_is_replaceable(const struct rpc_client *rpc)
{
	return rpc->events->role(rpc) == CLIENT_REPLACEABLE;
}

/* --- call.c, beside call.h --- */

/* Drop the call of session set-up, or of a probe, if there is one: these stand in no list. */
void client_drop_setup(struct rpc_client *rpc, bool answered);
void client_drop_probe(struct rpc_client *rpc);

/* struct rpc_handler's. */
void client_reply_finished(void *context, void *token);
void client_call_refused(void *context, uint32_t xid, int error, const char *why);

/* --- disconnect.c --- */

/* The channel has failed with a negative errno: its calls wait for the next channel. */
void client_lose(struct rpc_client *rpc, int error);

/* --- send.c --- */

/* Sends waiting calls, as far as the channel takes them; session set-up first. */
void client_send(struct rpc_client *rpc);

/* Sends a liveness probe, a NULL call. A probe that cannot be sent counts as unanswered. */
void client_probe(struct rpc_client *rpc);

/* --- reply.c --- */

/* struct rpc_handler's. */
int client_reply_begins(void *context, const struct rpc_reply *reply, struct rpc_bulk *bulk);
