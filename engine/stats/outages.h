/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * outages.h - when a client of nclients= first did I/O, and when it could do none.
 *
 * An outage begins when a client that could do I/O loses its connection, and ends when the server
 * answers an I/O, or, where the client has none to do, as soon as it could do I/O: connections that
 * are lost before that are part of the same outage. Times are nanoseconds of the caller's clock,
 * not 0; 0: it has not happened.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { OUTAGES_KEPT = 3 };

struct outage {
	uint64_t lost;
	uint64_t back;	   /* I/O could be sent again: the latest time before the answer */
	uint64_t answered; /* the first I/O after that was answered */
	bool waited;	   /* there was I/O to do at `back` */
};

/* All 0 at first, which is also good for connections of which nothing is told. */
struct outages {
	bool awaited; /* outages_answered() is due: at the first I/O, and in an outage */
	bool up;      /* I/O can be sent */
	uint32_t count;
	uint64_t begun;			  /* when the client first began to connect */
	uint64_t first_io;		  /* when its first I/O was answered */
	uint64_t longest;		  /* nanoseconds, of the outages that are over */
	struct outage kept[OUTAGES_KEPT]; /* the newest: number n is kept[n % OUTAGES_KEPT] */
};

/* The client begins to connect, for the first time. */
void outages_begin(struct outages *outages, uint64_t now);

/* I/O can be sent; `waits`: there is I/O to do. May be called while the client is up. */
void outages_up(struct outages *outages, uint64_t now, bool waits);

/* The connection is lost. May be called before the client was up. */
void outages_lost(struct outages *outages, uint64_t now);

/* An I/O was answered without an error. */
void outages_answered(struct outages *outages, uint64_t now);

/* When an outage ended; 0: not yet. */
static inline uint64_t outage_end(const struct outage *outage)
{
	return outage->waited ? outage->answered : outage->back;
}

/* True where no outage lasts. */
bool outages_over(const struct outages *outages);

/* How many outages are kept; kept outage `number`, from 0, the oldest first. */
uint32_t outages_kept(const struct outages *outages);
const struct outage *outages_get(const struct outages *outages, uint32_t number);

/* The client's members of its line of the stats file (json_line.h), in microseconds. */
void outages_write(FILE *out, const struct outages *outages);
