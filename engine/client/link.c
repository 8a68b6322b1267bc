/* SPDX-License-Identifier: GPL-2.0-only */
#include "client/link.h"

#include <string.h>

#include "client/timers.h"

/*
 * TCP repeats a SYN after 1 and 3 s, and a new connection begins within 1 s after a failed one. So
 * a path that recovers is noticed within 3 s (TLS: 4 s), or a second later if the server still has
 * the old connection.
 */
static const uint64_t CONNECT_TIME = 5 * SEC;
/* Added for TLS: Linux's server gives up a handshake after 5 s, which begin later than ours. */
static const uint64_t HANDSHAKE_TIME = 2500 * MSEC;

int link_open(struct link *link)
{
	int error;

	link->terms.source_port = &link->source_port;
	link->terms.why = link->why;
	link->why[0] = '\0';
	link->began = link->clock->read(link->clock);
	error = link->ops->open(&link->channel, &link->terms);
	if (error)
		return error;
	link->connecting = patience_begin(link->began, link->connect_time ?: CONNECT_TIME);
	if (link->ops->traits & RPC_SHAKES_HANDS)
		link->connecting.deadline += HANDSHAKE_TIME;
	link->epoch++;
	return 0;
}

int link_step(struct link *link, bool *came_up)
{
	uint64_t now;
	int error;

	*came_up = false;
	if (link->up)
		return 0;
	now = link->clock->read(link->clock);
	if (!link->channel) {
		if (now < link->retry_at)
			return -EINPROGRESS;
		error = link_open(link);
		if (error)
			return error;
	}
	error = link->ops->connected(link->channel);
	if (error == -EINPROGRESS && patience_over(&link->connecting, now))
		return -ETIMEDOUT;
	if (error)
		return error;
	*came_up = link->up = link->was_up = true;
	link->began = 0;
	return 0;
}

void link_close(struct link *link, bool owed)
{
	if (link->channel)
		link->ops->close(link->channel, owed);
	link->channel = NULL;
	if (link->up)
		link->down_since = link->clock->read(link->clock);
	link->up = false;
	link->epoch++;
}

void link_retry_later(struct link *link, bool refused)
{
	uint64_t now = link->clock->read(link->clock);

	switch (link->reconnect) {
	case RECONNECT_JITTER: link->retry_at = now + timer_jitter(&link->random); break;
	case RECONNECT_LINUX: link->retry_at = timer_linux(refused ? now : link->began, now); break;
	default:
		link->retry_at = now + link->retry_delay;
		link->retry_delay = timer_backoff(link->retry_delay);
	}
}

const char *link_failure(const struct link *link, int error)
{
	if (*link->why)
		return link->why;
	if (error == -EKEYEXPIRED)
		error = -ECONNRESET; /* the better known errno */
	return link_broke_protocol(error) ? "the server's messages are broken" : strerror(-error);
}
