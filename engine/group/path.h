/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * path.h - a path as one job uses it: where it leads, its terms, its name space, and for each file
 * what the path's connections share (the handle, the ledger of writes that are not durable yet).
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
struct pool;
struct pool_path;
struct terms;

typedef void path_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct path_file {
	char *name; /* NULL: not open */
	bool removed;
	void *state;		 /* the protocol's; NULL on a mount */
	struct entries *entries; /* of a directory, which has neither state nor a ledger */
	struct ledger ledger;
	struct conn_io *commit; /* the latest COMMIT that is not finished */
};

/*
 * Refuses options of TLS or Kerberos that no path uses, or that a path is given and does not use:
 * nobody would notice that the security is missing. Also refuses options of TCP in clear for other
 * paths. 0, or a negative errno, logged.
 */
int path_config_check(const struct terms *job, const struct pool *pool, path_log *log);

/*
 * Fills in `config` for a resolved path, from the path's own terms, else from the job's. 0, or a
 * negative errno with the reason logged and nothing to free.
 */
int path_config_make(struct path_config *config, const struct pool_path *path,
		     const struct terms *job, path_log *log);
void path_config_free(struct path_config *config);

/* Takes over config's strings and array, also where it fails. */
int path_open(struct path **path, struct path_config *config, const struct path_job *job);
void path_close(struct path *path);

/*
 * Asks which security flavors the export takes, by the flavor config->terms.security, which need
 * not be one of them. `flavors` begins with zeros. Takes over config's strings and array. Not for a
 * mount.
 */
int path_flavors(struct path_config *config, const struct path_job *job, struct flavors *flavors);

/* True where all paths are kernel mounts. */
bool path_all_mounts(struct path *const *paths, uint32_t count);

/* -ENOENT is not logged. */
int path_size(struct path *path, const char *name, uint64_t *size);
/* 0 also where there is no such file. */
int path_remove(struct path *path, const char *name);
/* The file was removed over another path: its writes need not become durable any more. */
void path_mark_removed(struct path *path, const char *name);
/* *created: false where something of that name was there already. */
int path_create(struct path *path, const char *name, bool *created);
/* A mount's cache drops the file; NFS has no cache. 0 also where there is no such file. */
int path_drop_cache(struct path *path, const char *name);

/* Opens a file; `writes`: also to write to it. The first one also sets the path's limits. */
int path_open_file(struct path *path, uint32_t file, const char *name, bool writes);
void path_close_file(struct path *path, uint32_t file);
/* True where two open files have one handle: by hard links, or by names that mean the same. */
bool path_same_file(const struct path *path, uint32_t a, uint32_t b);

/* Forgets the troubles of a former group's connections, which are closed. */
void path_forget_troubles(struct path *path);

/* Closes the connection for names until it is needed again, where the protocol can. */
void path_rest(struct path *path);
