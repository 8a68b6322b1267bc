/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * entries.h - the entries that a metadata job works on: their names, the tree of directories that
 * holds them, and the handles of entries and directories that one path knows.
 *
 * An entry is a number. Its name and its directory follow from that and the terms, so that a later
 * job finds what an earlier one made. Directories are found, or made, when the tree is opened; the
 * handle of an entry is known once it was looked up or created. No sockets; only step() may
 * block.
 *
 * Numbers from terms.count on belong to further entries, beside the job's in the same directories.
 * Their names are unique to this run, and their handles are not kept.
 */
#pragma once

#include "nfs/meta.h"

enum {
	ENTRIES_DEPTH_MAX = 8,
	DIRECTORY_NAME_MAX = 18, /* bytes of a name below the top, with the slash */
	ENTRY_PATH_MAX = ENTRIES_DEPTH_MAX * DIRECTORY_NAME_MAX + ENTRY_NAME_MAX,
};

struct entries_terms {
	uint64_t count;		/* the job's entries have numbers below this */
	uint32_t per_directory; /* entries, or subdirectories, at most (top: no limit) */
	uint32_t depth; /* levels of directories below the top; 0: the top has all entries */
	bool shared;	/* other jobs have entries in these directories: names differ by `job` */
	uint32_t job;	/* of this job, where `shared` */
	bool make;	/* directories that are missing are made */
	uint64_t run;	/* 48 bits that no other run has: in names of entries beside the job's */
};

struct entries {
	struct entries_terms terms;
	char *top;			/* the name of the directory above all */
	struct nfs_handle *directories; /* the handles of those with entries */
	uint8_t *handles;		/* of entries: one byte of length, then the handle */
	uint32_t handle_max;

	/* Where the look-up of a directory starts again, after the server forgot its handle: */
	struct nfs_handle root; /* of length 0: the root of NFSv4's pseudo file system */
	char *way;		/* path from `root` to the top directory; NULL: not set */
};

/*
 * Finds directory `name`; with `make`, makes it where it is missing. The directory above it exists,
 * except that the top's may be missing, too. 0 or a negative errno.
 */
typedef int entries_step(void *context, const char *name, bool make, struct nfs_handle *found);

/*
 * Opens the tree below directory `top`, by one step for each directory. Handles have up to
 * `handle_max` bytes. 0 or a negative errno: step()'s, -ENOMEM, or -ENAMETOOLONG.
 */
int entries_open(struct entries **entries, const struct entries_terms *terms, uint32_t handle_max,
		 const char *top, entries_step *step, void *context);
void entries_close(struct entries *entries);

/* The number of a further entry in the directory of the job's `entry`: one for each `turn`. */
uint64_t entries_beside(const struct entries_terms *terms, uint64_t entry, uint64_t turn);

/* The number of directories that hold the job's entries. */
uint64_t entries_directories(const struct entries_terms *terms);

/* The directory that holds an entry. */
const struct nfs_handle *entries_directory(const struct entries *entries, uint64_t entry);

/* Stores the new handle of the directory that holds `entry`. */
void entries_note_directory(struct entries *entries, uint64_t entry,
			    const struct nfs_handle *handle);

/* Component `number` (from 0) of the way from the root to the directory that holds `entry`. False:
 * the way has fewer components. */
bool entries_way(const struct entries *entries, uint64_t entry, uint32_t number,
		 char name[COMPONENT_MAX]);

/* An entry's name in its directory; `other`: the one that a rename gives it. Returns the length. */
uint32_t entries_name(const struct entries *entries, uint64_t entry, bool other,
		      char name[ENTRY_NAME_MAX]);

/*
 * Finds the entry with this name, in whatever directory; *other as in entries_name(). False: none
 * of these entries has the name.
 */
bool entries_number(const struct entries *entries, const char *name, uint32_t length,
		    uint64_t *entry, bool *other);

/* An entry's path below the top: its directories, then its name. */
void entries_path(const struct entries *entries, uint64_t entry, bool other,
		  char path[ENTRY_PATH_MAX]);

/* Copies an entry's handle. False: the handle is not known. */
bool entries_handle(const struct entries *entries, uint64_t entry, struct nfs_handle *handle);
/* Stores an entry's handle; NULL, or of length 0: the handle is no longer valid. */
void entries_note(struct entries *entries, uint64_t entry, const struct nfs_handle *handle);
