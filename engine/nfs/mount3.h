/* SPDX-License-Identifier: GPL-2.0-only */
/* mount3.h - what NFSv3 leaves to other programs: the export's root by MOUNT (RFC 1813, 5), and
 * ports by the port mapper (RFC 1833), through libnfs. */
#pragma once

#include "nfs/status.h"

struct flavors;
struct nfs_handle;
struct path;

/*
 * Finds the root of the path's export, and config.nfs_port where that is 0; `flavors`, which begins
 * with zeros, gets those that the export takes, NULL: they are not wanted. Waits for the server
 * until its answer, path_names_timeout() or path_job's stop(). 0, or a negative errno, logged.
 *
 * Without `flavors` each question is asked once: all paths of the process have its answer, and
 * those of processes that it forks later. Any thread may ask.
 */
int mount3(struct path *path, struct nfs_handle *root, struct flavors *flavors);

/* The server does not know this root any more, or its port is gone: it is asked anew. */
void mount3_refused(const struct nfs_handle *root);

/* Logs why the path cannot be mounted, or NFS does not answer what comes after MOUNT, and what to
 * do, else `otherwise`: `answer` says so, in the words `why`, which may be empty. Returns `error`.
 */
int mount3_explain(const struct path *path, int error, enum answer answer, const char *why,
		   const char *otherwise);
