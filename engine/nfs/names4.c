/* SPDX-License-Identifier: GPL-2.0-only */
/* names4.c - what NFSv4.1 is asked about names and files: each as a compound of its own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "nfs/names4_teardown.h"
#include "nfs/names_walk.h"
#include "nfs/version.h"

/* --- one question --- */

/* Changes nothing at the server, and gives attributes. */
static bool looks(const struct nfs4_request *request)
{
	return request->operation == NFS4_LOOKUP || request->operation == NFS4_GETATTR;
}

static bool asks_flavors(const struct nfs4_request *request)
{
	return request->operation == NFS4_SECINFO || request->operation == NFS4_SECINFO_NO_NAME;
}

static bool leads_to_handle(const struct nfs4_request *request)
{
	return looks(request) || request->operation == NFS4_OPEN;
}

/* PUTFH or PUTROOTFH, the operation itself, and GETFH and GETATTR of what it leads to. */
static void put(const struct nfs4_request *request, struct nfs4_compound *compound)
{
	nfs4_put_handle(compound, &request->handle);
	switch (request->operation) {
	case NFS4_LOOKUP: nfs4_put_lookup(compound, request->name); break;
	case NFS4_SECINFO:
	case NFS4_SECINFO_NO_NAME: nfs4_put_secinfo(compound, request->name); break;
	case NFS4_OPEN: nfs4_put_open(compound, &request->open); break;
	case NFS4_CLOSE: nfs4_put_close(compound, &request->stateid); break;
	case NFS4_DELEGRETURN: nfs4_put_delegreturn(compound, &request->stateid); break;
	case NFS4_CREATE: nfs4_put_mkdir(compound, request->name, DIRECTORY_MODE); break;
	case NFS4_REMOVE: nfs4_put_remove(compound, request->name); break;
	default: break; /* GETATTR stands at the end */
	}
	if (leads_to_handle(request))
		nfs4_put(compound, NFS4_GETFH);
	if (looks(request))
		nfs4_put_getattr(compound,
				 request->limits ? NFS4_GETATTR_LIMITS : NFS4_GETATTR_FILE);
}

static uint32_t get(struct nfs4_request *request, struct nfs4_results *results)
{
	uint32_t status =
		nfs4_next_result(results, request->handle.length ? NFS4_PUTFH : NFS4_PUTROOTFH);

	if (!status && request->operation == NFS4_OPEN) {
		status = nfs4_next_result(results, NFS4_OPEN);
		if (!status)
			nfs4_get_open(results, &request->opened);
	} else if (!status && asks_flavors(request)) {
		status = nfs4_next_result(results, request->operation);
		if (!status)
			nfs4_get_secinfo(results, &request->flavors);
	} else if (!status && request->operation != NFS4_GETATTR) {
		status = nfs4_skip_result(results, request->operation);
	}
	if (!status && leads_to_handle(request)) {
		status = nfs4_next_result(results, NFS4_GETFH);
		if (!status)
			nfs4_get_handle(results, &request->found);
	}
	if (!status && looks(request)) {
		status = nfs4_next_result(results, NFS4_GETATTR);
		if (!status)
			nfs4_get_attributes(results, &request->attributes);
	}
	return status;
}

/* What goes back has been offered, whatever the server says: it may have forgotten it. */
static bool tolerates(const struct nfs4_request *request, uint32_t status)
{
	return (request->operation == NFS4_CLOSE || request->operation == NFS4_DELEGRETURN) &&
	       status != NFS4ERR_DELAY && status != NFS4ERR_GRACE;
}

/* Completes a request whose arguments are there. */
static void prepare(struct nfs4_request *request, enum nfs4_operation operation)
{
	request->operation = operation;
	request->sequenced = true;
	request->cached = !looks(request) && !asks_flavors(request);
	request->put = put;
	request->get = get;
	request->tolerates = tolerates;
}

static int find_export_again(struct names *names);

/* The export's handle may be forgotten as any other: it is looked up from the root again, once. */
static int ask(struct names *names, enum nfs4_operation operation, struct nfs4_request *request)
{
	bool of_export = names->found && request->handle.length == names->export.length &&
			 !memcmp(request->handle.bytes, names->export.bytes, names->export.length);
	int error;

	if (request->name && strlen(request->name) > NFS4_NAME_MAX)
		return names_fail(names, -ENAMETOOLONG, "a name is longer than 255 bytes");
	prepare(request, operation);
	error = names_ask(names, &request->base);
	if (error != -ESTALE || !of_export || find_export_again(names))
		return error;
	request->handle = names->export;
	return names_ask(names, &request->base);
}

/* --- walking --- */

/* names_descend(); without a name to *at itself: from no handle to the root's. */
static int descend(struct names *names, struct nfs_handle *at, const char *name, bool make)
{
	struct nfs4_request request = {.handle = *at, .name = name};
	int error = ask(names, name ? NFS4_LOOKUP : NFS4_GETATTR, &request);

	if (error == -ENOENT && make) {
		error = ask(names, NFS4_CREATE, &request);
		if (!error || error == -EEXIST)
			error = ask(names, NFS4_LOOKUP, &request);
	}
	if (!error && name && request.attributes.kind.type == NFS4_SYMLINK)
		return names_check_file(names, NFS4_SYMLINK);
	if (!error)
		*at = request.found;
	return error;
}

/* Begins a request about `name`: by the handle of its directory, and its name there. */
static int find(struct names *names, const char *name, bool make, struct nfs4_request *request)
{
	*request = (struct nfs4_request){0};
	return names_find(names, descend, name, make, &request->handle, &request->name);
}

/* No answer to a question about the export says nothing about its path. */
static bool went_unanswered(const struct names *names, int error)
{
	if (error != -ETIMEDOUT && error != -EINTR)
		return false;
	names->path->job.log("%s: cannot find the export: %s", names->path->config.label,
			     error == -EINTR ? "the run was stopped" : names->error);
	return true;
}

/* What to do, where the status tells. */
static const char *export_hint(int error)
{
	switch (error) {
	case -ENOENT:
	case -ENOTDIR:
		return ": use the path within the server's pseudo file system, from showmount or "
		       "its configuration (Pseudo, fsid=0)";
	case -EACCES:
	case -EPERM: return ": does the export allow this host, this user and sec=sys?";
	default: return "";
	}
}

/* Says which part of the export's path is wrong; NULL: the server's root. */
static int export_failed(const struct names *names, const char *name, int error)
{
	const struct path *path = names->path;

	if (went_unanswered(names, error))
		return error;
	if (name)
		path->job.log("%s: \"%s\" of the export's path: %s (%s)%s", path->config.label,
			      name, names->error, strerror(-error), export_hint(error));
	else
		path->job.log("%s: the server's root: %s (%s)%s", path->config.label, names->error,
			      strerror(-error), export_hint(error));
	return error;
}

static int find_export(struct names *names)
{
	char *name = NULL;
	int error = descend(names, &names->export, NULL, false)
			    ?: names_walk_all(names, descend, &names->export,
					      names->path->config.export, false, &name);

	return error ? export_failed(names, name, error) : 0;
}

/* names->room has what is asked about meanwhile. */
static int find_export_again(struct names *names)
{
	char room[sizeof(names->room)], *name;
	struct nfs_handle at = {0};
	int error;

	memcpy(room, names->room, sizeof(room));
	error = descend(names, &at, NULL, false)
			?: names_walk_all(names, descend, &at, names->path->config.export, false,
					  &name);
	memcpy(names->room, room, sizeof(room));
	if (!error)
		names->export = at;
	return error;
}

/* --- opens --- */

static int give_back(struct names *names, enum nfs4_operation operation,
		     const struct nfs_handle *handle, const struct nfs4_stateid *stateid)
{
	struct nfs4_request request = {.handle = *handle, .stateid = *stateid};

	return ask(names, operation, &request);
}

/* Opens what find() has found; a delegation that nobody asked for goes back at once. */
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
		.mode = FILE_MODE,
		.claim = NFS4_CLAIM_NULL,
		.name = request->name,
	};
	error = ask(names, NFS4_OPEN, request);
	if (!error && request->opened.delegated)
		error = give_back(names, NFS4_DELEGRETURN, &request->found,
				  &request->opened.delegation);
	return error;
}

/* --- names --- */

static int open_names(struct names **out, struct path *path)
{
	int error = names_connect(out, path);

	if (error)
		return error;
	/* A path that leads nowhere keeps it too: to take leave of the server. */
	error = nfs4_path_check_trunking(path->state) ?: find_export(*out);
	(*out)->found = !error;
	return error;
}

/* The directory above is asked, or the root of itself: that goes by a flavor that the export does
 * not take, too (RFC 8881, 2.6.3.1). */
static int find_flavors(struct names **out, struct path *path, struct flavors *flavors)
{
	struct nfs4_request request = {0};
	struct names *names;
	char *name = NULL;
	int error = names_connect(out, path);

	if (error)
		return error;
	names = *out;
	error = names_walk(names, descend, &request.handle, path->config.export, false, &name);
	request.name = name;
	if (!error)
		error = ask(names, name ? NFS4_SECINFO : NFS4_SECINFO_NO_NAME, &request);
	if (error)
		return export_failed(names, name, error);
	*flavors = request.flavors;
	return 0;
}

static int size_of(struct names *names, const char *name, uint64_t *size)
{
	struct nfs4_request request;
	int error = find(names, name, false, &request) ?: ask(names, NFS4_LOOKUP, &request);

	*size = error ? 0 : request.attributes.kind.size;
	return error ?: names_check_file(names, request.attributes.kind.type);
}

static int create(struct names *names, const char *name, bool *created)
{
	const struct nfs4_path *mine = names->path->state;
	struct nfs4_request request;
	int error = find(names, name, true, &request)
			    ?: open_found(names, mine->owner, NFS4_ACCESS_BOTH, true, &request);

	*created = !error;
	if (error)
		return error == -EEXIST ? 0 : error;
	return give_back(names, NFS4_CLOSE, &request.found, &request.opened.stateid);
}

static int remove_name(struct names *names, const char *name)
{
	struct nfs4_request request;

	return find(names, name, false, &request) ?: ask(names, NFS4_REMOVE, &request);
}

/* --- files --- */

/* Finds and opens it; a special stateid stands for a file that is not opened. */
static int open_by_name(struct names *names, const char *name, struct nfs4_file *file)
{
	static const struct nfs4_stateid special;
	struct nfs4_request request;
	int error = find(names, name, false, &request);

	if (!error)
		error = file->stateless
				? ask(names, NFS4_LOOKUP, &request)
				: open_found(names, file->owner, file->access, false, &request);
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
	struct nfs4_path *mine = names->path->state;
	struct nfs4_file *file = calloc(1, sizeof(*file));
	int error;

	if (!file)
		return -ENOMEM;
	snprintf(file->owner, sizeof(file->owner), "%s %u", mine->owner, number);
	file->access = writes ? NFS4_ACCESS_BOTH : NFS4_ACCESS_READ;
	file->path = mine;
	file->stateless = names->path->config.terms.stateless;
	error = open_by_name(names, name, file);
	if (error) {
		free(file);
		return error;
	}
	TAILQ_INSERT_TAIL(&mine->files, file, link);
	*out = file;
	return 0;
}

static void close_file(struct names *names, void *state)
{
	struct nfs4_file *file = state;
	struct nfs4_request request = {.handle = file->handle, .stateid = file->stateid};

	if (!file->stateless && !file->lost && !file->gone) {
		prepare(&request, NFS4_CLOSE);
		names4_tell(names, &request);
	}
	nfs4_client_forget_file(file->path->client, file);
	TAILQ_REMOVE(&file->path->files, file, link);
	free(file);
}

/* --- entries --- */

/* The server's lease, which a path without files asks for with its first directory. */
static int find_lease(struct names *names)
{
	struct nfs4_client *client = ((struct nfs4_path *)names->path->state)->client;
	struct nfs4_request request = {.handle = names->export, .limits = true};
	int error = client->lease_time ? 0 : ask(names, NFS4_GETATTR, &request);

	if (!error && !client->lease_time)
		client->lease_time = request.attributes.lease_time;
	return error;
}

static int open_directory(struct names *names, const char *name, bool make,
			  struct nfs_handle *found)
{
	struct nfs_handle at = names->export;
	char *last;
	int error = find_lease(names) ?: names_walk_all(names, descend, &at, name, make, &last);

	if (!error)
		*found = at;
	return error;
}

/* --- limits --- */

/* What a message of `message` bytes, or 0: not known, carries of what the server offers, or 0: it
 * need not tell that (RFC 8881, 5.6). */
static uint32_t fitting(uint64_t offered, uint32_t message)
{
	uint32_t room =
		message ? message - min_of(message, (uint32_t)NFS4_MESSAGE_ROOM) : UINT32_MAX;

	return (uint32_t)min_of(offered ?: UINT64_MAX, (uint64_t)room);
}

static int find_limits(struct names *names, const void *state, uint32_t *read_max,
		       uint32_t *write_max)
{
	const struct nfs4_file *file = state;
	struct nfs4_client *client = ((struct nfs4_path *)names->path->state)->client;
	struct nfs4_request request = {.handle = file->handle, .limits = true};
	int error = ask(names, NFS4_GETATTR, &request);

	if (error)
		return error;
	client->lease_time = request.attributes.lease_time;
	*read_max = fitting(request.attributes.read_max, client->response_max);
	*write_max = fitting(request.attributes.write_max, client->request_max);
	return 0;
}

/* --- struct names_ops --- */

static int find_root(struct names *names, struct nfs_handle *root, uint32_t *read_max,
		     uint32_t *write_max)
{
	const struct nfs4_file file = {.handle = names->export};
	int error = find_limits(names, &file, read_max, write_max);

	*root = names->export; /* which may be another one now */
	return error;
}

static const struct names_ops names_ops = {
	.open = open_names,
	.flavors = find_flavors,
	.root = find_root,
	.size = size_of,
	.create = create,
	.remove = remove_name,
};

/* --- struct nfs_version --- */

static const struct nfs_handle *handle_of(const void *file)
{
	return &((const struct nfs4_file *)file)->handle;
}

const struct nfs_version nfs_version_4 = {
	.protocol = &nfs4_protocol,
	.names = &names_ops,
	.open_file = open_file,
	.open_directory = open_directory,
	.handle_max = NFS4_FHSIZE,
	.close_file = close_file,
	.handle = handle_of,
	.limits = find_limits,
	.teardown = names4_teardown,
};
