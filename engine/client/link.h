/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * link.h - keeps one channel to the server: when the channel is lost, opens the next one, after
 * growing pauses, from the same address and port. A link has no callbacks, and never blocks. Errors
 * are negative errnos.
 */
#pragma once

#include <errno.h>
#include <poll.h>

#include "clock.h"
#include "transport/transport.h"
#include "wait.h"

struct link {
	const struct rpc_channel_ops *ops;
	struct rpc_terms terms; /* of each channel */
	struct clock *clock;
	uint16_t source_port;	     /* of the latest channel; the next one keeps it */
	struct rpc_channel *channel; /* NULL: none, the next is opened at retry_at */
	bool up;		     /* the channel is connected */
	bool was_up;		     /* a channel has been connected */
	struct patience connecting;
	uint64_t retry_at, retry_delay;
	uint64_t down_since;
	uint32_t epoch;	       /* changes with the channel */
	char why[RPC_WHY_MAX]; /* why the latest channel failed, in its own words; or empty */
};

/* Begins to connect. Before the first call, the owner sets ops, terms and clock; what they point to
 * outlives the link, which itself sets terms.source_port and terms.why. */
int link_open(struct link *link);

/*
 * One step towards a connected channel. 0: connected, *came_up where that is new; -EINPROGRESS: not
 * yet; another error: the caller must call link_close() and link_retry_later().
 */
int link_step(struct link *link, bool *came_up);

/* Closes the channel, if there is one. `owed`: it has unanswered calls. */
void link_close(struct link *link, bool owed);

/* Plans the next channel, after a pause that grows each time; link_answered() resets the pause. */
void link_retry_later(struct link *link);
static inline void link_answered(struct link *link)
{
	link->retry_delay = 0;
}

/* True where a channel failed because the server broke the protocol. */
static inline bool link_broke_protocol(int error)
{
	return error == -EPROTO || error == -EBADMSG || error == -EMSGSIZE;
}

/* Why the latest channel failed, for people. */
const char *link_failure(const struct link *link, int error);

/* What to poll for; the descriptor is -1 where there is no channel. */
static inline int link_poll_fd(const struct link *link)
{
	return link->channel ? link->channel->fd : -1;
}

static inline short link_poll_events(const struct link *link)
{
	const struct rpc_channel_ops *ops = link->ops;

	if (link->up)
		return ops->poll_events(link->channel);
	if (link->channel && ops->connect_events)
		return ops->connect_events(link->channel);
	return POLLIN | POLLOUT;
}

/* Nanoseconds without a connected channel; 0: there is one. */
static inline uint64_t link_down_for(const struct link *link, uint64_t now)
{
	return link->up || now < link->down_since ? 0 : now - link->down_since;
}
