/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/names4_teardown.h"

#include "nfs/nfs4_setup.h"

static const uint64_t LEAVE_TIME = SEC;

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
		names_ask_until(names, &request->base, clock_read(&names->clock) + LEAVE_TIME,
				NULL);
}

static void destroy_session(struct names *names, const struct nfs4_session *session,
			    uint64_t deadline)
{
	const struct nfs4_path *mine = names->path->state;
	struct nfs4_request request;

	nfs4_ask(&request, NFS4_BIND_CONN_TO_SESSION, mine->client, session);
	names_ask_until(names, &request.base, deadline, NULL);
	nfs4_ask(&request, NFS4_DESTROY_SESSION, mine->client, session);
	names_ask_until(names, &request.base, deadline, NULL);
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
	names_ask_until(names, &request.base, deadline, NULL);
}

void names4_teardown(struct path *path)
{
	if (may_ask(path->names))
		destroy_all(path->names, clock_read(&path->names->clock) + LEAVE_TIME);
	path_close_names(path);
	nfs4_path_free(path);
}
