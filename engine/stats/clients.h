/* SPDX-License-Identifier: GPL-2.0-only */
/* clients.h - what the clients of nclients= have been through, and a job's last lines about them: a
 * line for each question below, never one for each client. */
#pragma once

#include "stats/latency.h"

/*
 * --- when a client first did I/O, and when it could do none ---
 *
 * An outage begins when a client that can do I/O loses its connection. It ends when the server
 * answers an I/O or, if the client has none to do, as soon as the client can send I/O again. A
 * connection that is lost before that belongs to the same outage. Times are nanoseconds of the
 * caller's clock; 0: it has not happened.
 */

enum { OUTAGES_KEPT = 3 };

struct outage {
	uint64_t lost;
	uint64_t back;	   /* I/O could be sent again; the last such time, if there were several */
	uint64_t answered; /* an I/O was answered, for the first time since then */
	uint64_t ended;	   /* the outage was over: `answered` or, with nothing to do, `back` */
};

/* All 0 at first. Connections that are not reported need no outages_begin(). */
struct outages {
	bool awaited; /* the next answer must call outages_answered(): the first, or after a loss */
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

/* True if no outage is going on. */
bool outages_over(const struct outages *outages);

/* How many outages are kept; kept outage `number`, from 0, the oldest first. */
uint32_t outages_kept(const struct outages *outages);
const struct outage *outages_get(const struct outages *outages, uint32_t number);

/* Writes the outages into the client's line of the stats file (json_line.h), in microseconds. */
void outages_write(FILE *out, const struct outages *outages);

/* --- all clients of a job --- */

struct client_figures {
	uint32_t number;     /* client_name='s %d */
	uint64_t operations; /* answered without an error: a client with none was not served */
	uint64_t errors;     /* I/Os that failed */
	const struct histogram *rtt;
	const struct outages *outages;
	const char *why; /* why it was not served, or is not back */
};

/*
 * Calls say() with each line, without a newline:
 * - how many were served, and how evenly: Jain's index is 1 if all did the same, and 1/N if one did
 * all. It hides a few starved clients, and shows nothing if the job gives each the same number of
 * I/Os: so the line also names the slowest and the fastest client;
 * - how many lost their connection, and how soon they were back: each by its longest outage;
 * - why clients were not served, or are not back, and how many.
 * If the job did no I/O, only the first line: the job has already logged why.
 */
enum { CLIENTS_LINE = 384 };
void clients_tell(const struct client_figures *clients, uint32_t count,
		  void (*say)(const char *line));
