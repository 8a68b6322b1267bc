/* SPDX-License-Identifier: GPL-2.0-only */
/* clients.h - what a job's last lines tell of its clients (nclients=): a line for each matter,
 * never one for each client. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "stats/latency.h"
#include "stats/outages.h"

struct client_figures {
	uint32_t number;     /* client_label's */
	uint64_t operations; /* answered without an error: a client with none was not served */
	uint64_t errors;     /* I/Os that failed */
	const struct histogram *rtt;
	const struct outages *outages;
	const char *why; /* why it was not served, or is not back */
};

/*
 * Has each line said, without a newline:
 * - how many were served, and how evenly: Jain's index is 1 where all did the same, and 1/N where
 * one did all. It hides a few starved ones, and says nothing where the job gives all of them as
 * many I/Os: so the slowest and the fastest are told, too;
 * - how many lost their connection, and how soon they were back: each by its longest outage;
 * - why clients were not served, or are not back, and how many.
 * Of a job that did no I/O, which has told why, the first line alone.
 */
enum { CLIENTS_LINE = 384 };
void clients_tell(const struct client_figures *clients, uint32_t count,
		  void (*say)(const char *line));
