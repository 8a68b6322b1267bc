/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * names_libnfs.c - names over TCP, through libnfs.
 *
 * libnfs is used by its asynchronous calls alone, each driven by a loop of our own: its synchronous
 * ones cannot be given up, and a server that stops answering would hold fio for ever.
 */
#include "nfs/names_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-nfs.h>

#include "nfs/status.h"
#include "util.h"

enum { SLICE_MS = 100 };

struct libnfs {
	struct names base;
	struct nfs_context *nfs; /* NULL: given up, every operation fails */
	struct names_config config;
	char *address, *export;
};

static struct libnfs *libnfs_of(struct names *names)
{
	return container_of(names, struct libnfs, base);
}

static const struct libnfs *libnfs_of_const(const struct names *names)
{
	return container_of(names, struct libnfs, base);
}

/* One operation under way. libnfs calls back within nfs_service(), or within nfs_destroy_context().
 */
struct operation {
	bool done;
	int error; /* negative errno, or 0 and more: success */
	struct nfsfh *file;
	struct nfs_stat_64 stat;
	struct nfs3_limits limits;
};

static void set_error(struct libnfs *libnfs, const char *words)
{
	snprintf(libnfs->base.error, sizeof(libnfs->base.error), "%s",
		 words && *words ? words : "no reason given");
}

/*
 * Keeps libnfs's words for an operation that failed. It has none, and -EFAULT, for a call that RPC
 * itself denied: that is -EACCES here.
 */
static int explain(struct libnfs *libnfs, int error)
{
	const char *words = nfs_get_error(libnfs->nfs);

	if ((words && *words) || error != -EFAULT) {
		set_error(libnfs, words);
		return error;
	}
	set_error(libnfs,
		  "the server denied the call: it may want a reserved source port (run as root, or "
		  "export with \"insecure\") or other credentials than AUTH_SYS");
	return -EACCES;
}

/* Destroying the context ends what is outstanding, while its struct operation still exists. */
static int give_up(struct libnfs *libnfs, int error, const char *words)
{
	set_error(libnfs, words);
	nfs_destroy_context(libnfs->nfs);
	libnfs->nfs = NULL;
	return error;
}

/* One slice of waiting: what poll() and libnfs make of it. */
static int service(struct libnfs *libnfs)
{
	struct pollfd poll_fd = {
		.fd = nfs_get_fd(libnfs->nfs),
		.events = (short)nfs_which_events(libnfs->nfs),
	};

	if (poll(&poll_fd, 1, SLICE_MS) < 0 && errno != EINTR)
		return -errno;
	return nfs_service(libnfs->nfs, poll_fd.revents) < 0 ? -ENOTCONN : 0;
}

static int wait_for(struct libnfs *libnfs, struct operation *operation)
{
	uint64_t deadline = clock_now() + libnfs->config.timeout;
	int error = 0;

	while (!operation->done) {
		if (libnfs->config.stop())
			return give_up(libnfs, -EINTR, "interrupted");
		if (clock_now() > deadline)
			return give_up(libnfs, -ETIMEDOUT, "the server does not answer");
		error = service(libnfs);
		if (error && !operation->done) {
			char words[sizeof(libnfs->base.error)];

			snprintf(words, sizeof(words), "%s", nfs_get_error(libnfs->nfs));
			return give_up(libnfs, error, words);
		}
	}
	return operation->error < 0 ? explain(libnfs, operation->error) : 0;
}

/* Waits for an operation that libnfs accepted; `refused` is what its _async call returned. */
static int run(struct libnfs *libnfs, struct operation *operation, int refused)
{
	if (refused) {
		set_error(libnfs, nfs_get_error(libnfs->nfs));
		return -EIO;
	}
	return wait_for(libnfs, operation);
}

static int usable(struct libnfs *libnfs)
{
	return libnfs->nfs ? 0 : -ENOTCONN;
}

/* --- what libnfs calls back --- */

static void on_done(int error, struct nfs_context *nfs, void *data, void *private)
{
	struct operation *operation = private;

	(void)nfs, (void)data;
	operation->error = error;
	operation->done = true;
}

static void on_open(int error, struct nfs_context *nfs, void *data, void *private)
{
	struct operation *operation = private;

	if (error >= 0)
		operation->file = data;
	on_done(error, nfs, data, private);
}

static void on_stat(int error, struct nfs_context *nfs, void *data, void *private)
{
	struct operation *operation = private;

	if (error >= 0)
		operation->stat = *(struct nfs_stat_64 *)data;
	on_done(error, nfs, data, private);
}

static void on_fsinfo(struct rpc_context *rpc, int status, void *data, void *private)
{
	struct operation *operation = private;
	const FSINFO3res *result = data;

	(void)rpc;
	operation->done = true;
	if (status != RPC_STATUS_SUCCESS) {
		operation->error = -EIO;
	} else if (result->status != NFS3_OK) {
		operation->error = -nfs3_errno(result->status);
	} else {
		operation->limits.read_max = result->FSINFO3res_u.resok.rtmax;
		operation->limits.write_max = result->FSINFO3res_u.resok.wtmax;
	}
}

/* libnfs 6 and later return the PDU they queued, earlier ones an error number. */
static int start_fsinfo(struct libnfs *libnfs, FSINFO3args *args, struct operation *operation)
{
	struct rpc_context *rpc = nfs_get_rpc_context(libnfs->nfs);

#ifdef LIBNFS_API_V2
	return rpc_nfs3_fsinfo_task(rpc, on_fsinfo, args, operation) ? 0 : -1;
#else
	return rpc_nfs3_fsinfo_async(rpc, on_fsinfo, args, operation);
#endif
}

/* --- the session --- */

/* libnfs takes ports only as arguments of a URL; its host and export are not used. */
static int configure(struct libnfs *libnfs)
{
	const struct names_config *config = &libnfs->config;
	struct nfs_url *url;
	char text[256];
	int used;

	used = snprintf(text, sizeof(text),
			"nfs://h/e?version=3&uid=%u&gid=%u&auto-traverse-mounts=0&dircache=0"
			"&readahead=0&autoreconnect=0",
			config->uid, config->gid);
	if (config->nfs_port)
		used += snprintf(text + used, sizeof(text) - used, "&nfsport=%u", config->nfs_port);
	if (config->mount_port)
		snprintf(text + used, sizeof(text) - used, "&mountport=%u", config->mount_port);
	url = nfs_parse_url_dir(libnfs->nfs, text);
	if (!url) {
		set_error(libnfs, nfs_get_error(libnfs->nfs));
		return -EINVAL;
	}
	nfs_destroy_url(url);
	return 0;
}

static int mount_export(struct libnfs *libnfs)
{
	struct operation operation = {0};
	int error = configure(libnfs);

	if (error)
		return error;
	return run(
		libnfs, &operation,
		nfs_mount_async(libnfs->nfs, libnfs->address, libnfs->export, on_done, &operation));
}

/* Without UMOUNT: libnfs 4.0.0 can hang in it, and RFC 1813 (4.1.3) makes it advisory. */
static void close_session(struct names *names)
{
	struct libnfs *libnfs = libnfs_of(names);

	if (libnfs->nfs)
		nfs_destroy_context(libnfs->nfs);
	free(libnfs->address);
	free(libnfs->export);
	free(libnfs);
}

static int open_session(struct names **out, const struct names_config *config, char *why,
			size_t why_size)
{
	struct libnfs *libnfs = calloc(1, sizeof(*libnfs));
	int error = -ENOMEM;

	snprintf(why, why_size, "out of memory");
	if (!libnfs)
		return -ENOMEM;
	libnfs->base.ops = &names_libnfs;
	libnfs->config = *config;
	libnfs->address = strdup(config->address);
	libnfs->export = strdup(config->export);
	libnfs->nfs = nfs_init_context();
	if (libnfs->address && libnfs->export && libnfs->nfs)
		error = mount_export(libnfs);
	if (error) {
		if (*libnfs->base.error)
			snprintf(why, why_size, "%s", libnfs->base.error);
		close_session(&libnfs->base);
		return error;
	}
	*out = &libnfs->base;
	return 0;
}

static bool alive(const struct names *names)
{
	return libnfs_of_const(names)->nfs;
}

static uint16_t nfs_port(const struct names *names)
{
	const struct libnfs *libnfs = libnfs_of_const(names);
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} peer = {0};
	socklen_t length = sizeof(peer);

	if (!libnfs->nfs || getpeername(nfs_get_fd(libnfs->nfs), &peer.any, &length))
		return 0;
	return ntohs(peer.any.sa_family == AF_INET6 ? peer.v6.sin6_port : peer.v4.sin_port);
}

/* --- operations --- */

/* libnfs takes names from the export's root. */
static int root_name(struct libnfs *libnfs, const char *name, char *path, size_t size)
{
	if ((size_t)snprintf(path, size, "/%s", name) < size)
		return 0;
	set_error(libnfs, "the name is too long");
	return -ENAMETOOLONG;
}

static int stat_path(struct libnfs *libnfs, const char *path, struct operation *operation)
{
	return run(libnfs, operation, nfs_stat64_async(libnfs->nfs, path, on_stat, operation));
}

static int find_size(struct names *names, const char *name, uint64_t *size)
{
	struct libnfs *libnfs = libnfs_of(names);
	struct operation operation = {0};
	char path[4096];
	int error = usable(libnfs) ?: root_name(libnfs, name, path, sizeof(path));

	if (!error)
		error = stat_path(libnfs, path, &operation);
	if (error)
		return error;
	if (!S_ISREG(operation.stat.nfs_mode)) {
		set_error(libnfs, "not a regular file");
		return S_ISDIR(operation.stat.nfs_mode) ? -EISDIR : -EINVAL;
	}
	*size = operation.stat.nfs_size;
	return 0;
}

static void close_file(struct libnfs *libnfs, struct nfsfh *file)
{
	struct operation operation = {0};

	if (!libnfs->nfs || !file)
		return;
	run(libnfs, &operation, nfs_close_async(libnfs->nfs, file, on_done, &operation));
}

static int lookup(struct names *names, const char *name, struct nfs3_handle *handle)
{
	struct libnfs *libnfs = libnfs_of(names);
	struct operation operation = {0};
	const struct nfs_fh3 *found;
	char path[4096];
	int error = usable(libnfs) ?: root_name(libnfs, name, path, sizeof(path));

	if (!error)
		error = run(libnfs, &operation,
			    nfs_open_async(libnfs->nfs, path, O_RDONLY, on_open, &operation));
	if (error)
		return error;
	/* libnfs's own way to a handle (its examples/nfs-fh.c): the private type has this layout.
	 */
	found = (const struct nfs_fh3 *)nfs_get_fh(operation.file);
	if (found->data.data_len > NFS3_FHSIZE) {
		set_error(libnfs, "the server's file handle is longer than RFC 1813 allows");
		error = -EPROTO;
	} else {
		handle->length = found->data.data_len;
		memcpy(handle->bytes, found->data.data_val, handle->length);
	}
	close_file(libnfs, operation.file);
	return error;
}

/* Makes the directories above `path`. An existing one is no error. */
static int make_parents(struct libnfs *libnfs, char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		struct operation operation = {0};
		int error;

		*slash = '\0';
		error = run(
			libnfs, &operation,
			nfs_mkdir2_async(libnfs->nfs, path, DIRECTORY_MODE, on_done, &operation));
		*slash = '/';
		if (error && error != -EEXIST)
			return error;
	}
	return 0;
}

/* GUARDED (RFC 1813, 3.3.8): a file that is there already stays as it is. */
static int create_guarded(struct libnfs *libnfs, const char *path)
{
	struct operation operation = {0};
	int error = run(libnfs, &operation,
			nfs_open2_async(libnfs->nfs, path, O_CREAT | O_EXCL | O_RDWR, FILE_MODE,
					on_open, &operation));

	if (!error)
		close_file(libnfs, operation.file);
	return error == -EEXIST ? 0 : error;
}

static int create(struct names *names, const char *name)
{
	struct libnfs *libnfs = libnfs_of(names);
	char path[4096];
	int error = usable(libnfs) ?: root_name(libnfs, name, path, sizeof(path));

	if (!error)
		error = create_guarded(libnfs, path);
	if (error != -ENOENT)
		return error;
	error = make_parents(libnfs, path);
	return error ?: create_guarded(libnfs, path);
}

static int remove_name(struct names *names, const char *name)
{
	struct libnfs *libnfs = libnfs_of(names);
	struct operation operation = {0};
	char path[4096];
	int error = usable(libnfs) ?: root_name(libnfs, name, path, sizeof(path));

	if (error)
		return error;
	return run(libnfs, &operation, nfs_unlink_async(libnfs->nfs, path, on_done, &operation));
}

static int find_limits(struct names *names, const struct nfs3_handle *handle,
		       struct nfs3_limits *limits)
{
	struct libnfs *libnfs = libnfs_of(names);
	struct operation operation = {0};
	FSINFO3args args = {0};
	int error = usable(libnfs);

	if (error)
		return error;
	args.fsroot.data.data_len = handle->length;
	args.fsroot.data.data_val = (char *)handle->bytes;
	error = run(libnfs, &operation, start_fsinfo(libnfs, &args, &operation));
	if (!error)
		*limits = operation.limits;
	return error;
}

const struct names_ops names_libnfs = {
	.open = open_session,
	.close = close_session,
	.alive = alive,
	.nfs_port = nfs_port,
	.size = find_size,
	.lookup = lookup,
	.create = create,
	.remove = remove_name,
	.limits = find_limits,
};
