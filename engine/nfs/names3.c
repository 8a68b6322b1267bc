/* SPDX-License-Identifier: GPL-2.0-only */
/* names3.c - what names need in NFSv3 only: MOUNT, and exclusive creates. */
#include <errno.h>
#include <stdlib.h>

#include "nfs/mount3.h"
#include "nfs/names.h"
#include "nfs/version.h"

/* --- the export --- */

static int open_names(struct names **out, struct path *path)
{
	bool port_asked = !path->config.nfs_port;
	struct meta_limits limits;
	struct nfs_handle export;
	struct names *names;
	int error = mount3(path, &export, NULL) ?: names_connect(out, path);

	if (error == -ECONNREFUSED && path->mount_known && port_asked) { /* a stale port */
		mount3_refused(&export);
		path->config.nfs_port = 0;
		error = mount3(path, &export, NULL) ?: names_connect(out, path);
	}
	if (error)
		return error;
	names = *out;
	names->export = export;
	/* A server that refuses FSINFO of the root serves nothing to this host. */
	error = names_limits(names, NULL, &limits);
	names->found = !error;
	return error ? mount3_explain(path, error, names->answer, names->error, "") : 0;
}

static int find_export(struct names *names)
{
	int error;

	mount3_refused(&names->export);
	error = mount3(names->path, &names->export, NULL);
	return error ? names_fail(names, error, "the server has forgotten the export") : 0;
}

static int find_flavors(struct names **out, struct path *path, struct flavors *flavors)
{
	struct nfs_handle export;

	return mount3(path, &export, flavors);
}

/* --- creates --- */

/* The arguments of an exclusive CREATE, and of the SETATTR that completes it. */
static void fill(struct meta_arguments *arguments, void *verifier)
{
	arguments->exclusive = arguments->made = true;
	arguments->verifier = *(uint64_t *)verifier;
}

/*
 * Exclusive (RFC 1813, 3.3.8): where the file exists, the server knows whether an earlier copy of
 * this call made it. A server without exclusive creates gets a GUARDED one, which does not touch an
 * existing file.
 */
static int create(struct names *names, const struct nfs_handle *directory, struct names_item *item)
{
	struct names_batch batch = {
		.op = META_CREATE,
		.directory = directory,
		.fill = fill,
		.context = &names->path->create_verifier,
	};
	int error = names_ask(names, &batch, item);

	item->resent = !error; /* EEXIST: not by an earlier copy, whose verifier would match */
	if (error == -EOPNOTSUPP) {
		batch.fill = NULL;
		return names_ask(names, &batch, item);
	}
	/* An exclusive create sets no attributes, and need not bring the handle (3.3.8). */
	if (!error && !item->handle.length)
		error = names_ask_name(names, META_LOOKUP, batch.directory, item);
	batch.op = META_SETATTR;
	batch.directory = &item->handle;
	return error ?: names_ask(names, &batch, item);
}

/* --- files: NFSv3 opens nothing --- */

static int open_file(struct names *names, uint32_t number, const char *name, bool writes,
		     void **file)
{
	struct nfs_handle *handle = calloc(1, sizeof(*handle));
	int error = handle ? names_directory(names, name, false, handle) : -ENOMEM;

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

const struct nfs_version nfs_version_3 = {
	.protocol = &nfs3_protocol,
	.handle_max = NFS3_FHSIZE,
	.open_names = open_names,
	.find_export = find_export,
	.flavors = find_flavors,
	.create = create,
	.open_file = open_file,
	.close_file = close_file,
	.handle = handle_of,
};
