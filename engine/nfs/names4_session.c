/* SPDX-License-Identifier: GPL-2.0-only */
/* names4_session.c - the session that names are asked over: opened, asked, and at the end destroyed
 * with all that the server has of the path's client. */
#include "nfs/names4_session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "nfs/nfs4_setup.h"
#include "client/client.h"
#include "wait.h"

static const uint64_t LEAVE_TIME = SEC;

/* --- opening and closing --- */

void names4_close(struct names *names)
{
	if (names->conn)
		conn_nfs.close(names->conn);
	free(names);
}

/* Waits until the channel is prepared. What failed has been logged, but for a time-out. */
static int await_ready(struct names *names)
{
	uint64_t deadline = clock_now() + path_names_timeout(names->path);
	const struct path *path = names->path;
	int error, stopped = 0;

	while (!stopped && (error = conn_nfs.ready(names->conn)) == -EINPROGRESS) {
		struct pollfd poll_fd = {
			.fd = conn_nfs.poll_fd(names->conn),
			.events = conn_nfs.poll_events(names->conn),
		};

		stopped = wait_slice(&poll_fd, 1, deadline, path->job.stop);
	}
	if (stopped)
		path->job.log("%s: port %u: %s", path->config.label, path->config.nfs_port,
			      stopped == -EINTR ? "the run was stopped"
						: "the server does not answer");
	return stopped ?: error;
}

int names4_connect(struct names **out, struct path *path)
{
	struct names *names = calloc(1, sizeof(*names));
	int error;

	if (!names)
		return -ENOMEM;
	names->path = path;
	names->job = (struct conn_job){.io_count = NFS4_NAMES_CALLS, .log = path->job.log};
	error = conn_nfs.open(&names->conn, path, &names->job) ?: await_ready(names);
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
	conn_nfs.abort(names->conn, -error);
	names->given_up =
		error != -EINTR; /* of a server that answers, leave is taken all the same */
	return error;
}

/*
 * When the server is given up. Once files are open the session does as it does with I/O: `hard`
 * goes on, `soft` ends, by timeo and retrans.
 */
static uint64_t names_deadline(const struct path *path)
{
	if (path->at_work && !path_has_stand_in(path))
		return WAIT_NO_DEADLINE;
	return clock_now() + path_names_timeout(path);
}

/* A server that asks to wait is there: it is given the time that it wants. */
static bool asks_to_wait(const struct names *names)
{
	const struct session_channel *channel = channel_of_const(names->conn);

	return !TAILQ_EMPTY(&channel->delayed) || channel->setup_at > clock_now();
}

/*
 * Waits for the answer to `request`: 0, or a negative errno with names->error set. Without stop()
 * there is no time to give the server.
 */
static int run_until(struct names *names, struct nfs4_request *request, uint64_t deadline,
		     bool (*stop)(void))
{
	struct conn *conn = names->conn;
	const struct request *base = &request->base;

	if (names->given_up)
		return -ENOTCONN;
	names->job.now = clock_now(); /* nobody has looked since the last answer */
	session_request(channel_of(conn), &request->base);
	conn_nfs.flush(conn);
	while (!base->done) {
		if (stop && stop())
			return give_up(names, -EINTR, "interrupted");
		if (stop && asks_to_wait(names))
			deadline = max_of(deadline, names_deadline(names->path));
		if (clock_now() > deadline)
			return give_up(names, -ETIMEDOUT, "the server does not answer");
		conn_nfs.reap(conn, true);
		conn_nfs.tick(conn);
	}
	if (base->error)
		snprintf(names->error, sizeof(names->error), "%s%s%s", base->status ?: "",
			 base->status && base->fault ? ": " : "", base->fault ?: "");
	return -base->error;
}

int names4_ask(struct names *names, struct nfs4_request *request)
{
	return run_until(names, request, names_deadline(names->path), names->path->job.stop);
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
		run_until(names, request, clock_now() + LEAVE_TIME, NULL);
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
	struct nfs4_state *own = channel_of(names->conn)->session->state, *state;
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

void names4_leave(struct path *path)
{
	if (may_ask(path->names))
		destroy_all(path->names, clock_now() + LEAVE_TIME);
	path_close_names(path);
	nfs4_path_free(path);
}
