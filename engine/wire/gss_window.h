/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * gss_window.h - sequence numbers of one RPCSEC_GSS context, and how far they may go.
 *
 * A server drops a call whose number lies below the window (RFC 2203, 5.3.3.1); some servers close
 * the connection as well. A server's threads may take calls in any order, so the oldest unanswered
 * number limits the next one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { GSS_WINDOW_MAX = 256 }; /* our limit: the rest of a larger window is not used */

struct gss_window {
	uint32_t size;		      /* the server's, at most GSS_WINDOW_MAX */
	uint32_t oldest, next;	      /* the oldest unanswered number; the next to give */
	bool awaited[GSS_WINDOW_MAX]; /* numbers whose answer is waited for */
};

static inline void gss_window_open(struct gss_window *window, uint32_t size)
{
	memset(window, 0, sizeof(*window));
	window->size = size < GSS_WINDOW_MAX ? size : GSS_WINDOW_MAX;
	window->oldest = window->next = 1;
}

/* A window of one or two takes one call at a time. */
static inline bool gss_window_has_room(const struct gss_window *window)
{
	uint32_t room = window->size > 2 ? window->size - 1 : 1;

	return window->next - window->oldest < room;
}

static inline uint32_t gss_window_take(struct gss_window *window)
{
	window->awaited[window->next % GSS_WINDOW_MAX] = true;
	return window->next++;
}

/* The number's answer is not waited for any more. A number given back before is ignored. */
static inline void gss_window_give_back(struct gss_window *window, uint32_t number)
{
	if (number - window->oldest >= window->next - window->oldest)
		return;
	window->awaited[number % GSS_WINDOW_MAX] = false;
	while (window->oldest != window->next && !window->awaited[window->oldest % GSS_WINDOW_MAX])
		window->oldest++;
}

static inline void gss_window_give_all_back(struct gss_window *window)
{
	window->oldest = window->next;
}
