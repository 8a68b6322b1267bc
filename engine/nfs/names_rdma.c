/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * names_rdma.c - names over RDMA, for servers that offer NFS on nothing else; MOUNT goes over TCP.
 * Symbolic links are not followed.
 */
#include <errno.h>
#include <string.h>

#include "nfs/rdma_session.h"
#include "util.h"

static struct rdma_session *session_of(struct names *names)
{
	return container_of(names, struct rdma_session, base);
}

/* --- the session --- */

static int open_session(struct names **names, const struct names_config *config, char *why,
			size_t why_size)
{
	struct rdma_session *session;
	int error = rdma_session_open(&session, config, why, why_size);

	if (error)
		return error;
	session->base.ops = &names_rdma;
	*names = &session->base;
	return 0;
}

static void close_session(struct names *names)
{
	rdma_session_close(session_of(names));
}

static bool alive(const struct names *names)
{
	return container_of(names, const struct rdma_session, base)->channel;
}

/* It has none on TCP, or none that is used. */
static uint16_t nfs_port(const struct names *names)
{
	(void)names;
	return 0;
}

/* --- walking --- */

/* Cuts the next component off `path`, into `name`. False: there is none, or it is too long. */
static bool next_component(const char **path, char name[NFS3_NAME_MAX + 1])
{
	size_t length;

	*path += strspn(*path, "/");
	length = strcspn(*path, "/");
	if (!length || length > NFS3_NAME_MAX)
		return false;
	memcpy(name, *path, length);
	name[length] = '\0';
	*path += length;
	*path += strspn(*path, "/");
	return true;
}

static int look_up(struct rdma_session *session, const struct nfs3_handle *directory,
		   const char *name, struct nfs3_name_result *found)
{
	const struct nfs3_name_call call = {NFS3_LOOKUP, directory, name, 0};

	return rdma_session_call(session, &call, found);
}

static int make_directory(struct rdma_session *session, const struct nfs3_handle *directory,
			  const char *name)
{
	const struct nfs3_name_call call = {NFS3_MKDIR, directory, name, DIRECTORY_MODE};
	struct nfs3_name_result made;
	int error = rdma_session_call(session, &call, &made);

	return error == -EEXIST ? 0 : error;
}

/* One step down, into a directory that is made where it is missing and `make` says so. */
static int enter(struct rdma_session *session, struct nfs3_handle *directory, const char *name,
		 bool make)
{
	struct nfs3_name_result found;
	int error = look_up(session, directory, name, &found);

	if (error == -ENOENT && make)
		error = make_directory(session, directory, name)
				?: look_up(session, directory, name, &found);
	if (error)
		return error;
	if (found.attributed && found.type == NFS3_SYMLINK)
		return rdma_session_fail(
			session, -ELOOP,
			"a directory in its name is a symbolic link, which is not followed "
			"over RDMA");
	*directory = found.handle;
	return 0;
}

/* Finds the directory that holds `path`, and the last component of its name. */
static int walk(struct rdma_session *session, const char *path, bool make,
		struct nfs3_handle *directory, char name[NFS3_NAME_MAX + 1])
{
	int error = 0;

	rdma_session_begin(session);
	*directory = session->root;
	for (;;) {
		if (!next_component(&path, name))
			return rdma_session_fail(session, -ENAMETOOLONG,
						 "a part of the name is too long");
		if (!*path)
			return 0;
		error = enter(session, directory, name, make);
		if (error)
			return error;
	}
}

static int find(struct rdma_session *session, const char *path, struct nfs3_name_result *found)
{
	struct nfs3_handle directory;
	char name[NFS3_NAME_MAX + 1];
	int error = walk(session, path, false, &directory, name);

	return error ?: look_up(session, &directory, name, found);
}

/* --- operations --- */

static int find_size(struct names *names, const char *name, uint64_t *size)
{
	struct rdma_session *session = session_of(names);
	struct nfs3_name_result found;
	int error = find(session, name, &found);

	if (!error && !found.attributed) {
		const struct nfs3_handle file = found.handle;
		const struct nfs3_name_call call = {NFS3_GETATTR, &file, NULL, 0};

		error = rdma_session_call(session, &call, &found);
	}
	if (error)
		return error;
	if (found.type == NFS3_SYMLINK)
		return rdma_session_fail(
			session, -EINVAL,
			"a symbolic link, which is not followed over RDMA: give the name of "
			"the file itself");
	if (found.type != NFS3_REGULAR)
		return rdma_session_fail(session, found.type == NFS3_DIRECTORY ? -EISDIR : -EINVAL,
					 "not a regular file");
	*size = found.size;
	return 0;
}

static int find_handle(struct names *names, const char *name, struct nfs3_handle *handle)
{
	struct nfs3_name_result found;
	int error = find(session_of(names), name, &found);

	if (!error)
		*handle = found.handle;
	return error;
}

static int create(struct names *names, const char *path)
{
	struct rdma_session *session = session_of(names);
	struct nfs3_handle directory;
	char name[NFS3_NAME_MAX + 1];
	const struct nfs3_name_call call = {NFS3_CREATE, &directory, name, FILE_MODE};
	struct nfs3_name_result created;
	int error = walk(session, path, true, &directory, name);

	if (!error)
		error = rdma_session_call(session, &call, &created);
	return error == -EEXIST ? 0 : error;
}

static int remove_name(struct names *names, const char *path)
{
	struct rdma_session *session = session_of(names);
	struct nfs3_handle directory;
	char name[NFS3_NAME_MAX + 1];
	const struct nfs3_name_call call = {NFS3_REMOVE, &directory, name, 0};
	struct nfs3_name_result removed;
	int error = walk(session, path, false, &directory, name);

	return error ?: rdma_session_call(session, &call, &removed);
}

static int find_limits(struct names *names, const struct nfs3_handle *handle,
		       struct nfs3_limits *limits)
{
	struct rdma_session *session = session_of(names);
	const struct nfs3_name_call call = {NFS3_FSINFO, handle, NULL, 0};
	struct nfs3_name_result found;
	int error;

	rdma_session_begin(session);
	error = rdma_session_call(session, &call, &found);
	if (!error)
		*limits = (struct nfs3_limits){found.read_max, found.write_max};
	return error;
}

const struct names_ops names_rdma = {
	.open = open_session,
	.close = close_session,
	.alive = alive,
	.nfs_port = nfs_port,
	.size = find_size,
	.lookup = find_handle,
	.create = create,
	.remove = remove_name,
	.limits = find_limits,
};
