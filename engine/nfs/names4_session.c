/* SPDX-License-Identifier: GPL-2.0-only */
/* names4_session.c - the session that names are asked over: opened, asked, and at the end destroyed
 * with all that the server has of the path's client. */
#include "nfs/names4_session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/nfs4_setup.h"
#include "nfs/path_client.h"
#include "nfs/version.h"
#include "wait.h"

static const uint64_t LEAVE_TIME = SEC;

/* --- opening and closing --- */

void names4_close(struct names *names)
{
	client_close(&names->rpc);
	client_free(&names->rpc);
	free(names);
}

/* Waits until the client is prepared. What failed has been logged. */
static int await_ready(struct names *names)
{
	uint64_t deadline = clock_read(&names->clock) + path_names_timeout(names->path);
	const struct path *path = names->path;
	const struct link *link = &names->rpc.link;
	int error, stopped = 0;

	while (!stopped && (error = path_client_ready(&names->rpc)) == -EINPROGRESS) {
		struct pollfd poll_fd = {
			.fd = link_poll_fd(link),
			.events = link_poll_events(link),
		};

		stopped = clock_read(&names->clock) > deadline
				  ? -ETIMEDOUT
				  : wait_slice(&poll_fd, 1, WAIT_NO_DEADLINE, path->job.stop);
	}
	if (stopped)
		path->job.log("%s: port %u: %s", path->config.label, path->config.nfs_port,
			      stopped == -EINTR ? "the run was stopped"
						: "the server does not answer");
	return stopped ?: error;
}

/* Nobody stands in for it, and it moves no data. */
static enum client_role role(const struct rpc_client *rpc)
{
	return CLIENT_ALONE;
}

static void ignore_health(struct rpc_client *rpc)
{
}

static const struct client_events events = {.role = role, .health_changed = ignore_health};

static int begin_opening(struct names *names)
{
	struct path *path = names->path;
	struct rpc_terms terms = {
		.address = path_next_address(path, false),
		.counters = &names->transport,
		.reply_max = PATH_IO_MAX + RPC_REPLY_HEAD_MAX,
		.calls_max = NFS4_NAMES_CALLS,
	};
	int error;

	names->clock.read = path->job.clock ?: clock_monotonic;
	names->rpc = path_client(path);
	names->rpc.events = &events;
	names->rpc.clock = &names->clock;
	names->rpc.counters = &names->counters;
	names->rpc.latency = &names->latency;
	names->rpc.calls_max = NFS4_NAMES_CALLS;
	error = client_init(&names->rpc);
	if (error)
		return error;
	error = client_open(&names->rpc, &rpc_tcp, &terms);
	if (error)
		path->job.log("%s: cannot open a connection: %s", path->config.label,
			      strerror(-error));
	return error;
}

int names4_connect(struct names **out, struct path *path)
{
	struct names *names = calloc(1, sizeof(*names));
	int error;

	if (!names)
		return -ENOMEM;
	names->path = path;
	error = begin_opening(names) ?: await_ready(names);
	if (error) {
		names4_close(names);
		return error;
	}
	*out = names;
	return 0;
}

/* --- asking --- */

static int give_up(struct names *names, int error, const char *words)
{
	snprintf(names->error, sizeof(names->error), "%s", words);
	client_abort(&names->rpc, -error);
	names->given_up =
		error != -EINTR; /* of a server that answers, leave is taken all the same */
	return error;
}

/*
 * When the server is given up. Once files are open the session does as it does with I/O: `hard`
 * goes on, `soft` ends, by timeo and retrans.
 */
static uint64_t names_deadline(struct names *names)
{
	const struct path *path = names->path;

	if (path->at_work && !path_has_stand_in(path))
		return WAIT_NO_DEADLINE;
	return clock_read(&names->clock) + path_names_timeout(path);
}

/*
 * Waits for the answer to `request`: 0, or a negative errno with names->error set. Without stop()
 * there is no time to give the server.
 */
static int run_until(struct names *names, struct nfs4_request *request, uint64_t deadline,
		     bool (*stop)(void))
{
	struct rpc_client *rpc = &names->rpc;
	const struct rpc_request *base = &request->base;

	if (names->given_up)
		return -ENOTCONN;
	clock_read(&names->clock); /* nobody has looked since the last answer */
	client_request(rpc, &request->base);
	client_flush(rpc);
	while (!base->done) {
		if (stop && stop())
			return give_up(names, -EINTR, "interrupted");
		if (stop && client_is_asked_to_wait(rpc)) /* it is there, and given its time */
			deadline = max_of(deadline, names_deadline(names));
		if (clock_read(&names->clock) > deadline)
			return give_up(names, -ETIMEDOUT, "the server does not answer");
		client_reap(rpc, true);
		client_tick(rpc);
	}
	if (base->error)
		snprintf(names->error, sizeof(names->error), "%s%s%s", base->status ?: "",
			 base->status && base->fault ? ": " : "", base->fault ?: "");
	return -base->error;
}

int names4_ask(struct names *names, struct nfs4_request *request)
{
	return run_until(names, request, names_deadline(names), names->path->job.stop);
}

/* --- leaving --- */

/*
 * A path that is dead is not asked while others go on; at the end the server may well answer what
 * belongs to no data. What it does not hear of ends with its lease.
 */
static bool may_ask(const struct names *names)
{
	return names && !names->given_up && (!names->path->dead || names->path->job.stop());
}

void names4_tell(struct names *names, struct nfs4_request *request)
{
	if (may_ask(names))
		run_until(names, request, clock_read(&names->clock) + LEAVE_TIME, NULL);
}

static void destroy_session(struct names *names, const struct nfs4_session *session,
			    uint64_t deadline)
{
	const struct nfs4_path *mine = names->path->state;
	struct nfs4_request request;

	nfs4_ask(&request, NFS4_BIND_CONN_TO_SESSION, mine->client, session);
	run_until(names, &request, deadline, NULL);
	nfs4_ask(&request, NFS4_DESTROY_SESSION, mine->client, session);
	run_until(names, &request, deadline, NULL);
}

/* The session that asks goes last: its channel goes on without it. */
static void destroy_all(struct names *names, uint64_t deadline)
{
	struct nfs4_client *client = ((struct nfs4_path *)names->path->state)->client;
	struct nfs4_state *own = names->rpc.state, *state;
	bool last = LIST_FIRST(&client->paths) && !LIST_NEXT(LIST_FIRST(&client->paths), link);
	struct nfs4_session *session;
	struct nfs4_request request;

	client->lease_time = 0; /* not renewed any more */
	LIST_FOREACH (session, &client->sessions, link) {
		state = container_of(session, struct nfs4_state, session);
		if (state != own && session->alive &&
		    (last || !state->path || state->path == names->path)) {
			destroy_session(names, session, deadline);
			session->alive = false;
		}
	}
	destroy_session(names, &own->session, deadline);
	own->session.alive = false;
	if (!last)
		return;
	nfs4_ask(&request, NFS4_DESTROY_CLIENTID, client, NULL);
	run_until(names, &request, deadline, NULL);
}

void names4_teardown(struct path *path)
{
	if (may_ask(path->names))
		destroy_all(path->names, clock_read(&path->names->clock) + LEAVE_TIME);
	path_close_names(path);
	nfs4_path_free(path);
}
