/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * names.h - the name space of one export, over TCP, whatever READ, WRITE and COMMIT go over: one
 * table for each version of NFS.
 *
 * open(), root(), size(), create() and remove() wait for the server, until its answer, a time-out,
 * or path_job's stop() returns true, whichever comes first; one that asks to wait is asked again,
 * for as long as it does. They return 0 or a negative errno (-ETIMEDOUT, -EINTR for stop()), and
 * then names_error() says why in words (names_client.h). Names are relative to the export.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct flavors;
struct names;
struct nfs_handle;
struct path;

struct names_ops {
	/*
	 * Makes a client for names of `path`. Where it fails, the reason is logged, and *names may
	 * be set all the same: not alive, but to be closed.
	 */
	int (*open)(struct names **names, struct path *path);

	/*
	 * Asks which security flavors the export takes, without entering it: the path's own need
	 * not be one of them. `flavors` begins with zeros; *names is as open() leaves it.
	 */
	int (*flavors)(struct names **names, struct path *path, struct flavors *flavors);

	/* The export's root, and the bytes of one READ and one WRITE of its files. */
	int (*root)(struct names *names, struct nfs_handle *root, uint32_t *read_max,
		    uint32_t *write_max);

	/* The size of a regular file; -EISDIR or -EINVAL for anything else. */
	int (*size)(struct names *names, const char *name, uint64_t *size);

	/*
	 * Creates an empty file and the directories above it; what exists, a symbolic link too, is
	 * left as it is, and then *created is false.
	 */
	int (*create)(struct names *names, const char *name, bool *created);
	int (*remove)(struct names *names, const char *name);
};
