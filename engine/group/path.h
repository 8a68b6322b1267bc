/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * path.h - a path as one job uses it: where it leads and on what terms, its name space, and per
 * file what the path's connections share (the handle, the ledger of writes that are not durable
 * yet).
 *
 * The functions that ask the server wait for it, as names.h and directory.h say; they return 0 or a
 * negative errno, with one line logged unless they say otherwise.
 */
#pragma once

#include "group/ledger.h"
#include "nfs/path.h"

struct conn_io;
struct entries;
struct flavors;

struct path_file {
	char *name; /* NULL: not open */
	bool removed;
	void *state;		 /* the protocol's; a mount has none */
	struct entries *entries; /* of a directory: it has no state then, and owes nothing */
	struct ledger ledger;
	struct conn_io *commit; /* the latest submitted, of those that are not finished */
};

/* Takes over config's strings and array, also where it fails. */
int path_open(struct path **path, struct path_config *config, const struct path_job *job);
void path_close(struct path *path);
void path_config_free(struct path_config *config);

/*
 * Asks which security flavors the export takes, by config->sec, which need not be one of them;
 * `flavors` begins with zeros. Takes over config's strings and array. Not of a kernel mount.
 */
int path_flavors(struct path_config *config, const struct path_job *job, struct flavors *flavors);

/* True where each of them is a kernel mount. */
bool path_all_mounts(struct path *const *paths, uint32_t count);

/* -ENOENT is not logged. */
int path_size(struct path *path, const char *name, uint64_t *size);
/* -ENOENT is not logged. */
int path_remove(struct path *path, const char *name);
/* The same file was removed over another path: nothing is owed to it any more. */
void path_mark_removed(struct path *path, const char *name);
/* *created: false where something of that name was there already. */
int path_create(struct path *path, const char *name, bool *created);
/* Asks a mount to forget what it has cached of a file; nothing to do over NFS. -ENOENT counts as
 * done. */
int path_drop_cache(struct path *path, const char *name);

/* Finds a file, for writes too where so said; the first one also tells the path's limits. */
int path_open_file(struct path *path, uint32_t file, const char *name, bool writes);
void path_close_file(struct path *path, uint32_t file);
/* True where their handles tell that two open files are one at the server: by hard links, or by
 * names that mean the same. */
bool path_same_file(const struct path *path, uint32_t a, uint32_t b);

/* Nothing is known of its connections: those that a group had are closed. */
void path_forget_troubles(struct path *path);

/* Lets the connection for names go until it is needed again, where the protocol can. */
void path_rest(struct path *path);
