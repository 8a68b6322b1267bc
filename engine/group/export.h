/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * export.h - what there is on a path: its limits and its room, and directories with what lies in
 * them, whoever has made that. One table for NFS from user space, one for a kernel mount.
 *
 * All functions wait: for a server until its answer, path_job's stop(), or as long as one operation
 * on names may take without any answer. They return 0 or a negative errno; the words for it are in
 * export->error. No symbolic link is followed, and nothing leads out of the path.
 */
#pragma once

#include "group/connection.h"
#include "group/path.h"
#include "nfs/meta.h"

enum { EXPORT_NAME_MAX = 255 /* bytes of one component */ };

struct export_ops;

/* A directory. A mount has a descriptor for it, an export a handle. */
struct export_dir {
	struct nfs_handle handle;
	int fd;
};

/* One name in a directory. */
struct export_item {
	char *name;
	struct nfs_handle handle; /* NFS; of length 0: not looked up */
	struct meta_kind kind;	  /* of type 0: not known */
	struct meta_identity identity;
	int error;	    /* of the latest operation on it: a negative errno */
	const char *status; /* that error in the server's words, or NULL */
};

struct export_items {
	struct export_item *items;
	uint32_t count;
	char *names; /* the memory of theirs */
};

struct export_facts {
	uint32_t read_max, write_max; /* bytes of one call; 0: it has no such limit */
	struct meta_identity identity;
	uint32_t access; /* of enum meta_access; what is not told of it and of `room` is untold */
	struct meta_room room;
};

/* How far the listing of a directory has come; of zeros: at its beginning. It holds nothing. */
struct export_listing {
	struct listing nfs;
	long mount; /* telldir(3) */
	bool end;
};

struct export
{
	const struct export_ops *ops;
	struct path *path;
	struct export_dir root;
	struct conn *conn;   /* NFS: a connection of its own */
	struct conn_job job; /* the connection's: it shares its job with no other */
	struct export_call *calls;
	uint32_t read_max, write_max;
	char error[320];
};

/* `path` stays the caller's. Where it fails there is nothing to close; export->error is set. */
int export_open(struct export *export, struct path *path);
void export_close(struct export *export);

/* Whether its connection comes from a port below 1024; false for a mount. */
bool export_reserved_port(const struct export *export);

struct export_ops {
	int (*open)(struct export *export);
	void (*close)(struct export *export);
	int (*facts)(struct export *export, struct export_facts *facts);

	/* The next names of a directory, without "." and "..": some, or listing->end. The items
	 * are the caller's then, for export_items_free(). */
	int (*list)(struct export *export, const struct export_dir *dir,
		    struct export_listing *listing, struct export_items *items);

	/* Finds what each item is, also where others fail: items[i].error. */
	int (*look)(struct export *export, const struct export_dir *dir, struct export_item *items,
		    uint32_t count);

	/* Removes those of the items that have no error and are, or are no, directories. */
	int (*remove)(struct export *export, const struct export_dir *dir,
		      struct export_item *items, uint32_t count, bool directories);

	/* A new directory; -EEXIST where its name is taken. */
	int (*make)(struct export *export, const struct export_dir *dir, const char *name);

	/* The directory that an item is, which was looked up; to be left. Only `across` mounts,
	 * else -EXDEV, without words; an item's identity tells another file system. */
	int (*enter)(struct export *export, const struct export_dir *dir,
		     const struct export_item *item, bool across, struct export_dir *child);
	/* Lets a descriptor go; export_dir->fd is -1 then. */
	void (*leave)(struct export_dir *dir);
	/* From `child` back to `dir`, which may have been left and is `identity`. */
	int (*back)(struct export *export, const struct export_dir *child,
		    const struct meta_identity *identity, struct export_dir *dir);
};

extern const struct export_ops export_nfs;
extern const struct export_ops export_mount;

void export_items_free(struct export_items *items);

/* Puts `error` into words: what, of which name, and why. Returns error. */
int export_fail(struct export *export, const char *what, const char *name, int error,
		const char *status);
