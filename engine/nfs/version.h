/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * version.h - an NFS version as a const table: its protocol (client/protocol.h), and how it finds
 * names and opens files. Its functions wait as names.h says.
 */
#pragma once

#include "client/protocol.h"

struct flavors;
struct meta_limits;
struct names;
struct names_item;
struct nfs_handle;
struct path;
struct rpc_client;

struct nfs_version {
	const struct protocol *protocol;
	uint32_t handle_max; /* bytes */

	/*
	 * Makes a client for names, and finds the export. After an error, which it logs, *names may
	 * be set, with `found` false: then the caller must close it, too.
	 */
	int (*open_names)(struct names **names, struct path *path);
	/* Finds names->export again, after the server forgot the handle. */
	int (*find_export)(struct names *names);
	/*
	 * Asks which security flavors the export takes, without entering it, since the path's own
	 * flavor may be refused. `flavors` is all 0 at first; *names is as after open_names().
	 */
	int (*flavors)(struct names **names, struct path *path, struct flavors *flavors);

	/* Creates an empty file, item->name. -EEXIST: the name is taken. If item->resent is set,
	 * the call or an earlier copy of it may have made the file, whatever the error. */
	int (*create)(struct names *names, const struct nfs_handle *directory,
		      struct names_item *item);
	/* Bounds the server's limits by what one message carries. NULL: no bound. */
	void (*fit_limits)(const struct names *names, struct meta_limits *limits);

	/* Opens a file; each open file has its own number. close_file() sends nothing to the server
	 * if `names` is NULL. */
	int (*open_file)(struct names *names, uint32_t number, const char *name, bool writes,
			 void **file);
	void (*close_file)(struct names *names, void *file);
	const struct nfs_handle *(*handle)(const void *file);

	/* Tells the server that the path ends, and frees path->state. NULL: there is no state. */
	void (*teardown)(struct path *path);

	/*
	 * nclients: clients of one connection's own; all NULL where the server keeps no state.
	 * own_file() makes the client's state of a file that the path has open: the file is opened
	 * over the client's connection before its next I/O, and closed after close_own_file().
	 * leave(): the connection is ready again once the server keeps nothing of its client.
	 * rest(): ends the client for names, until the next question.
	 */
	int (*own_file)(struct rpc_client *rpc, uint32_t number, const void *file, void **own);
	void (*close_own_file)(struct rpc_client *rpc, void *own);
	void (*leave)(struct rpc_client *rpc);
	void (*rest)(struct path *path);
};

/* nfs3.c's and nfs4_protocol.c's. */
extern const struct protocol nfs3_protocol;
extern const struct protocol nfs4_protocol;

/* names3.c's and names4.c's. */
extern const struct nfs_version nfs_version_3;
extern const struct nfs_version nfs_version_4; /* NFSv4.1 and 4.2, as path_config says */
