/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sessions.h - the sink's clients and sessions (core/clients.h): slots, and the last sequence
 * number seen in each. Replies are not kept: a call that comes again is told so. No open is kept.
 *
 * Safe for use by several threads, since a session may span connections. The latest SESSIONS_MAX
 * sessions are known, so that clients which vanish leave nothing that has to be cleared away.
 */
#pragma once

/* Before any call is served; `name`: this server's (struct exchange). */
void sessions_init(const char *name);
