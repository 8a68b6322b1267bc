/* SPDX-License-Identifier: GPL-2.0-only */
/* names4.c - names in NFSv4.1 alone: the way to the export, OPEN and CLOSE, SECINFO. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/names.h"
#include "nfs/nfs4_client.h"
#include "nfs/version.h"

/* --- one request of the protocol's own --- */

static int ask(struct names *names, enum nfs4_operation operation, struct nfs4_request *request)
{
	bool resent;
	int error;

	if (request->name && strlen(request->name) > NFS4_NAME_MAX)
		return names_fail(names, -ENAMETOOLONG, "a name is longer than 255 bytes");
	request->operation = operation;
	error = names_request(names, &request->base);
	if (!error || (error = names_find_again(names, &request->handle, error)))
		return error;
	request->handle = names->export;
	resent = request->base.resent;
	error = names_request(names, &request->base);
	request->base.resent |= resent;
	return error;
}

/* --- the export --- */

/* What to do about `error`; "" where the status does not tell. */
static const char *export_hint(int error)
{
	switch (error) {
	case -ENOENT:
	case -ENOTDIR:
		return ": use the path within the server's pseudo file system, from showmount or "
		       "its configuration (Pseudo, fsid=0)";
	case -EACCES:
	case -EPERM: return ": does the export allow this host, this user and this sec=?";
	default: return "";
	}
}

/* Says which part of the export's path is wrong: `name`, or NULL: the server's root. */
static int export_failed(const struct names *names, const char *name, int error)
{
	const struct path *path = names->path;

	if (error == -ETIMEDOUT || error == -EINTR) /* no answer: the path may be right */
		path_say(path, "cannot find the export: %s",
			 error == -EINTR ? "the run was stopped" : names->error);
	else if (name)
		path_say(path, "\"%s\" of the export's path: %s (%s)%s", name, names->error,
			 strerror(-error), export_hint(error));
	else
		path_say(path, "the server's root: %s (%s)%s", names->error, strerror(-error),
			 export_hint(error));
	return error;
}

/* Walks from the server's root, which has no handle yet; *name: the component that failed. */
static int walk_to_export(struct names *names, char **name)
{
	static const struct nfs_handle none;
	const struct nfs4_path *mine = names->path->state;
	struct meta_result found;
	struct names_item root = {.result = &found};
	int error = names_ask_name(names, META_ROOT, &none, &root);

	if (error)
		return error;
	mine->client->lease_time = found.attributes.limits.lease_time;
	error = names_walk_all(names, &root.handle, names->path->config.export, false, name);
	if (!error)
		names->export = root.handle;
	return error;
}

/* Keeps names->room, which holds the name of the current question. */
static int find_export(struct names *names)
{
	char room[sizeof(names->room)], *name;
	int error;

	memcpy(room, names->room, sizeof(room));
	error = walk_to_export(names, &name);
	memcpy(names->room, room, sizeof(room));
	return error;
}

static int open_names(struct names **out, struct path *path)
{
	char *name = NULL;
	int error = names_connect(out, path);

	if (error)
		return error;
	/* After an error *out stays, too: teardown needs it. */
	error = nfs4_path_check_trunking(path->state);
	if (!error && (error = walk_to_export(*out, &name)))
		export_failed(*out, name, error);
	(*out)->found = !error;
	return error;
}

/* SECINFO asks the directory above the export, SECINFO_NO_NAME the root itself. Both also work with
 * a flavor that the export does not take (RFC 8881, 2.6.3.1). */
static int find_flavors(struct names **out, struct path *path, struct flavors *flavors)
{
	struct nfs4_request request = {0};
	struct names *names;
	char *name = NULL;
	int error = names_connect(out, path);

	if (error)
		return error;
	names = *out;
	error = names_walk(names, &request.handle, path->config.export, false, &name);
	request.name = name;
	if (!error)
		error = ask(names, name ? NFS4_SECINFO : NFS4_SECINFO_NO_NAME, &request);
	if (error)
		return export_failed(names, name, error);
	*flavors = request.flavors;
	return 0;
}

/* --- opens --- */

static int give_back(struct names *names, enum nfs4_operation operation,
		     const struct nfs_handle *handle, const struct nfs4_stateid *stateid)
{
	struct nfs4_request request = {.handle = *handle, .stateid = *stateid};

	return ask(names, operation, &request);
}

/* Opens `name` in a directory; returns a delegation, which nobody asked for, at once. */
static int open_found(struct names *names, const char *owner, enum nfs4_access access, bool create,
		      struct nfs4_request *request)
{
	const struct nfs4_path *mine = names->path->state;
	int error;

	request->open = (struct nfs4_open){
		.client = mine->client->id,
		.owner = owner,
		.owner_length = (uint32_t)strlen(owner),
		.access = access,
		.create = create,
		.claim = NFS4_CLAIM_NULL,
		.name = request->name,
	};
	error = ask(names, NFS4_OPEN, request);
	if (!error && request->opened.delegated)
		error = give_back(names, NFS4_DELEGRETURN, &request->found,
				  &request->opened.delegation);
	return error;
}

static int create(struct names *names, const struct nfs_handle *directory, struct names_item *item)
{
	const struct nfs4_path *mine = names->path->state;
	struct nfs4_request request = {.handle = *directory, .name = item->name};
	int error = open_found(names, mine->owner, NFS4_ACCESS_BOTH, true, &request);

	item->resent = request.base.resent || request.found.length;
	return error ?: give_back(names, NFS4_CLOSE, &request.found, &request.opened.stateid);
}

/* --- returning state to the server --- */

/*
 * Sends a request whose result does not matter, unless the job is over. `since`: when the first of
 * its series was sent. Waits at most 2.5 s for the reply, and 10 s for the series; in a stopped
 * run, which has usually waited for the server before, 0.5 s and 2 s.
 */
static void tell(struct names *names, struct nfs4_request *request, uint64_t since)
{
	const struct path_job *job = &names->path->job;
	bool late = job->stop();
	uint64_t each = late ? 500 * MSEC : 2500 * MSEC, all = late ? 2 * SEC : 10 * SEC;
	uint64_t deadline = min_of(clock_read(&names->clock) + each, since + all);

	if (!job->over || !job->over())
		names_request_until(names, &request->base, deadline, NULL);
}

/*
 * False while a connection of the path is dead, except in a stopped run: then the server is asked,
 * since it may answer for names, if not for data. Also false if `names` is NULL, or has given up.
 * State that is not returned ends with the lease.
 */
static bool may_ask(const struct names *names)
{
	return names && !names->given_up && (!names->path->dead || names->path->job.stop());
}

/* --- files --- */

/* Finds file `name` and opens it; with open=none a special stateid replaces OPEN's. */
static int open_by_name(struct names *names, const char *name, struct nfs4_file *file)
{
	static const struct nfs4_stateid special;
	struct nfs4_request request = {0};
	char *last = NULL;
	int error;

	if (file->stateless)
		error = names_directory(names, name, false, &request.found);
	else
		error = names_find(names, name, false, &request.handle, &last);
	request.name = last;
	if (!error && !file->stateless)
		error = open_found(names, file->owner, file->access, false, &request);
	if (error)
		return error;
	file->handle = request.found;
	nfs4_client_file_opened(file, file->stateless ? &special : &request.opened.stateid,
				clock_read(&names->clock));
	return 0;
}

static int open_file(struct names *names, uint32_t number, const char *name, bool writes,
		     void **out)
{
	struct nfs4_file *file = nfs4_client_new_file(names->path->state, number, NULL);
	int error;

	if (!file)
		return -ENOMEM;
	file->access = writes ? NFS4_ACCESS_BOTH : NFS4_ACCESS_READ;
	/* nclients: each client opens the file itself. */
	file->stateless = file->stateless || names->path->job.clients;
	error = open_by_name(names, name, file);
	if (error) {
		free(file);
		return error;
	}
	TAILQ_INSERT_TAIL(&file->path->files, file, link);
	*out = file;
	return 0;
}

static void close_file(struct names *names, void *state)
{
	struct nfs4_file *file = state;
	struct nfs4_request request = {
		.operation = NFS4_CLOSE, .handle = file->handle, .stateid = file->stateid};

	if (!file->stateless && !file->lost && !file->gone && may_ask(names))
		tell(names, &request, clock_read(&names->clock));
	nfs4_client_free_file(file);
}

/* --- limits --- */

/* Bytes of data in one call: at most `offered`, and what a message of `message` bytes can carry.
 * Each may be 0, unknown: a server need not return its limit (RFC 8881, 5.7). */
static uint64_t fitting(uint64_t offered, uint32_t message)
{
	uint32_t room =
		message ? message - min_of(message, (uint32_t)NFS4_MESSAGE_ROOM) : UINT32_MAX;

	return min_of(offered ?: UINT32_MAX, room);
}

static void fit_limits(const struct names *names, struct meta_limits *limits)
{
	const struct nfs4_client *client = ((struct nfs4_path *)names->path->state)->client;

	limits->read_max = fitting(limits->read_max, client->response_max);
	limits->write_max = fitting(limits->write_max, client->request_max);
}

/* --- the end --- */

static void destroy_session(struct names *names, const struct nfs4_session *session, uint64_t since)
{
	const struct nfs4_path *mine = names->path->state;
	struct nfs4_request request;

	nfs4_ask(&request, NFS4_BIND_CONN_TO_SESSION, mine->client, session);
	tell(names, &request, since);
	nfs4_ask(&request, NFS4_DESTROY_SESSION, mine->client, session);
	tell(names, &request, since);
}

/* True where no other path needs the client: with nclients=, those that rest do not. */
static bool is_last(const struct nfs4_path *mine)
{
	const struct nfs4_path *one;

	LIST_FOREACH (one, &mine->client->paths, link)
		if (one != mine && (one->path->names || !one->path->job.clients))
			return false;
	return true;
}

/* The session in use is destroyed last: DESTROY_CLIENTID needs its channel, but no session. */
static void destroy_all(struct names *names, uint64_t since)
{
	struct nfs4_client *client = ((struct nfs4_path *)names->path->state)->client;
	struct nfs4_state *own = names->rpc.state, *state;
	bool last = is_last(names->path->state);
	uint32_t lease_time = client->lease_time;
	struct nfs4_request request;

	client->lease_time = 0; /* the lease is not renewed meanwhile */
	LIST_FOREACH (state, &client->sessions, link) {
		if (state != own && state->session.alive &&
		    (last || !state->path || state->path == names->path)) {
			destroy_session(names, &state->session, since);
			state->session.alive = false;
		}
	}
	destroy_session(names, &own->session, since);
	own->session.alive = false;
	if (!last) {
		client->lease_time = lease_time;
		return;
	}
	nfs4_ask(&request, NFS4_DESTROY_CLIENTID, client, NULL);
	tell(names, &request, since);
}

/*
 * Destroys at the server the path's sessions, and after the client's last path the client, in at
 * most 10 s, or 2 s in a stopped run. Stops at the first missing answer. The next question makes
 * the client known again: lease and files stay.
 */
static void rest(struct path *path)
{
	struct nfs4_client *client = ((struct nfs4_path *)path->state)->client;
	bool last = is_last(path->state);

	if (may_ask(path->names))
		destroy_all(path->names, clock_read(&path->names->clock));
	path_close_names(path);
	if (last)
		client->named = client->known = client->complete = false;
}

static void teardown(struct path *path)
{
	rest(path);
	nfs4_path_free(path);
}

/* --- struct nfs_version --- */

static const struct nfs_handle *handle_of(const void *file)
{
	return &((const struct nfs4_file *)file)->handle;
}

const struct nfs_version nfs_version_4 = {
	.protocol = &nfs4_protocol,
	.handle_max = NFS4_FHSIZE,
	.open_names = open_names,
	.find_export = find_export,
	.flavors = find_flavors,
	.create = create,
	.fit_limits = fit_limits,
	.open_file = open_file,
	.close_file = close_file,
	.handle = handle_of,
	.teardown = teardown,
	.own_file = nfs4_own_file,
	.close_own_file = nfs4_close_own_file,
	.leave = nfs4_leave,
	.rest = rest,
};
