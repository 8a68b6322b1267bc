/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libnfs's nfs_mount_async() would go on to NFS over TCP, which the server may not offer: these are
 * the two calls that it begins with.
 */
#include "nfs/mount3.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-mount.h>

#include "util.h"

enum { SLICE_MS = 100 };

/* libnfs calls back within rpc_service(), or within rpc_destroy_context(). */
struct mount {
	const struct names_config *config;
	struct rpc_context *rpc;
	struct nfs3_handle *root;
	bool done;
	int error; /* negative errno */
	char *why;
	size_t why_size;
};

static void fail(struct mount *mount, int error, const char *words)
{
	mount->done = true;
	mount->error = error;
	snprintf(mount->why, mount->why_size, "%s", words && *words ? words : "no reason given");
}

static void on_answer(struct rpc_context *rpc, int status, void *data, void *private)
{
	const mountres3 *result = data;
	struct mount *mount = private;
	uint32_t length;

	if (status != RPC_STATUS_SUCCESS) {
		fail(mount, -EIO, status == RPC_STATUS_ERROR ? data : rpc_get_error(rpc));
		return;
	}
	if (result->fhs_status != MNT3_OK) {
		fail(mount, mountstat3_to_errno((int)result->fhs_status),
		     mountstat3_to_str((int)result->fhs_status));
		return;
	}
	length = result->mountres3_u.mountinfo.fhandle.fhandle3_len;
	if (!length || length > NFS3_FHSIZE) {
		fail(mount, -EPROTO, "MOUNT's file handle is not as long as RFC 1813 says");
		return;
	}
	mount->root->length = length;
	memcpy(mount->root->bytes, result->mountres3_u.mountinfo.fhandle.fhandle3_val, length);
	mount->done = true;
}

/* libnfs 6 and later return the PDU they queued, earlier ones an error number. */
static bool ask(struct mount *mount)
{
	char *export = (char *)mount->config->export;

#ifdef LIBNFS_API_V2
	return rpc_mount3_mnt_task(mount->rpc, on_answer, export, mount);
#else
	return !rpc_mount3_mnt_async(mount->rpc, on_answer, export, mount);
#endif
}

static void on_connected(struct rpc_context *rpc, int status, void *data, void *private)
{
	struct mount *mount = private;

	if (status != RPC_STATUS_SUCCESS)
		fail(mount, -EIO, status == RPC_STATUS_ERROR ? data : rpc_get_error(rpc));
	else if (!ask(mount))
		fail(mount, -EIO, rpc_get_error(rpc));
}

static int begin(struct mount *mount)
{
	const struct names_config *config = mount->config;

	if (config->mount_port)
		return rpc_connect_port_async(mount->rpc, config->address, (int)config->mount_port,
					      MOUNT_PROGRAM, MOUNT_V3, on_connected, mount);
	return rpc_connect_program_async(mount->rpc, config->address, MOUNT_PROGRAM, MOUNT_V3,
					 on_connected, mount);
}

static void wait_for(struct mount *mount)
{
	uint64_t deadline = clock_now() + mount->config->timeout;

	while (!mount->done) {
		struct pollfd poll_fd = {
			.fd = rpc_get_fd(mount->rpc),
			.events = (short)rpc_which_events(mount->rpc),
		};

		if (mount->config->stop())
			fail(mount, -EINTR, "interrupted");
		else if (clock_now() > deadline)
			fail(mount, -ETIMEDOUT, "the server does not answer MOUNT");
		else if (poll(&poll_fd, 1, SLICE_MS) < 0 && errno != EINTR)
			fail(mount, -errno, strerror(errno));
		else if (rpc_service(mount->rpc, poll_fd.revents) < 0 && !mount->done)
			fail(mount, -ENOTCONN, rpc_get_error(mount->rpc));
	}
}

int mount3_root(const struct names_config *config, struct nfs3_handle *root, char *why,
		size_t why_size)
{
	struct mount mount = {
		.config = config,
		.rpc = rpc_init_context(),
		.root = root,
		.why = why,
		.why_size = why_size,
	};
	int error;

	if (!mount.rpc) {
		snprintf(why, why_size, "out of memory");
		return -ENOMEM;
	}
	rpc_set_uid(mount.rpc, (int)config->uid);
	rpc_set_gid(mount.rpc, (int)config->gid);
	if (begin(&mount))
		fail(&mount, -EIO, rpc_get_error(mount.rpc));
	wait_for(&mount);
	error = mount.error;
	/* What it still calls back finds a place for its words that nobody reads. */
	mount.why_size = 0;
	rpc_destroy_context(mount.rpc);
	return error;
}
