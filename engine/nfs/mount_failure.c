/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/mount_failure.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "nfs/path.h"
#include "transport/transport.h"
#include "util.h"

enum { RPCBIND = 111 };

/* What to do where the server blames the export's path, or this host. */
static const char *remedy(void)
{
	return geteuid()
		       ? "is that the export's path, and does it allow this host? As another user "
			 "than root the source port is not a reserved one: the export then needs "
			 "\"insecure\""
		       : "is that the export's path, and does it allow this host?";
}

static const char *source(const struct path *path)
{
	return path->config.local_count
		       ? ". MOUNT does not come from localaddr, but from the address that the "
			 "system chooses: is that one allowed?"
		       : "";
}

/* By a status of MOUNT (RFC 1813, 5.1.5), or of FSINFO after it. */
static bool blames_export(int error, enum answer answer)
{
	if (answer != ANSWER_STATUS)
		return false;
	return error == -ENOENT || error == -ENOTDIR || error == -EPERM || error == -EACCES;
}

/* The first port that cannot be reached, with its negative errno, or 0 where all answer. */
static unsigned int unreachable_port(const struct path *path, int *error)
{
	const struct path_config *config = &path->config;
	const unsigned int ports[] = {config->mount_port ?: RPCBIND, config->nfs_port ?: RPCBIND};

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

/* What rpcbind is asked for, by the ports that it was not given. */
static const char *not_registered(const struct path_config *config)
{
	if (config->mount_port)
		return "NFS (program 100003)";
	return config->nfs_port ? "MOUNT (program 100005)"
				: "MOUNT (program 100005) or NFS (program 100003)";
}

static int was_stopped(const struct path *path, const char *why)
{
	path->job.log("%s: cannot mount: %s: the run was stopped", path->config.label, why);
	return -EINTR;
}

/* What to do where all ports can be reached; `otherwise`: where nothing is known, or the server
 * has answered. */
static const char *hint(int error, enum answer answer, const char *otherwise)
{
	if (answer)
		return otherwise;
	switch (error) {
	case -ENOTCONN:
		return ": the connection was lost: did the server restart? Some end those of hosts "
		       "that their export list lacks";
	case -ETIMEDOUT: return ": timeo= and retrans= give it longer";
	default: return otherwise;
	}
}

static int tell(const struct path *path, int error, enum answer answer, const char *why,
		const char *otherwise)
{
	const char *label = path->config.label;

	if (error == -EINTR)
		return was_stopped(path, why);
	if (blames_export(error, answer))
		path->job.log("%s: cannot mount: %s: %s%s", label, why, remedy(), otherwise);
	else
		path->job.log("%s: cannot mount: %s%s", label, *why ? why : strerror(-error),
			      hint(error, answer, otherwise));
	return error;
}

int mount_failure_explain_nfs(const struct path *path, int error, enum answer answer,
			      const char *why)
{
	return tell(path, error, answer, why, "");
}

int mount_failure_explain(const struct path *path, int error, enum answer answer, const char *why,
			  uint16_t peer)
{
	const char *label = path->config.label;
	unsigned int port;
	int reason;

	if (error == -EINTR || blames_export(error, answer))
		return tell(path, error, answer, why, source(path));
	if (peer == RPCBIND) {
		path->job.log(
			"%s: cannot mount: the server's rpcbind gave no port for %s: does it "
			"serve NFSv3? Name the ports (nfsport=, mountport=), or use version=4.1, "
			"which needs neither rpcbind nor MOUNT",
			label, not_registered(&path->config));
		return -ECONNREFUSED; /* as where nothing listens: a restart ends that */
	}
	port = answer ? 0 : unreachable_port(path, &reason);
	if (port && reason == -EINTR)
		return was_stopped(path, why);
	if (!port)
		return tell(path, error, answer, why, answer ? source(path) : " (libnfs)");
	if (*errno_remedy(-reason)) /* it is this machine's */
		return tell(path, reason, answer, "", errno_remedy(-reason));
	path->job.log(
		"%s: cannot reach port %u: %s: is the server up, and are nfsport= and mountport= "
		"right where no rpcbind answers? version=4.1 needs neither rpcbind nor MOUNT",
		label, port, strerror(-reason));
	return reason;
}
