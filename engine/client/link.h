/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * link.h - keeps one channel to the server connected: after a loss it opens the next channel from
 * the same address and port. The pauses between attempts grow, or are random. A link has no
 * callbacks, and never blocks. Errors are negative errnos.
 */
#pragma once

#include "transport/transport.h"
#include "wait.h"

struct link {
	const struct rpc_channel_ops *ops;
	struct rpc_terms terms; /* of each channel */
	struct clock *clock;
	uint16_t source_port;	     /* of the latest channel; the next one tries it first */
	struct rpc_channel *channel; /* NULL: none; link_step() opens the next at retry_at */
	bool up;		     /* the channel is connected */
	bool was_up;		     /* this channel or an earlier one has been connected */
	struct patience connecting;
	uint64_t began; /* when the latest connect began; 0: it succeeded */
	uint64_t retry_at, retry_delay;
	uint64_t connect_time;	  /* set by the owner: the longest of a connect; 0: 5 s */
	enum reconnect reconnect; /* set by the owner */
	uint32_t random;	  /* the state of jitter's generator */
	uint64_t down_since;
	uint32_t epoch;	       /* counts openings and closings of channels */
	char why[RPC_WHY_MAX]; /* the transport's text why the latest channel failed, or empty */
};

/* Begins to connect. Returns 0 or a negative errno. The owner first sets ops, terms (but not its
 * source_port and why) and clock, perhaps connect_time, reconnect and random; what these point to
 * must outlive the link. */
int link_open(struct link *link);

/*
 * Takes one step towards a connected channel. Returns 0 once it is connected (*came_up: just now),
 * -EINPROGRESS before; after another error the caller calls link_close() and link_retry_later().
 */
int link_step(struct link *link, bool *came_up);

/* Closes the channel, if there is one. `owed`: calls sent over it are unanswered. */
void link_close(struct link *link, bool owed);

/* Schedules the next channel. The pause grows from 0 to 1 s, until the owner sets retry_delay to 0
 * again; with jitter it is random, and with linux as timer_linux() has it. `refused`: the server
 * has refused session set-up over the latest channel. */
void link_retry_later(struct link *link, bool refused);

/* True for errors that mean: the server broke the protocol. */
static inline bool link_broke_protocol(int error)
{
	return error == -EPROTO || error == -EBADMSG || error == -EMSGSIZE;
}

/* The text of a message: why the latest channel failed with `error`. */
const char *link_failure(const struct link *link, int error);

/* The descriptor and events for poll(2); the descriptor is -1 where there is no channel. */
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

/* Nanoseconds since the channel was lost; `now` if none was ever up; 0: one is up. */
static inline uint64_t link_down_for(const struct link *link, uint64_t now)
{
	return link->up || now < link->down_since ? 0 : now - link->down_since;
}
