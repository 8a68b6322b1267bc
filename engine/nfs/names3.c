/* SPDX-License-Identifier: GPL-2.0-only */
/* names3.c - what NFSv3 is asked about names: each question is a metadata operation of its own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/meta_request.h"
#include "nfs/mount3.h"
#include "nfs/names_walk.h"
#include "nfs/version.h"

/* --- one question --- */

static bool is_export(const struct names *names, const struct nfs_handle *handle)
{
	return handle->length == names->export.length &&
	       !memcmp(handle->bytes, names->export.bytes, handle->length);
}

/* By the directory's handle and a name in it, or by the handle alone. */
static int begin(struct names *names, enum meta_op op, const struct nfs_handle *at,
		 const char *name, struct meta_request *request)
{
	size_t length = name ? strlen(name) + 1 : 0;

	*request = (struct meta_request){
		.base.meta = true,
		.arguments = {.op = op, .directory = at, .handle = *at},
	};
	if (length > sizeof(request->arguments.name))
		return names_fail(names, -ENAMETOOLONG, "a name is longer than 255 bytes");
	if (name)
		memcpy(request->arguments.name, name, length);
	return 0;
}

/* The server may have forgotten the export's handle, as any other: MOUNT gives it again, once. */
static int put_question(struct names *names, struct meta_request *request)
{
	struct meta_arguments *arguments = &request->arguments;
	int error = names_ask(names, &request->base);
	bool resent = request->base.resent;

	if ((error != -ESTALE && error != -EBADF) || !is_export(names, &arguments->handle))
		return error;
	mount3_refused(&names->export);
	error = mount3(names->path, &names->export, NULL);
	if (error)
		return names_fail(names, error, "the server has forgotten the export");
	arguments->directory = &names->export;
	arguments->handle = names->export;
	error = names_ask(names, &request->base);
	request->base.resent |= resent;
	return error;
}

static int ask(struct names *names, enum meta_op op, const struct nfs_handle *at, const char *name,
	       struct meta_request *request)
{
	return begin(names, op, at, name, request) ?: put_question(names, request);
}

/* --- walking --- */

/*
 * What exists already is no error. It is looked for first: a server may refuse MKDIR for want of
 * permission before it finds that out.
 */
static int descend(struct names *names, struct nfs_handle *at, const char *name, bool make)
{
	struct meta_request request;
	int error = ask(names, META_LOOKUP, at, name, &request);

	if (error == -ENOENT && make) {
		error = ask(names, META_MKDIR, at, name, &request);
		if (!error || error == -EEXIST)
			error = ask(names, META_LOOKUP, at, name, &request);
	}
	if (!error && request.result.kind.type == META_TYPE_SYMLINK)
		return names_check_file(names, META_TYPE_SYMLINK);
	if (!error)
		*at = request.result.found;
	return error;
}

/* --- struct names_ops --- */

static int find_limits(struct names *names, const struct nfs_handle *handle, uint32_t *read_max,
		       uint32_t *write_max)
{
	struct meta_request request;
	int error = ask(names, META_FSINFO, handle, NULL, &request);

	*read_max = error ? 0 : request.result.limits.read_max;
	*write_max = error ? 0 : request.result.limits.write_max;
	return error;
}

/* A server that has not answered FSINFO of the root serves this host nothing. */
static int check_export(struct names *names)
{
	struct path *path = names->path;
	uint32_t read_max, write_max;
	int error = find_limits(names, &names->export, &read_max, &write_max);

	names->found = !error;
	return error ? mount3_explain(path, error, names->answer, names->error) : 0;
}

static int open_names(struct names **out, struct path *path)
{
	bool port_asked = !path->config.nfs_port;
	struct nfs_handle export;
	int error = mount3(path, &export, NULL) ?: names_connect(out, path);

	if (error == -ECONNREFUSED && path->mount_known && port_asked) { /* an earlier server's */
		mount3_refused(&export);
		path->config.nfs_port = 0;
		error = mount3(path, &export, NULL) ?: names_connect(out, path);
	}
	if (error)
		return error;
	(*out)->export = export;
	return check_export(*out);
}

static int find_flavors(struct names **out, struct path *path, struct flavors *flavors)
{
	struct nfs_handle export;

	return mount3(path, &export, flavors);
}

static int find_root(struct names *names, struct nfs_handle *root, uint32_t *read_max,
		     uint32_t *write_max)
{
	int error = find_limits(names, &names->export, read_max, write_max);

	*root = names->export; /* which may be another one now */
	return error;
}

/* LOOKUP need not tell what it is (RFC 1813, 3.3.3). */
static int size_of(struct names *names, const char *name, uint64_t *size)
{
	struct nfs_handle directory, found;
	struct meta_request request;
	const char *last;
	int error = names_find(names, descend, name, false, &directory, &last)
			    ?: ask(names, META_LOOKUP, &directory, last, &request);

	if (!error && !request.result.kind.type) {
		found = request.result.found;
		error = ask(names, META_GETATTR, &found, NULL, &request);
	}
	if (error)
		return error;
	*size = request.result.kind.size;
	return names_check_file(names, request.result.kind.type);
}

/* An exclusive create sets no attributes (RFC 1813, 3.3.8), and need not bring the handle. */
static int complete(struct names *names, const struct nfs_handle *directory, const char *name,
		    struct nfs_handle file)
{
	struct meta_request request;
	int error = file.length ? 0 : ask(names, META_LOOKUP, directory, name, &request);

	if (error)
		return error;
	if (!file.length)
		file = request.result.found;
	error = begin(names, META_SETATTR, &file, NULL, &request);
	request.arguments.made = true;
	return error ?: put_question(names, &request);
}

/*
 * Exclusive: of a file that is there already the server knows whether an earlier copy of this call
 * has made it. Where it has no such create, GUARDED, which leaves what is there as it is.
 */
static int create_in(struct names *names, const struct nfs_handle *directory, const char *name)
{
	struct meta_request request;
	int error = begin(names, META_CREATE, directory, name, &request);

	if (error)
		return error;
	request.arguments.exclusive = true;
	request.arguments.verifier = names->path->create_verifier;
	error = put_question(names, &request);
	if (!error)
		return complete(names, directory, name, request.result.found);
	return error == -EOPNOTSUPP ? ask(names, META_CREATE, directory, name, &request) : error;
}

static int create(struct names *names, const char *name, bool *created)
{
	struct nfs_handle directory;
	const char *last;
	int error = names_find(names, descend, name, true, &directory, &last)
			    ?: create_in(names, &directory, last);

	*created = !error;
	return error == -EEXIST ? 0 : error;
}

/* What is gone after a copy whose reply was lost is what that one has removed. */
static int remove_name(struct names *names, const char *name)
{
	struct nfs_handle directory;
	struct meta_request request;
	const char *last;
	int error = names_find(names, descend, name, false, &directory, &last);

	if (error)
		return error;
	error = ask(names, META_REMOVE, &directory, last, &request);
	return error == -ENOENT && request.base.resent ? 0 : error;
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

/* Without `make` it finds files as well. */
static int open_directory(struct names *names, const char *name, bool make,
			  struct nfs_handle *found)
{
	char *last;

	*found = names->export;
	return names_walk_all(names, descend, found, name, make, &last);
}

/* NFSv3 opens nothing: `number` and `writes` mean nothing to it. */
static int open_file(struct names *names, uint32_t number, const char *name, bool writes,
		     void **file)
{
	struct nfs_handle *handle = calloc(1, sizeof(*handle));
	int error = handle ? open_directory(names, name, false, handle) : -ENOMEM;

	if (error)
		free(handle);
	else
		*file = handle;
	return error;
}

static void close_file(struct names *names, void *file)
{
	free(file);
}

static const struct nfs_handle *handle_of(const void *file)
{
	return file;
}

/* FSINFO's rtmax and wtmax, asked for by a file's handle (RFC 1813, 3.3.19). */
static int limits(struct names *names, const void *file, uint32_t *read_max, uint32_t *write_max)
{
	return find_limits(names, file, read_max, write_max);
}

const struct nfs_version nfs_version_3 = {
	.protocol = &nfs3_protocol,
	.names = &names_ops,
	.open_file = open_file,
	.open_directory = open_directory,
	.handle_max = NFS3_FHSIZE,
	.close_file = close_file,
	.handle = handle_of,
	.limits = limits,
};
