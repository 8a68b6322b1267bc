/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * names_client.h - the client that names and files of a path are asked by, beside those for data: a
 * connection of its own, over TCP, and one call at a time. What waits for the server does so as
 * names.h says, and leaves its words in `error`.
 */
#pragma once

#include "client/client.h"
#include "nfs/meta.h"
#include "nfs/names.h"
#include "nfs/path.h"
#include "nfs/status.h"

enum { NAMES_CALLS = 1 };

struct names {
	struct rpc_client rpc;
	struct rpc_timing timing;
	struct clock clock;
	struct counters counters;
	struct transport_counters transport;
	struct latency latency;
	struct path *path;
	bool connects;		  /* it has a client: else the next question makes one */
	bool given_up;		  /* the server did not answer: nothing is asked any more */
	bool found;		  /* the export */
	struct nfs_handle export; /* its root */
	char room[4096];	  /* names_walk.h's: a path that is cut up */
	enum answer answer;	  /* who said the latest error, in the words of `error` */
	char error[420];
};

/* Waits until the client is ready. What failed has been logged, and there is nothing to close. */
int names_connect(struct names **names, struct path *path);
void names_close(struct names *names);

/* A path's: opened, and anew where they were given up or found no export. */
int path_names_ready(struct path *path);
/* Lets them go at once. */
void path_close_names(struct path *path);

/* Lets the connection go, until something is asked. */
void names_rest(struct names *names);

/* Waits for the answer to `request`. */
int names_ask(struct names *names, struct rpc_request *request);

/* The same until `deadline`; without stop() there is no time to give the server. */
int names_ask_until(struct names *names, struct rpc_request *request, uint64_t deadline,
		    bool (*stop)(void));

/* Returns `error`, with `words` in names->error. */
int names_fail(struct names *names, int error, const char *words);

/* The words of the latest error, and who said it. */
const char *names_error(const struct names *names);
enum answer names_answer(const struct names *names);
