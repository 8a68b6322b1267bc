/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/names4.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "nfs/nfs4_client.h"
#include "nfs/nfs4_setup.h"
#include "session/session.h"
#include "wait.h"

struct names {
	struct conn *conn;   /* a channel with a session of its own */
	struct conn_job job; /* which it has for itself */
	struct path *path;
	bool given_up;
	bool found; /* the export */
	struct nfs4_handle export;
	char error[256];
};

static const uint64_t LEAVE_TIME = SEC;

static int give_up(struct names *names, int error, const char *words)
{
	snprintf(names->error, sizeof(names->error), "%s", words);
	conn_nfs.abort(names->conn, -error);
	names->given_up =
		error != -EINTR; /* of a server that answers, leave is taken all the same */
	return error;
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
	session_request(channel_of(conn), &request->base);
	conn_nfs.flush(conn);
	while (!base->done) {
		if (stop && stop())
			return give_up(names, -EINTR, "interrupted");
		if (stop && asks_to_wait(names))
			deadline = clock_now() + path_names_timeout(names->path);
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

static int run(struct names *names, struct nfs4_request *request)
{
	return run_until(names, request, clock_now() + path_names_timeout(names->path),
			 names->path->job.stop);
}

/* --- what is asked --- */

static uint32_t begin(const struct nfs4_request *request, struct nfs4_results *results)
{
	return nfs4_next_result(results, request->handle.length ? NFS4_PUTFH : NFS4_PUTROOTFH);
}

static void put_lookup(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	nfs4_put_handle(compound, &request->handle);
	if (request->name)
		nfs4_put_lookup(compound, request->name);
	nfs4_put_getfh(compound);
	nfs4_put_getattr(compound, request->limits);
}

static uint32_t get_found(struct nfs4_request *request, struct nfs4_results *results)
{
	uint32_t status = nfs4_next_result(results, NFS4_GETFH);

	if (status)
		return status;
	nfs4_get_handle(results, &request->found);
	status = nfs4_next_result(results, NFS4_GETATTR);
	if (!status)
		nfs4_get_attributes(results, &request->attributes);
	return status;
}

static uint32_t get_lookup(struct nfs4_request *request, struct nfs4_results *results)
{
	uint32_t status = begin(request, results);

	if (!status && request->name)
		status = nfs4_next_result(results, NFS4_LOOKUP);
	return status ?: get_found(request, results);
}

static void put_open(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	nfs4_put_handle(compound, &request->handle);
	nfs4_put_open(compound, &request->open);
	nfs4_put_getfh(compound);
}

static uint32_t get_open(struct nfs4_request *request, struct nfs4_results *results)
{
	uint32_t status = begin(request, results) ?: nfs4_next_result(results, NFS4_OPEN);

	if (status)
		return status;
	nfs4_get_open(results, &request->opened);
	status = nfs4_next_result(results, NFS4_GETFH);
	if (!status)
		nfs4_get_handle(results, &request->found);
	return status;
}

static void put_close(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	nfs4_put_handle(compound, &request->handle);
	if (request->operation == NFS4_CLOSE)
		nfs4_put_close(compound, &request->stateid);
	else
		nfs4_put_delegreturn(compound, &request->stateid);
}

static uint32_t get_close(struct nfs4_request *request, struct nfs4_results *results)
{
	uint32_t status = begin(request, results) ?: nfs4_next_result(results, request->operation);

	if (!status && request->operation == NFS4_CLOSE)
		nfs4_skip_close(results);
	return status;
}

static void put_mkdir(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	nfs4_put_handle(compound, &request->handle);
	nfs4_put_mkdir(compound, request->name, DIRECTORY_MODE);
}

static uint32_t get_mkdir(struct nfs4_request *request, struct nfs4_results *results)
{
	uint32_t status = begin(request, results) ?: nfs4_next_result(results, NFS4_CREATE);

	if (!status)
		nfs4_skip_mkdir(results);
	return status;
}

static void put_remove(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	nfs4_put_handle(compound, &request->handle);
	nfs4_put_remove(compound, request->name);
}

static uint32_t get_remove(struct nfs4_request *request, struct nfs4_results *results)
{
	uint32_t status = begin(request, results) ?: nfs4_next_result(results, NFS4_REMOVE);

	if (!status)
		nfs4_skip_remove(results);
	return status;
}

/* --- walking --- */

/* `name` in the directory `in`, or `in` itself where name is NULL. */
static int look_up(struct names *names, const struct nfs4_handle *in, const char *name,
		   struct nfs4_request *request)
{
	*request = (struct nfs4_request){
		.operation = NFS4_LOOKUP,
		.sequenced = true,
		.put = put_lookup,
		.get = get_lookup,
		.handle = *in,
		.name = name,
	};
	return run(names, request);
}

/* Splits the first component off; NULL: there is none. An error: it is longer than a name may be.
 */
static char *component(struct names *names, char **rest, int *error)
{
	char *name;

	do
		name = strsep(rest, "/");
	while (name && !*name);
	if (name && strlen(name) > NFS4_NAME_MAX) {
		snprintf(names->error, sizeof(names->error), "a name is longer than %d bytes",
			 NFS4_NAME_MAX);
		*error = -ENAMETOOLONG;
	}
	return name;
}

/*
 * Walks from *at down all components of `path` but the last, making directories that are missing
 * where so said. `path` is cut up; *last is its last component, NULL where it has none.
 */
static int walk(struct names *names, struct nfs4_handle *at, char *path, bool make, char **last)
{
	struct nfs4_request request;
	char *name, *next;
	int error = 0;

	name = component(names, &path, &error);
	while (!error && name && (next = component(names, &path, &error))) {
		if (!error)
			error = look_up(names, at, name, &request);
		if (error == -ENOENT && make) {
			request = (struct nfs4_request){
				.operation = NFS4_CREATE,
				.sequenced = true,
				.cached = true,
				.put = put_mkdir,
				.get = get_mkdir,
				.handle = *at,
				.name = name,
			};
			error = run(names, &request);
			if (!error || error == -EEXIST)
				error = look_up(names, at, name, &request);
		}
		if (!error)
			*at = request.found;
		name = next;
	}
	*last = name;
	return error;
}

/* Where `name` is to be found: the directory's handle, and its name there. */
static int find_parent(struct names *names, const char *name, char *room, size_t size, bool make,
		       struct nfs4_handle *parent, char **last)
{
	int error;

	if ((size_t)snprintf(room, size, "%s", name) >= size) {
		snprintf(names->error, sizeof(names->error), "the name is too long");
		return -ENAMETOOLONG;
	}
	*parent = names->export;
	error = walk(names, parent, room, make, last);
	if (!error && !*last) {
		snprintf(names->error, sizeof(names->error), "no name");
		return -EINVAL;
	}
	return error;
}

/* --- the session --- */

static bool alive(const struct names *names)
{
	return names->found && !names->given_up;
}

static const char *error_of(const struct names *names)
{
	return names->error;
}

static uint16_t nfs_port(const struct names *names)
{
	return (uint16_t)names->path->config.nfs_port;
}

static void close_names(struct names *names)
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

/* Walks to the export, and says which part of its path is wrong. */
static int find_export(struct names *names)
{
	const struct path_config *config = &names->path->config;
	char room[4096], *rest = room, *name;
	struct nfs4_request request;
	int error;

	snprintf(room, sizeof(room), "%s", config->export);
	error = look_up(names, &names->export, NULL, &request);
	while (!error) {
		names->export = request.found;
		name = component(names, &rest, &error);
		if (!name)
			break;
		error = error ?: look_up(names, &names->export, name, &request);
		if (error)
			names->path->job.log(
				"%s: \"%s\" of the export's path: %s (%s): the path within the "
				"server's pseudo file system is wanted, as showmount or its "
				"configuration (Pseudo, fsid=0) tells",
				config->label, name, names->error, strerror(-error));
	}
	return error;
}

static int connect_names(struct names **out, struct path *path)
{
	struct names *names = calloc(1, sizeof(*names));
	int error;

	if (!names)
		return -ENOMEM;
	names->path = path;
	names->job = (struct conn_job){.io_count = NFS4_NAMES_CALLS, .log = path->job.log};
	error = conn_nfs.open(&names->conn, path, &names->job) ?: await_ready(names);
	if (error) {
		close_names(names);
		return error;
	}
	*out = names;
	return 0;
}

static int open_names(struct names **out, struct path *path)
{
	int error = connect_names(out, path);

	if (error)
		return error;
	/* A path that leads nowhere keeps it too: to take leave of the server. */
	error = nfs4_path_check_trunking(path->state) ?: find_export(*out);
	(*out)->found = !error;
	return error;
}

/* --- operations --- */

static int size_of(struct names *names, const char *name, uint64_t *size)
{
	struct nfs4_handle parent;
	struct nfs4_request request;
	char room[4096], *last;
	int error = find_parent(names, name, room, sizeof(room), false, &parent, &last);

	if (!error)
		error = look_up(names, &parent, last, &request);
	if (error)
		return error;
	if (request.attributes.type != NFS4_REGULAR) {
		snprintf(names->error, sizeof(names->error), "not a regular file");
		return request.attributes.type == NFS4_DIRECTORY ? -EISDIR : -EINVAL;
	}
	*size = request.attributes.size;
	return 0;
}

static void prepare_open(struct names *names, const struct nfs4_handle *parent, const char *name,
			 enum nfs4_access access, struct nfs4_request *request)
{
	const struct nfs4_path *mine = names->path->state;

	*request = (struct nfs4_request){
		.operation = NFS4_OPEN,
		.sequenced = true,
		.cached = true,
		.put = put_open,
		.get = get_open,
		.handle = *parent,
		.open = {.client = mine->client->id,
			 .owner = mine->owner,
			 .owner_length = (uint32_t)strlen(mine->owner),
			 .access = access,
			 .claim = NFS4_CLAIM_NULL,
			 .name = name},
	};
}

static void prepare_return(enum nfs4_operation operation, const struct nfs4_handle *handle,
			   const struct nfs4_stateid *stateid, struct nfs4_request *request)
{
	*request = (struct nfs4_request){
		.operation = operation,
		.sequenced = true,
		.cached = true,
		.put = put_close,
		.get = get_close,
		.handle = *handle,
		.stateid = *stateid,
	};
}

static int give_back(struct names *names, enum nfs4_operation operation,
		     const struct nfs4_handle *handle, const struct nfs4_stateid *stateid)
{
	struct nfs4_request request;

	prepare_return(operation, handle, stateid, &request);
	return run(names, &request);
}

/* Opens `name`; a delegation that nobody asked for goes back at once. */
static int open_name(struct names *names, const struct nfs4_handle *parent, const char *name,
		     enum nfs4_access access, bool create, struct nfs4_request *request)
{
	int error;

	prepare_open(names, parent, name, access, request);
	request->open.create = create;
	request->open.mode = FILE_MODE;
	error = run(names, request);
	if (!error && request->opened.delegated)
		error = give_back(names, NFS4_DELEGRETURN, &request->found,
				  &request->opened.delegation);
	return error;
}

static int create(struct names *names, const char *name, bool *created)
{
	struct nfs4_handle parent;
	struct nfs4_request request;
	char room[4096], *last;
	int error = find_parent(names, name, room, sizeof(room), true, &parent, &last);

	if (!error)
		error = open_name(names, &parent, last, NFS4_ACCESS_BOTH, true, &request);
	*created = !error;
	if (error)
		return error == -EEXIST ? 0 : error;
	return give_back(names, NFS4_CLOSE, &request.found, &request.opened.stateid);
}

static int remove_name(struct names *names, const char *name)
{
	struct nfs4_handle parent;
	struct nfs4_request request;
	char room[4096], *last;
	int error = find_parent(names, name, room, sizeof(room), false, &parent, &last);

	if (error)
		return error;
	request = (struct nfs4_request){
		.operation = NFS4_REMOVE,
		.sequenced = true,
		.cached = true,
		.put = put_remove,
		.get = get_remove,
		.handle = parent,
		.name = last,
	};
	return run(names, &request);
}

const struct names_ops names_nfs4 = {
	.open = open_names,
	.close = close_names,
	.alive = alive,
	.error = error_of,
	.nfs_port = nfs_port,
	.size = size_of,
	.create = create,
	.remove = remove_name,
};

/* --- files --- */

int names4_open_file(struct names *names, const char *name, bool writes, void **out)
{
	enum nfs4_access access = writes ? NFS4_ACCESS_BOTH : NFS4_ACCESS_READ;
	bool stateless = names->path->config.stateless;
	struct nfs4_handle parent;
	struct nfs4_request request;
	struct nfs4_file *file;
	char room[4096], *last;
	int error = find_parent(names, name, room, sizeof(room), false, &parent, &last);

	if (!error && stateless)
		error = look_up(names, &parent, last, &request);
	else if (!error)
		error = open_name(names, &parent, last, access, false, &request);
	if (error)
		return error;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->handle = request.found;
	file->access = access;
	file->path = names->path->state;
	file->stateless = stateless;
	file->opened_at = clock_now();
	if (!stateless)
		file->stateid = request.opened.stateid;
	*out = file;
	return 0;
}

/*
 * A path that is dead is not asked while others go on; at the end the server may well answer what
 * belongs to no data. What it does not hear of ends with its lease.
 */
static bool may_ask(const struct names *names)
{
	return names && !names->given_up && (!names->path->dead || names->path->job.stop());
}

void names4_close_file(struct names *names, void *state)
{
	struct nfs4_file *file = state;
	struct nfs4_request request;

	if (may_ask(names) && !file->stateless && !file->lost && !file->gone) {
		prepare_return(NFS4_CLOSE, &file->handle, &file->stateid, &request);
		run_until(names, &request, clock_now() + LEAVE_TIME, NULL);
	}
	nfs4_client_forget_file(file->path->client, file);
	free(file);
}

/* What a message of `message` bytes carries, of what the server offers; 0: not known. */
static uint32_t fitting(uint64_t offered, uint32_t message)
{
	uint32_t room =
		message ? message - min_of(message, (uint32_t)NFS4_MESSAGE_ROOM) : UINT32_MAX;

	return (uint32_t)min_of(offered, (uint64_t)room);
}

int names4_limits(struct names *names, const void *state, uint32_t *read_max, uint32_t *write_max)
{
	const struct nfs4_file *file = state;
	struct nfs4_client *client = ((struct nfs4_path *)names->path->state)->client;
	struct nfs4_request request = {
		.operation = NFS4_GETATTR,
		.sequenced = true,
		.put = put_lookup,
		.get = get_lookup,
		.handle = file->handle,
		.limits = true,
	};
	int error = run(names, &request);

	if (error)
		return error;
	client->lease_time = request.attributes.lease_time;
	*read_max = fitting(request.attributes.read_max, client->response_max);
	*write_max = fitting(request.attributes.write_max, client->request_max);
	return 0;
}

/* --- leaving --- */

static void destroy_session(struct names *names, const struct nfs4_session *session,
			    uint64_t deadline)
{
	struct nfs4_request request;

	nfs4_ask_bind_conn(&request, session);
	run_until(names, &request, deadline, NULL);
	nfs4_ask_destroy_session(&request, session);
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
	nfs4_ask_destroy_clientid(&request, client);
	run_until(names, &request, deadline, NULL);
}

void names4_leave(struct path *path)
{
	if (may_ask(path->names))
		destroy_all(path->names, clock_now() + LEAVE_TIME);
	path_close_names(path);
	nfs4_path_free(path);
}
