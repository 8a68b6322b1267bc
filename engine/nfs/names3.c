/* SPDX-License-Identifier: GPL-2.0-only */
/* names3.c - what NFSv3 is asked about names: each question is a metadata operation of its own. */
#include "nfs/names3.h"

#include <errno.h>
#include <string.h>

#include "nfs/meta_request.h"
#include "nfs/mount3.h"
#include "nfs/mount_failure.h"
#include "nfs/names_walk.h"

/* --- one question --- */

static bool is_export(const struct names *names, const struct nfs_handle *handle)
{
	return handle->length == names->export.length &&
	       !memcmp(handle->bytes, names->export.bytes, handle->length);
}

/* By the directory's handle and a name in it, or by the handle alone. */
static int ask_once(struct names *names, enum meta_op op, const struct nfs_handle *at,
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
	return names_ask(names, &request->base);
}

/* The server may have forgotten the export's handle, as any other: MOUNT gives it again, once. */
static int ask(struct names *names, enum meta_op op, const struct nfs_handle *at, const char *name,
	       struct meta_request *request)
{
	int error = ask_once(names, op, at, name, request);

	if (error != -ESTALE || !is_export(names, at) || mount3(names->path, &names->export))
		return error;
	return ask_once(names, op, &names->export, name, request);
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
	return error ? mount_failure_explain(path, error, names->error, 0) : 0;
}

static int open_names(struct names **out, struct path *path)
{
	struct nfs_handle export;
	int error = mount3(path, &export) ?: names_connect(out, path);

	if (error)
		return error;
	(*out)->export = export;
	return check_export(*out);
}

static int find_root(struct names *names, struct nfs_handle *root, uint32_t *read_max,
		     uint32_t *write_max)
{
	*root = names->export;
	return find_limits(names, root, read_max, write_max);
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

/* GUARDED (RFC 1813, 3.3.8): a file that is there already stays as it is. What is there after a
 * copy whose reply was lost is what that one has created. */
static int create(struct names *names, const char *name, bool *created)
{
	struct meta_request request = {0};
	struct nfs_handle directory;
	const char *last;
	int error = names_find(names, descend, name, true, &directory, &last)
			    ?: ask(names, META_CREATE, &directory, last, &request);

	*created = !error || (error == -EEXIST && request.base.resent);
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

const struct names_ops names_nfs3 = {
	.open = open_names,
	.close = names_close,
	.rest = names_rest,
	.alive = names_alive,
	.error = names_error,
	.root = find_root,
	.size = size_of,
	.create = create,
	.remove = remove_name,
};

/* --- struct nfs_version --- */

int names3_open_directory(struct names *names, const char *name, bool make,
			  struct nfs_handle *found)
{
	char *last;

	*found = names->export;
	return names_walk_all(names, descend, found, name, make, &last);
}

int names3_limits(struct names *names, const void *file, uint32_t *read_max, uint32_t *write_max)
{
	return find_limits(names, file, read_max, write_max);
}
