/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * version.h - a version of NFS as a const table: how a client speaks it (client/protocol.h), and
 * what is its own in how it finds names and files. What waits does so as names.h says.
 */
#pragma once

#include "client/protocol.h"

struct flavors;
struct meta_limits;
struct names;
struct nfs_handle;
struct path;

struct nfs_version {
	const struct protocol *protocol;
	uint32_t handle_max; /* bytes */

	/*
	 * Makes a client for names, and finds the export. Where it fails, the reason is logged, and
	 * *names may be set all the same: not `found`, but to be closed.
	 */
	int (*open_names)(struct names **names, struct path *path);
	/* The server has forgotten the export's handle: names->export is to be another one. */
	int (*find_export)(struct names *names);
	/*
	 * Asks which security flavors the export takes, without entering it: the path's own need
	 * not be one of them. `flavors` begins with zeros; *names is as open_names() leaves it.
	 */
	int (*flavors)(struct names **names, struct path *path, struct flavors *flavors);

	/* Creates an empty file; -EEXIST where there is something that no earlier copy made. */
	int (*create)(struct names *names, const struct nfs_handle *directory, const char *name);
	/* From what the server offers to what messages carry. NULL: the same. */
	void (*fit_limits)(const struct names *names, struct meta_limits *limits);

	/* Finds a file; no two that are open have one number. close_file(): `names` may be NULL,
	 * the server is then told nothing. */
	int (*open_file)(struct names *names, uint32_t number, const char *name, bool writes,
			 void **file);
	void (*close_file)(struct names *names, void *file);
	const struct nfs_handle *(*handle)(const void *file);

	/* Tells the server of the end, and frees path->state. NULL: the version keeps nothing. */
	void (*teardown)(struct path *path);
};

/* nfs3.c's and nfs4_protocol.c's. */
extern const struct protocol nfs3_protocol;
extern const struct protocol nfs4_protocol;

/* names3.c's and names4.c's. */
extern const struct nfs_version nfs_version_3;
extern const struct nfs_version nfs_version_4; /* NFSv4.1 and 4.2, as path_config says */
