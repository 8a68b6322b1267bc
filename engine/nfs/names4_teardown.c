/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/names4_teardown.h"

#include "nfs/nfs4_setup.h"

/*
 * Until when one answer is waited for, since leave is taken. A job that was told to end has given
 * the server its time before; nfsmulti-export, which was, has not.
 */
static uint64_t answer_deadline(struct names *names, uint64_t since)
{
	bool late = names->path->job.stop();
	uint64_t each = late ? 500 * MSEC : 2500 * MSEC, all = late ? 2 * SEC : 10 * SEC;

	return min_of(clock_read(&names->clock) + each, since + all);
}

/* However many paths are silent, and however many files are to be closed. */
static bool is_over(const struct names *names)
{
	return names->path->job.over && names->path->job.over();
}

static void ask(struct names *names, struct nfs4_request *request, uint64_t since)
{
	if (!is_over(names))
		names_ask_until(names, &request->base, answer_deadline(names, since), NULL);
}

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
		ask(names, request, clock_read(&names->clock));
}

static void destroy_session(struct names *names, const struct nfs4_session *session, uint64_t since)
{
	const struct nfs4_path *mine = names->path->state;
	struct nfs4_request request;

	nfs4_ask(&request, NFS4_BIND_CONN_TO_SESSION, mine->client, session);
	ask(names, &request, since);
	nfs4_ask(&request, NFS4_DESTROY_SESSION, mine->client, session);
	ask(names, &request, since);
}

/* The session that asks goes last: its channel goes on without it. */
static void destroy_all(struct names *names, uint64_t since)
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
			destroy_session(names, session, since);
			session->alive = false;
		}
	}
	destroy_session(names, &own->session, since);
	own->session.alive = false;
	if (!last)
		return;
	nfs4_ask(&request, NFS4_DESTROY_CLIENTID, client, NULL);
	ask(names, &request, since);
}

void names4_teardown(struct path *path)
{
	if (may_ask(path->names))
		destroy_all(path->names, clock_read(&path->names->clock));
	path_close_names(path);
	nfs4_path_free(path);
}
