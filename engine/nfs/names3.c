/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * names3.c - NFSv3's name space through libnfs, over TCP.
 *
 * libnfs is used by its asynchronous calls alone, each driven by a loop of our own: its synchronous
 * ones cannot be given up, and a server that stops answering would hold fio for ever.
 */
#include "nfs/names3.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
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

#include "nfs/path.h"
#include "nfs/mount_failure.h"
#include "nfs/status.h"
#include "client/timers.h"
#include "wait.h"

enum { NAME_ROOM = 4096 }; /* bytes of a name from the export's root, with the NUL */

struct names {
	struct nfs_context *nfs; /* NULL: given up, every operation fails */
	struct path *path;
	char error[256];
};

/* One operation. libnfs calls back within nfs_service(), or within nfs_destroy_context(). */
struct operation {
	int (*start)(struct names *names, struct operation *operation); /* 0: libnfs has it */
	const char *name;		 /* what it is about: from the root, or NULL */
	const struct nfs_handle *handle; /* what it is about, by its handle */

	bool done;
	int error;		       /* negative errno, or 0 and more: success */
	const struct refusal *refusal; /* of the call by RPC, or NULL */
	struct nfsfh *file;
	struct nfs_stat_64 stat;
	uint32_t read_max, write_max; /* bytes */
};

static void set_error(struct names *names, const char *words)
{
	snprintf(names->error, sizeof(names->error), "%s",
		 words && *words ? words : "no reason given");
}

/*
 * What RPC itself answers instead of results (RFC 5531, 9). libnfs gives it as -EFAULT with these
 * words. It has -EFAULT also for a program that rpcbind does not know, which mount_failure.c finds
 * out. A connection that is lost never comes here.
 */
static const struct refusal {
	const char *libnfs;
	int error;
	const char *words;
} refusals[] = {
	{"RPC Packet not accepted by the server", -EACCES,
	 "the server denied the call: it may want a reserved source port (run as root, or export "
	 "with \"insecure\") or other credentials than AUTH_SYS"},
	{"Server responded: Program version mismatch", -EPROTONOSUPPORT,
	 "the server has no NFSv3 (PROG_MISMATCH): version=4.1"},
	{"Server responded: Program not available", -EPROTONOSUPPORT,
	 "there is no NFSv3, or no MOUNT, on this port (PROG_UNAVAIL): version=4.1, or are "
	 "nfsport= and mountport= right?"},
	{"Server responded: Procedure not available", -EOPNOTSUPP,
	 "the server lacks the procedure (PROC_UNAVAIL)"},
	{"Server responded: Garbage arguments", -EINVAL,
	 "the server could not read the call (GARBAGE_ARGS)"},
	{"Server responded: System Error", -EIO, "the server ran out of something (SYSTEM_ERR)"},
};

/* `words` may be anything that libnfs hands to a callback, or NULL. */
static const struct refusal *find_refusal(const char *words)
{
	for (size_t i = 0; words && i < ARRAY_SIZE(refusals); i++)
		if (!strncmp(words, refusals[i].libnfs, strlen(refusals[i].libnfs)))
			return &refusals[i];
	return NULL;
}

/* Keeps the words for an operation that failed. For other -EFAULTs libnfs has none of its own. */
static int explain(struct names *names, const struct operation *operation)
{
	const struct refusal *refusal = operation->refusal;

	set_error(names, refusal ? refusal->words : nfs_get_error(names->nfs));
	if (refusal)
		return refusal->error;
	return operation->error == -EFAULT ? -EIO : operation->error;
}

static void drop_context(struct names *names)
{
	if (names->nfs)
		nfs_destroy_context(names->nfs);
	names->nfs = NULL;
}

/* Destroying the context ends what is outstanding, while its struct operation still exists. */
static int give_up(struct names *names, int error, const char *words)
{
	set_error(names, words);
	drop_context(names);
	return error;
}

/* The connection is lost. What was answered before stands; libnfs answers the rest by -EFAULT. */
static int lose(struct names *names, const struct operation *operation)
{
	char words[sizeof(names->error)];

	if (operation->done && operation->error != -EFAULT)
		return 0;
	snprintf(words, sizeof(words), "%s", operation->done ? "" : nfs_get_error(names->nfs));
	return give_up(names, -ENOTCONN, *words ? words : "connection lost");
}

static int wait_for(struct names *names, struct operation *operation)
{
	uint64_t deadline = clock_now() + path_names_timeout(names->path);

	while (!operation->done) {
		struct pollfd poll_fd = {
			.fd = nfs_get_fd(names->nfs),
			.events = (short)nfs_which_events(names->nfs),
		};
		int error = wait_slice(&poll_fd, 1, deadline, names->path->job.stop);

		if (error)
			return give_up(names, error,
				       error == -EINTR ? "interrupted"
						       : "the server does not answer");
		if (nfs_service(names->nfs, poll_fd.revents) < 0)
			error = lose(names, operation);
		if (error)
			return error;
	}
	return operation->error < 0 ? explain(names, operation) : 0;
}

static int run_once(struct names *names, struct operation *operation)
{
	operation->done = false;
	operation->error = 0;
	operation->refusal = NULL;
	if (operation->start(names, operation)) {
		set_error(names, nfs_get_error(names->nfs));
		return -EIO;
	}
	return wait_for(names, operation);
}

/*
 * Where the server has asked to wait, as it has `delays` times before: waits, and gives true for
 * the operation to be asked again, or false after stop(). -EAGAIN is libnfs's word for
 * NFS3ERR_JUKEBOX, and for nothing else here.
 */
static bool is_put_off(struct names *names, uint32_t delays, int *error)
{
	struct path *path = names->path;

	if (*error != -EAGAIN)
		return false;
	if (delays + 1 == DELAYS_QUIET && !path->delay_logged) {
		path->job.log("%s: the server keeps asking to wait (%s): still trying",
			      path->config.label, nfs3_status_name(NFS3_STATUS_JUKEBOX));
		path->delay_logged = true;
	}
	*error = wait_until(clock_now() + timer_delay(delays), path->job.stop);
	if (*error)
		give_up(names, *error, "interrupted");
	return !*error;
}

/* 0 or a negative errno, with names->error set. */
static int run(struct names *names, struct operation *operation)
{
	uint32_t delays = 0;
	int error;

	do
		error = run_once(names, operation);
	while (is_put_off(names, delays++, &error));
	return error;
}

/* --- what libnfs calls back --- */

static void on_done(int error, struct nfs_context *nfs, void *data, void *private)
{
	struct operation *operation = private;

	operation->error = error;
	operation->refusal = error == -EFAULT ? find_refusal(data) : NULL;
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

	operation->done = true;
	if (status != RPC_STATUS_SUCCESS) {
		operation->error = -EFAULT;
		operation->refusal = status == RPC_STATUS_ERROR ? find_refusal(data) : NULL;
	} else if (result->status != NFS3_OK) {
		operation->error = -nfs3_errno(result->status);
	} else {
		operation->read_max = result->FSINFO3res_u.resok.rtmax;
		operation->write_max = result->FSINFO3res_u.resok.wtmax;
	}
}

/* --- what libnfs is called for --- */

static int start_mount(struct names *names, struct operation *operation)
{
	const struct path_config *config = &names->path->config;

	return nfs_mount_async(names->nfs, config->address, config->export, on_done, operation);
}

static int start_stat(struct names *names, struct operation *operation)
{
	return nfs_stat64_async(names->nfs, operation->name, on_stat, operation);
}

static int start_open(struct names *names, struct operation *operation)
{
	return nfs_open_async(names->nfs, operation->name, O_RDONLY, on_open, operation);
}

static int start_close(struct names *names, struct operation *operation)
{
	return nfs_close_async(names->nfs, operation->file, on_done, operation);
}

static int start_mkdir(struct names *names, struct operation *operation)
{
	return nfs_mkdir2_async(names->nfs, operation->name, DIRECTORY_MODE, on_done, operation);
}

/* GUARDED (RFC 1813, 3.3.8): a file that is there already stays as it is. */
static int start_create(struct names *names, struct operation *operation)
{
	return nfs_open2_async(names->nfs, operation->name, O_CREAT | O_EXCL | O_RDWR, FILE_MODE,
			       on_open, operation);
}

static int start_remove(struct names *names, struct operation *operation)
{
	return nfs_unlink_async(names->nfs, operation->name, on_done, operation);
}

/* libnfs 6 and later return the PDU they queued, earlier ones an error number. */
static int start_fsinfo(struct names *names, struct operation *operation)
{
	struct rpc_context *rpc = nfs_get_rpc_context(names->nfs);
	FSINFO3args args = {0};

	args.fsroot.data.data_len = operation->handle->length;
	args.fsroot.data.data_val = (char *)operation->handle->bytes;
#ifdef LIBNFS_API_V2
	return rpc_nfs3_fsinfo_task(rpc, on_fsinfo, &args, operation) ? 0 : -1;
#else
	return rpc_nfs3_fsinfo_async(rpc, on_fsinfo, &args, operation);
#endif
}

/* --- the session --- */

/* libnfs sends no supplementary groups by itself, and its URL has no argument for them. */
static int set_credentials(struct names *names)
{
	struct auth_sys_ids ids = names->path->ids;
	struct AUTH *auth =
		libnfs_authunix_create(ids.machine, ids.uid, ids.gid, ids.gid_count, ids.gids);

	if (!auth)
		return -ENOMEM;
	nfs_set_auth(names->nfs, auth); /* which frees it in the end */
	return 0;
}

/* libnfs takes ports only as arguments of a URL; its host and export are not used. */
static int configure(struct names *names)
{
	const struct path_config *config = &names->path->config;
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
	url = nfs_parse_url_dir(names->nfs, text);
	if (!url) {
		set_error(names, nfs_get_error(names->nfs));
		return -EINVAL;
	}
	nfs_destroy_url(url);
	return set_credentials(names);
}

/* libnfs knows no zone of an address (RFC 4007): sockets are bound to its interface. */
static int bind_zone(struct names *names)
{
	const struct sockaddr_in6 *remote = (const void *)&names->path->config.remote;
	char interface[IF_NAMESIZE];

	if (remote->sin6_family != AF_INET6 || !remote->sin6_scope_id)
		return 0;
	if (!if_indextoname(remote->sin6_scope_id, interface))
		return -errno;
	nfs_set_interface(names->nfs, interface);
	return 0;
}

/*
 * libnfs mounts nothing whose rtmax or wtmax is below 8 KiB, its own least, and finds that out when
 * all else is done: it reads and writes nothing here, and its names work.
 */
static bool is_least_size(const struct names *names, int error)
{
	return error == -EINVAL && !strncmp(names->error, "server max ", strlen("server max "));
}

/* Each time by a context of its own: libnfs connects one no second time. */
static int mount_export(struct names *names)
{
	struct operation mount = {.start = start_mount};
	uint32_t delays = 0;
	int error;

	do {
		drop_context(names);
		names->nfs = nfs_init_context();
		error = names->nfs ? configure(names) ?: bind_zone(names) : -ENOMEM;
		if (!error)
			error = run_once(names, &mount);
	} while (is_put_off(names, delays++, &error));
	return is_least_size(names, error) ? 0 : error;
}

/* Without UMOUNT: libnfs 4.0.0 can hang in it, and RFC 1813 (4.1.3) makes it advisory. */
static void close_names(struct names *names)
{
	drop_context(names);
	free(names);
}

static uint16_t peer_port(const struct names *names)
{
	struct sockaddr_in6 peer = {0}; /* IPv4 has its port in the same place */
	socklen_t length = sizeof(peer);

	if (!names->nfs || getpeername(nfs_get_fd(names->nfs), (struct sockaddr *)&peer, &length))
		return 0;
	return ntohs(peer.sin6_port);
}

static int open_names(struct names **out, struct path *path)
{
	struct names *names = calloc(1, sizeof(*names));
	int error;

	if (!names)
		return -ENOMEM;
	names->path = path;
	error = mount_export(names);
	if (error) {
		error = mount_failure_explain(path, error, names->error, peer_port(names));
		close_names(names);
		return error;
	}
	*out = names;
	return 0;
}

static bool alive(const struct names *names)
{
	return names->nfs;
}

static const char *error_of(const struct names *names)
{
	return names->error;
}

/* --- operations --- */

/* libnfs takes names from the export's root. Fails where the session was given up. */
static int root_name(struct names *names, const char *name, char path[NAME_ROOM])
{
	if (!names->nfs)
		return -ENOTCONN;
	if (snprintf(path, NAME_ROOM, "/%s", name) < NAME_ROOM)
		return 0;
	set_error(names, "the name is too long");
	return -ENAMETOOLONG;
}

static int size_of(struct names *names, const char *name, uint64_t *size)
{
	char path[NAME_ROOM];
	struct operation look = {.start = start_stat, .name = path};
	int error = root_name(names, name, path) ?: run(names, &look);

	if (error)
		return error;
	if (!S_ISREG(look.stat.nfs_mode)) {
		set_error(names, "not a regular file");
		return S_ISDIR(look.stat.nfs_mode) ? -EISDIR : -EINVAL;
	}
	*size = look.stat.nfs_size;
	return 0;
}

static void close_file(struct names *names, struct nfsfh *file)
{
	struct operation close = {.start = start_close, .file = file};

	if (names->nfs && file)
		run(names, &close);
}

int names3_lookup(struct names *names, const char *name, struct nfs_handle *handle)
{
	char path[NAME_ROOM];
	struct operation open = {.start = start_open, .name = path};
	const struct nfs_fh3 *found;
	int error = root_name(names, name, path) ?: run(names, &open);

	if (error)
		return error;
	/* libnfs's own way to a handle (its examples/nfs-fh.c): the private type has this layout.
	 */
	found = (const struct nfs_fh3 *)nfs_get_fh(open.file);
	if (found->data.data_len > NFS3_FHSIZE) {
		set_error(names, "the server's file handle is longer than RFC 1813 allows");
		error = -EPROTO;
	} else {
		handle->length = found->data.data_len;
		memcpy(handle->bytes, found->data.data_val, handle->length);
	}
	close_file(names, open.file);
	return error;
}

/*
 * What exists already is no error. It is looked for first: a server may refuse MKDIR for want of
 * permission before it finds that out.
 */
static int make_one(struct names *names, const char *path)
{
	struct operation look = {.start = start_stat, .name = path};
	struct operation make = {.start = start_mkdir, .name = path};
	int error = run(names, &look);

	if (error != -ENOENT)
		return error;
	error = run(names, &make);
	return error == -EEXIST ? 0 : error;
}

/* True where "/" or "/." stands before `end`: that is the directory above it again. */
static bool leads_nowhere(const char *end)
{
	return end[-1] == '/' || (end[-1] == '.' && end[-2] == '/');
}

/* Makes the directories above `path`. */
static int make_parents(struct names *names, char *path)
{
	int error = 0;

	for (char *slash = strchr(path + 1, '/'); slash && !error; slash = strchr(slash + 1, '/')) {
		if (leads_nowhere(slash))
			continue;
		*slash = '\0';
		error = make_one(names, path);
		*slash = '/';
	}
	return error;
}

/* libnfs looks up what it has created: where that was put off, it counts as somebody else's. */
static int create_guarded(struct names *names, const char *path, bool *created)
{
	struct operation create = {.start = start_create, .name = path};
	int error = run(names, &create);

	*created = !error;
	if (!error)
		close_file(names, create.file);
	return error == -EEXIST ? 0 : error;
}

static int create(struct names *names, const char *name, bool *created)
{
	char path[NAME_ROOM];
	int error = root_name(names, name, path);

	if (!error)
		error = create_guarded(names, path, created);
	if (error != -ENOENT)
		return error;
	error = make_parents(names, path);
	return error ?: create_guarded(names, path, created);
}

static int remove_name(struct names *names, const char *name)
{
	char path[NAME_ROOM];
	struct operation remove = {.start = start_remove, .name = path};

	return root_name(names, name, path) ?: run(names, &remove);
}

static int make_directory(struct names *names, const char *name)
{
	char path[NAME_ROOM];
	int error = root_name(names, name, path) ?: make_parents(names, path);

	return error || leads_nowhere(strchr(path, '\0')) ? error : make_one(names, path);
}

int names3_open_directory(struct names *names, const char *name, bool make,
			  struct nfs_handle *found)
{
	int error = names3_lookup(names, name, found);

	if (error != -ENOENT || !make)
		return error;
	return make_directory(names, name) ?: names3_lookup(names, name, found);
}

int names3_limits(struct names *names, const void *file, uint32_t *read_max, uint32_t *write_max)
{
	struct operation fsinfo = {.start = start_fsinfo, .handle = file};
	int error = names->nfs ? run(names, &fsinfo) : -ENOTCONN;

	*read_max = fsinfo.read_max;
	*write_max = fsinfo.write_max;
	return error;
}

static int find_root(struct names *names, struct nfs_handle *root, uint32_t *read_max,
		     uint32_t *write_max)
{
	return names3_lookup(names, "", root) ?: names3_limits(names, root, read_max, write_max);
}

const struct names_ops names_nfs3 = {
	.open = open_names,
	.close = close_names,
	.alive = alive,
	.error = error_of,
	.nfs_port = peer_port,
	.root = find_root,
	.size = size_of,
	.create = create,
	.remove = remove_name,
};
