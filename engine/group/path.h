/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * path.h - a path of one job: its address, its terms, its name space, and for each file the state
 * that the path's connections share (the handle, the ledger of writes that are not durable yet).
 *
 * Functions that call the server wait for its reply, as names.h says, or as system calls do. They
 * return 0 or a negative errno, logged in one line unless their comment says otherwise.
 */
#pragma once

#include "group/ledger.h"
#include "nfs/path.h"
#include "pool/pool.h"

struct conn_io;
struct entries;
struct flavors;

struct path_file {
	char *name; /* NULL: not open */
	bool removed;
	void *state;		 /* the protocol's; NULL on a mount */
	struct entries *entries; /* metadata=1: of a directory; the ledger is unused */
	struct ledger ledger;
	struct conn_io *commit; /* the latest COMMIT that is not finished */
};

/*
 * Refuses options of TLS or Kerberos without effect, since nobody would notice that the security is
 * missing: a job's where no path uses TLS or Kerberos, and a path's where that path does not.
 * Refuses options that need TCP without TLS if a path lacks it. 0, or a negative errno, logged.
 */
int path_config_check(const struct terms *job, const struct pool *pool, pool_log *log);

/*
 * Fills in `config` for a resolved path, from the path's own terms, else from the job's. 0, or a
 * negative errno with the reason logged and nothing to free.
 */
int path_config_make(struct path_config *config, const struct pool_path *path,
		     const struct terms *job, pool_log *log);
void path_config_free(struct path_config *config);

/* Takes over config's strings and array, even if it fails. */
int path_open(struct path **path, struct path_config *config, const struct path_job *job);
void path_close(struct path *path);

/*
 * Asks the server which security flavors the export takes: in NFSv3 by MOUNT with AUTH_SYS, in
 * NFSv4 with config->terms.security, which need not be one of them. `flavors` must be all zeros.
 * Takes over config's strings and array. Not for a mount.
 */
int path_flavors(struct path_config *config, const struct path_job *job, struct flavors *flavors);

/* True where all paths are kernel mounts. */
bool path_all_mounts(struct path *const *paths, uint32_t count);

/* Sets *size to a file's size. -ENOENT is not logged. */
int path_size(struct path *path, const char *name, uint64_t *size);
/* Removes a file; 0 also where there is none. */
int path_remove(struct path *path, const char *name);
/* Notes that a file was removed over another path: its writes need not become durable. */
void path_mark_removed(struct path *path, const char *name);
/* Creates a file. *created is false where the name existed already. */
int path_create(struct path *path, const char *name, bool *created);
/* Drops a file from a mount's cache; NFS paths have none. 0 also where there is no such file. */
int path_drop_cache(struct path *path, const char *name);

/* Opens a file; `writes`: for writing, too. The first call sets read_max and write_max. */
int path_open_file(struct path *path, uint32_t file, const char *name, bool writes);
void path_close_file(struct path *path, uint32_t file);
/* True where two open files have one handle: hard links, or different names for one file. */
bool path_same_file(const struct path *path, uint32_t a, uint32_t b);

/* Clears the error state that a former group's connections, now closed, have left. */
void path_forget_troubles(struct path *path);

/* Closes the connection for names until it is needed again; NFSv4 keeps the connection, except
 * with nclients=. */
void path_rest(struct path *path);

/*
 * --- files below a kernel mount or another directory ---
 *
 * No name leads out of it, neither by ".." nor by a symbolic link. Errors are not logged.
 */

/* Opens a file with open(2)'s flags: a descriptor, or a negative errno. */
int directory_open_file(int directory, const char *name, int flags);

/*
 * An O_PATH descriptor of the directory `name`; -ELOOP or -ENOTDIR where `name` is a symbolic link.
 * Without `across`: -EXDEV where `name` leads into another mount, even of the same file system.
 */
int directory_enter(int directory, const char *name, bool across);
