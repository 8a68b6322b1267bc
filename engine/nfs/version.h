/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * version.h - a version of NFS as a const table: how a client speaks it (client/protocol.h), and
 * how it finds names, files and directories.
 *
 * All but handle() wait for the server, as names.h says. They return 0 or a negative errno;
 * names_error() has the reason.
 */
#pragma once

#include "client/protocol.h"

struct names;
struct names_ops;
struct nfs_handle;
struct path;

struct nfs_version {
	const struct protocol *protocol;
	const struct names_ops *names;

	/*
	 * Finds a directory that holds entries, or other directories; with `make` it and those
	 * above are made where they are missing. Handles have up to handle_max bytes.
	 */
	int (*open_directory)(struct names *names, const char *name, bool make,
			      struct nfs_handle *found);
	uint32_t handle_max;

	/*
	 * Finds a file; no two that are open have one number. limits(): what one READ and one WRITE
	 * of any may carry. close_file(): `names` may be NULL, the server is then told nothing.
	 */
	int (*open_file)(struct names *names, uint32_t number, const char *name, bool writes,
			 void **file);
	void (*close_file)(struct names *names, void *file);
	const struct nfs_handle *(*handle)(const void *file);
	int (*limits)(struct names *names, const void *file, uint32_t *read_max,
		      uint32_t *write_max);

	/* Tells the server of the end, and frees path->state. NULL: the version keeps nothing. */
	void (*teardown)(struct path *path);
};

/* nfs3.c's and nfs4_protocol.c's. */
extern const struct protocol nfs3_protocol;
extern const struct protocol nfs4_protocol;

/* names3.c's and names4.c's. */
extern const struct nfs_version nfs_version_3;
extern const struct nfs_version nfs_version_4; /* NFSv4.1 and 4.2, as path_config says */
