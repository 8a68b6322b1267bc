/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * internal.h - what the files of client/ have of each other. Each calls only those that stand
 * above it here; session.c calls them all.
 */
#pragma once

#include "group/path.h"
#include "client/client.h"

static inline const struct path_config *config_of(const struct session_channel *channel)
{
	return &channel->session->path->config;
}

/* --- loss.c --- */

/* Give back the calls that stand in no list, if there are any. */
void channel_drop_setup(struct session_channel *channel, bool answered);
void channel_drop_probe(struct session_channel *channel);

/* The channel has failed, by a negative errno: its calls wait for the next one. */
void channel_lose(struct session_channel *channel, int error);

/* --- reply.c and verdict.c: struct rpc_handler's functions --- */

int session_reply_begins(void *context, const struct rpc_reply *reply, struct rpc_bulk *bulk);
void session_reply_finished(void *context, void *token);
void session_call_refused(void *context, uint32_t xid, int error, const char *why);

/* --- send.c --- */

/* Sends what waits, as far as the channel takes it; what comes before I/O first. */
void channel_send(struct session_channel *channel);

/* Asks the server for a sign of life. What cannot be sent counts as not answered. */
void channel_ask(struct session_channel *channel);

/* --- watch.c --- */

/* Does what is due. False: other connections are about to take over, so that nothing may go out. */
bool channel_watch(struct session_channel *channel, uint64_t now);
