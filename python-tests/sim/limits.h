/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * limits.h - how long the job's terms let a call wait: nfs(5)'s rules, stated here apart from the
 * engine's timers.h. All are upper bounds, in nanoseconds.
 */
#pragma once

#include "clock.h"

/* "retrans": a soft call fails when timeo, and as much again for each retransmission, is over. */
uint64_t limit_soft(void);

/*
 * "timeo": each copy of a call is waited for by timeo longer than the one before it, at most 600 s.
 * The wait for the latest copy of a call that has had no answer for `unanswered`, while connections
 * were lost so often: each of them may have cost a copy.
 */
uint64_t limit_copy(uint64_t unanswered, uint64_t losses);

/* A call that was asked to come later, by NFS3ERR_JUKEBOX or NFS4ERR_DELAY, waits no longer. */
static const uint64_t LIMIT_DELAY = 5 * SEC;
/* The same, where all calls wait for it. */
static const uint64_t LIMIT_SETUP_DELAY = SEC;

/* Until a connection is there again, and a session: the terms do not say it. */
static const uint64_t LIMIT_CONNECT = 10 * SEC;
