/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * names3.c - what names need in NFSv3 only: the export's root, from MOUNT (RFC 1813, 5), ports,
 * from the port mapper (RFC 1833), and exclusive creates. The first two by libnfs, of which only
 * asynchronous calls are used, driven by a loop of our own: its synchronous calls cannot be
 * interrupted, and a server that stops answering would block fio for ever.
 */
#include <net/if.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-mount.h>

#include "nfs/names.h"
#include "nfs/nfs3.h"
#include "nfs/version.h"

struct mount {
	struct path *path;
	struct patience patience;
	struct nfs_context *nfs; /* owns `rpc`; only `nfs` can be bound to an interface */
	struct rpc_context *rpc; /* one connection: libnfs cannot connect it twice */
	struct nfs_handle *root;
	struct flavors *flavors; /* or NULL */

	/* The result of the last call. libnfs calls back within rpc_service(), or when `nfs`
	 * is destroyed. */
	bool done;
	int error;	    /* a negative errno, or 0 */
	enum answer answer; /* who reports the error */
	char words[256];    /* the error in words */
};

static int fail(struct mount *mount, int error, const char *words)
{
	snprintf(mount->words, sizeof(mount->words), "%s",
		 words && *words ? words : "no reason given");
	mount->answer = ANSWER_NONE;
	return mount->error = error;
}

/* --- what libnfs calls back --- */

/* RPC errors that replace results (RFC 5531, 9), in libnfs's words and in ours. */
static const struct refusal {
	const char *libnfs;
	int error;
	const char *words;
} refusals[] = {
	{"RPC Packet not accepted by the server", -EACCES,
	 "the server denied the call: it may want a reserved source port (run as root, or export "
	 "with \"insecure\") or other credentials than AUTH_SYS"},
	{"Server responded: Program version mismatch", -EPROTONOSUPPORT,
	 "the server has no NFSv3 (PROG_MISMATCH): use version=4.1"},
	{"Server responded: Program not available", -EPROTONOSUPPORT,
	 "there is no NFSv3, or no MOUNT, on this port (PROG_UNAVAIL): are nfsport= and "
	 "mountport= right? Or use version=4.1"},
	{"Server responded: Procedure not available", -EOPNOTSUPP,
	 "the server lacks the procedure (PROC_UNAVAIL)"},
	{"Server responded: Garbage arguments", -EINVAL,
	 "the server could not read the call (GARBAGE_ARGS)"},
	{"Server responded: System Error", -EIO, "the server ran out of something (SYSTEM_ERR)"},
};

/* `words`: libnfs's text for the error, or NULL. */
static void refuse(struct mount *mount, const char *words)
{
	for (size_t i = 0; words && i < ARRAY_SIZE(refusals); i++)
		if (!strncmp(words, refusals[i].libnfs, strlen(refusals[i].libnfs))) {
			fail(mount, refusals[i].error, refusals[i].words);
			mount->answer = ANSWER_RPC;
			return;
		}
	fail(mount, -EIO, words);
}

static void on_done(struct rpc_context *rpc, int status, void *data, void *private)
{
	struct mount *mount = private;

	mount->done = true;
	if (status != RPC_STATUS_SUCCESS)
		refuse(mount, status == RPC_STATUS_ERROR ? data : "the connection was lost");
}

static void on_root(struct rpc_context *rpc, int status, void *data, void *private)
{
	const mountres3 *result = data;
	struct mount *mount = private;
	const mountres3_ok *found;
	const char *name, *rest;
	const fhandle3 *root;

	on_done(rpc, status, data, private);
	if (mount->error)
		return;
	if (result->fhs_status != MNT3_OK) { /* the numbers of nfsstat3 (RFC 1813, 5.1.5) */
		name = nfs3_status(result->fhs_status)->name;
		rest = strchr(name, '_');
		fail(mount, -nfs3_status(result->fhs_status)->error, name);
		mount->answer = ANSWER_STATUS;
		if (rest)
			snprintf(mount->words, sizeof(mount->words), "MNT3ERR%s", rest);
		return;
	}
	found = &result->mountres3_u.mountinfo;
	root = &found->fhandle;
	if (!root->fhandle3_len || root->fhandle3_len > NFS3_FHSIZE) {
		fail(mount, -EPROTO, "the server's file handle has no length that RFC 1813 allows");
		return;
	}
	mount->root->length = root->fhandle3_len;
	memcpy(mount->root->bytes, root->fhandle3_val, root->fhandle3_len);
	if (mount->flavors && !found->auth_flavors.auth_flavors_len)
		flavors_add(mount->flavors, RPC_AUTH_SYS); /* as Linux takes an empty list */
	for (unsigned int i = 0; mount->flavors && i < found->auth_flavors.auth_flavors_len; i++)
		flavors_add(mount->flavors, (uint32_t)found->auth_flavors.auth_flavors_val[i]);
}

/* --- one question --- */

/* Waits for the call that libnfs was given. `refused`: libnfs did not take the call. */
static int await(struct mount *mount, bool refused)
{
	if (refused)
		return fail(mount, -EIO, rpc_get_error(mount->rpc));
	while (!mount->done) {
		struct pollfd poll_fd = {
			.fd = rpc_get_fd(mount->rpc),
			.events = (short)rpc_which_events(mount->rpc),
		};
		int error = wait_part(&poll_fd, 1, WAIT_SLICE_MS, &mount->patience,
				      mount->path->job.stop);

		if (error)
			return fail(mount, error,
				    error == -EINTR ? "interrupted" : "the server does not answer");
		/* A broken connection also ends its calls, with an error that is no refusal. */
		if (rpc_service(mount->rpc, poll_fd.revents) < 0 &&
		    (!mount->done || (!mount->answer && mount->error == -EIO)))
			return fail(mount, -ENOTCONN, rpc_get_error(mount->rpc));
	}
	return mount->error;
}

static void begin(struct mount *mount)
{
	mount->done = false;
	mount->error = 0;
}

/* --- connections --- */

/* libnfs sends no supplementary groups by itself. */
static int set_credentials(struct mount *mount)
{
	struct auth_sys_ids ids = mount->path->ids;
	struct AUTH *auth =
		libnfs_authunix_create(ids.machine, ids.uid, ids.gid, ids.gid_count, ids.gids);

	if (!auth)
		return fail(mount, -ENOMEM, "out of memory");
	nfs_set_auth(mount->nfs, auth); /* which frees it in the end */
	return 0;
}

/* libnfs ignores an address's zone (RFC 4007): sockets are bound to the zone's interface. */
static int bind_zone(struct mount *mount)
{
	const struct sockaddr_in6 *remote = (const void *)&mount->path->config.remote;
	char interface[IF_NAMESIZE];

	if (remote->sin6_family != AF_INET6 || !remote->sin6_scope_id)
		return 0;
	if (!if_indextoname(remote->sin6_scope_id, interface))
		return fail(mount, -errno, strerror(errno));
	nfs_set_interface(mount->nfs, interface);
	return 0;
}

static void disconnect(struct mount *mount)
{
	if (mount->nfs)
		nfs_destroy_context(mount->nfs);
	mount->nfs = NULL;
}

/* Connects, and sends a NULL call. Port 0: asks the server's rpcbind for the program's port. */
static int connect_to(struct mount *mount, int program, int version, unsigned int port)
{
	const char *address = mount->path->config.address;
	int error;

	disconnect(mount);
	mount->nfs = nfs_init_context();
	if (!mount->nfs)
		return fail(mount, -ENOMEM, "out of memory");
	mount->rpc = nfs_get_rpc_context(mount->nfs);
	nfs_set_autoreconnect(mount->nfs, 0);
	error = set_credentials(mount) ?: bind_zone(mount);
	if (error)
		return error;
	begin(mount);
	return await(mount, port ? rpc_connect_port_async(mount->rpc, address, (int)port, program,
							  version, on_done, mount)
				 : rpc_connect_program_async(mount->rpc, address, program, version,
							     on_done, mount));
}

static uint16_t peer_port(const struct mount *mount)
{
	struct sockaddr_in6 peer = {0}; /* IPv4 has its port in the same place */
	socklen_t length = sizeof(peer);

	if (!mount->nfs || getpeername(rpc_get_fd(mount->rpc), (struct sockaddr *)&peer, &length))
		return 0;
	return ntohs(peer.sin6_port);
}

/* --- the questions --- */

/* libnfs 6 and later return the PDU they queued, earlier ones an error number. */
static int find_root(struct mount *mount)
{
	char *export = mount->path->config.export;
	bool refused;

	begin(mount);
#ifdef LIBNFS_API_V2
	refused = !rpc_mount3_mnt_task(mount->rpc, on_root, export, mount);
#else
	refused = rpc_mount3_mnt_async(mount->rpc, on_root, export, mount);
#endif
	return await(mount, refused);
}

/* --- what people are told when it fails --- */

enum { RPCBIND = 111 };

/* What to do where the server blames the export's path, or this host. */
static const char *remedy(void)
{
	return geteuid()
		       ? "is that the export's path, and does it allow this host? Only root has a "
			 "reserved source port: for other users the export needs \"insecure\""
		       : "is that the export's path, and does it allow this host?";
}

static const char *source(const struct path *path)
{
	return path->config.local_count
		       ? " (MOUNT does not come from localaddr, but from the address that the "
			 "system chooses: is that one allowed?)"
		       : "";
}

/* True where a status of MOUNT (RFC 1813, 5.1.5), or of FSINFO after it, is about the export. */
static bool blames_export(int error, enum answer answer)
{
	return answer == ANSWER_STATUS &&
	       (error == -ENOENT || error == -ENOTDIR || error == -EPERM || error == -EACCES);
}

/* The first port that cannot be reached, with its negative errno, or 0 where all answer. */
static unsigned int unreachable_port(const struct path *path, int *error)
{
	const struct path_config *config = &path->config;
	const unsigned int ports[] = {config->terms.mountport ?: RPCBIND,
				      config->nfs_port ?: RPCBIND};

	for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
		struct rpc_address address = {
			.remote = config->remote,
			.remote_length = config->remote_length,
		};

		rpc_set_port(&address.remote, ports[i]);
		*error = tcp_probe(&address, 3 * SEC, path->job.stop);
		if (*error)
			return ports[i];
	}
	return 0;
}

/* Names the programs whose ports the path does not give, so that rpcbind is asked for them. */
static const char *not_registered(const struct path_config *config)
{
	if (config->terms.mountport)
		return "NFS (program 100003)";
	return config->nfs_port ? "MOUNT (program 100005)"
				: "MOUNT (program 100005) or NFS (program 100003)";
}

/*
 * Logs that MOUNT, or the first NFS call after it, failed with `error`: why, and what to do.
 * `answer`: who reported it, in the words `why` ("": strerror()'s). `otherwise`: advice
 * to add; a stop, a lost connection and a time-out have their own. Returns `error`.
 */
static int say_failed(const struct path *path, int error, enum answer answer, const char *why,
		      const char *otherwise)
{
	if (error == -EINTR || blames_export(error, answer)) {
		path_say(path, "cannot mount: %s: %s%s", why,
			 error == -EINTR ? "the run was stopped" : remedy(),
			 error == -EINTR ? "" : otherwise);
		return error;
	}
	if (!answer && error == -ENOTCONN) /* all ports can be reached */
		otherwise = ": the connection was lost: did the server restart? Some servers close "
			    "it where their export list lacks the host";
	else if (!answer && error == -ETIMEDOUT)
		otherwise = ": timeo= and retrans= give it longer";
	path_say(path, "cannot mount: %s%s", *why ? why : strerror(-error), otherwise);
	return error;
}

/*
 * Logs why the path cannot be mounted, and what to do. `peer`: the port that libnfs was connected
 * to; 0: none, or it did not answer. Tries each port that MOUNT needs, for up to three seconds, to
 * find the reason that libnfs does not report. Returns the negative errno that fits the reason
 * best.
 */
static int explain(const struct path *path, int error, enum answer answer, const char *why,
		   uint16_t peer)
{
	unsigned int port;
	int reason;

	if (error == -EINTR || blames_export(error, answer))
		return say_failed(path, error, answer, why, source(path));
	if (peer == RPCBIND) {
		path_say(path,
			 "cannot mount: the server's rpcbind gave no port for %s: does it "
			 "serve NFSv3? Name the ports (nfsport=, mountport=), or use version=4.1, "
			 "which needs neither rpcbind nor MOUNT",
			 not_registered(&path->config));
		return -ECONNREFUSED; /* as if nothing listened: a restart may end that */
	}
	port = answer ? 0 : unreachable_port(path, &reason);
	if (port && reason == -EINTR)
		return say_failed(path, reason, answer, why, "");
	if (!port)
		return say_failed(path, error, answer, why, answer ? source(path) : " (libnfs)");
	if (*errno_remedy(-reason)) /* the fault is this machine's */
		return say_failed(path, reason, answer, "", errno_remedy(-reason));
	path_say(path,
		 "cannot reach port %u: %s: is the server up, and if it has no rpcbind, are "
		 "nfsport= and mountport= right? version=4.1 needs neither rpcbind nor MOUNT",
		 port, strerror(-reason));
	return reason;
}

/* --- one question, from connecting to words --- */

/* Without UMNT: libnfs 4.0.0 can hang in it, and RFC 1813 (5.2.3) makes it advisory. */
static int ask(struct path *path, struct nfs_handle *root, struct flavors *flavors)
{
	struct mount mount = {
		.path = path,
		.patience = patience_begin(clock_now(), path_names_timeout(path)),
		.root = root,
		.flavors = flavors,
	};
	int error = connect_to(&mount, MOUNT_PROGRAM, MOUNT_V3, path->config.terms.mountport)
			    ?: find_root(&mount);

	if (!error && !path->config.nfs_port) {
		error = connect_to(&mount, NFS_PROGRAM, NFS_V3, 0);
		path->config.nfs_port = error ? 0 : peer_port(&mount);
	}
	if (error)
		error = explain(path, error, mount.answer, mount.words,
				error == -ETIMEDOUT ? 0 : peer_port(&mount));
	disconnect(&mount);
	return error;
}

/* --- answers --- */

struct known {
	struct known *next;
	char *question;
	unsigned int nfs_port;
	struct nfs_handle root;
	atomic_bool refused; /* the server has refused `root` since */
};

/* fio mounts before it forks its jobs, or makes their threads. Only the head of the list and
 * `refused` change, atomically: a lock might be held during a fork. */
static _Atomic(struct known *) all_known;

/* A text of all that the answer depends on, for free(); NULL: no memory. */
static char *question_of(const struct path *path)
{
	const struct path_config *config = &path->config;
	const struct sockaddr_in6 *remote = (const void *)&config->remote; /* IPv4: of no zone */
	char *text;

	if (asprintf(&text, "%s%%%u,%u,%u,%u,%u,%s", config->address, remote->sin6_scope_id,
		     config->terms.mountport, config->nfs_port, path->ids.uid, path->ids.gid,
		     config->export) < 0)
		return NULL;
	return text;
}

/* Takes over `question`. */
static void keep(char *question, const struct path *path, const struct nfs_handle *root)
{
	struct known *known = malloc(sizeof(*known));

	if (!known) {
		free(question);
		return;
	}
	*known = (struct known){
		.next = all_known,
		.question = question,
		.nfs_port = path->config.nfs_port,
		.root = *root,
	};
	while (!atomic_compare_exchange_weak(&all_known, &known->next, known)) {
	}
}

/*
 * Finds the root of the path's export, and config.nfs_port where that is 0. `flavors`, zeroed by
 * the caller, gets the flavors that the export takes; NULL: not wanted. Waits for the server until
 * its answer, path_names_timeout() or path_job's stop(). 0, or a negative errno, logged.
 *
 * Without `flavors` the server is asked once for each export: all paths of the process, and of
 * processes that it forks later, share the answer. Any thread may ask.
 */
static int mount3(struct path *path, struct nfs_handle *root, struct flavors *flavors)
{
	char *question = flavors ? NULL : question_of(path);
	const struct known *known = question ? all_known : NULL;
	int error = 0;

	while (known && (known->refused || strcmp(known->question, question)))
		known = known->next;
	path->mount_known = known;
	if (known) {
		*root = known->root;
		path->config.nfs_port = known->nfs_port;
	} else {
		error = ask(path, root, flavors);
	}
	if (known || error)
		free(question);
	else if (question)
		keep(question, path, root);
	return error;
}

/* This root, or NFS's port found with it, is out of date: MOUNT is asked again. */
static void mount3_refused(const struct nfs_handle *root)
{
	for (struct known *known = all_known; known; known = known->next)
		if (nfs_handle_same(&known->root, root))
			known->refused = true;
}

/* --- the export, as struct nfs_version has it --- */

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
	return error ? say_failed(path, error, names->answer, names->error, "") : 0;
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
