/* SPDX-License-Identifier: GPL-2.0-only */
/* mount3.h - asks, through libnfs, for what NFSv3 itself does not tell: the export's root, from
 * MOUNT (RFC 1813, 5), and ports, from the port mapper (RFC 1833). */
#pragma once

#include "nfs/status.h"

struct flavors;
struct nfs_handle;
struct path;

/*
 * Finds the root of the path's export, and config.nfs_port where that is 0. `flavors`, zeroed by
 * the caller, gets the flavors that the export takes; NULL: not wanted. Waits for the server until
 * its answer, path_names_timeout() or path_job's stop(). 0, or a negative errno, logged.
 *
 * Without `flavors` the server is asked once for each export: all paths of the process, and of
 * processes that it forks later, share the answer. Any thread may ask.
 */
int mount3(struct path *path, struct nfs_handle *root, struct flavors *flavors);

/* Called when this root, or NFS's port found with it, is out of date: MOUNT is asked again. */
void mount3_refused(const struct nfs_handle *root);

/*
 * Logs that MOUNT, or the first NFS call after it, failed with `error`: why, and what to do.
 * `answer`: who reported it, in the words `why` ("": strerror()'s). `otherwise`: advice
 * to add; a stop, a lost connection and a time-out have their own. Returns `error`.
 */
int mount3_explain(const struct path *path, int error, enum answer answer, const char *why,
		   const char *otherwise);
