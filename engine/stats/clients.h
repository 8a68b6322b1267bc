/* SPDX-License-Identifier: GPL-2.0-only */
/* clients.h - a job's last lines about its clients (nclients=): a line for each question below,
 * never one for each client. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "stats/latency.h"
#include "stats/outages.h"

struct client_figures {
	uint32_t number;     /* as in struct client_label */
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
