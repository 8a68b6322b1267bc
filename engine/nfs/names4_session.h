/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * names4_session.h - the session of NFSv4.1 that names and files are asked over, beside those for
 * data: a connection of its own, one call at a time. What waits for the server does so as names.h
 * says, and leaves its words in `error`.
 */
#pragma once

#include "client/client.h"
#include "nfs/nfs4_client.h"
#include "nfs/path.h"

struct names {
	struct rpc_client rpc; /* with a session of its own */
	struct clock clock;
	struct counters counters;
	struct transport_counters transport;
	struct latency latency;
	struct path *path;
	bool given_up;
	bool found; /* the export */
	struct nfs_handle export;
	char room[4096]; /* for a path that is cut up */
	char error[256];
};

/* Waits until the session is ready. What failed has been logged, and there is nothing to close. */
int names4_connect(struct names **names, struct path *path);
void names4_close(struct names *names);

/* Waits for the answer to `request`. */
int names4_ask(struct names *names, struct nfs4_request *request);

/*
 * The same at the end of a run: for a second at the most, and not at all where the path is dead
 * while others go on. `names` may be NULL.
 */
void names4_tell(struct names *names, struct nfs4_request *request);

/* struct nfs_version's. Destroys what the server has of the path's client; waits for a second at
 * most.
 */
void names4_teardown(struct path *path);
