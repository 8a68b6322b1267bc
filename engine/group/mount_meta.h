/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mount_meta.h - metadata operations on a kernel mount: each is an operation of io_uring, or two
 * where a file is opened and closed. Entries are named by their path below the job's directory: a
 * mount has no handles.
 */
#pragma once

#include <liburing.h>

#include "group/connection.h"
#include "nfs/entries.h"
#include "nfs/meta.h"

/* What an operation takes of io_uring. */
struct mount_need {
	const char *operation; /* "MKDIRAT", or NULL: there is none for it */
	const char *since;     /* the first Linux with it: "5.15" */
};

/* True where this kernel can do `op`, as far as it tells: one without io_uring has other words. */
bool mount_meta_can(enum meta_op op, struct mount_need *need);

/*
 * Opens the tree of entries below directory `top` of a mount, which entries_close() closes. It
 * blocks as system calls do. 0 or a negative errno.
 */
int mount_meta_open(int mount, const char *top, const struct entries_terms *terms,
		    struct entries **entries);

/* What an I/O has while it is under way. */
struct mount_call {
	struct mount_call *next; /* of those that no I/O has */
	int fd;			 /* was opened, and is to be closed; or -1 */
	char name[ENTRY_PATH_MAX], other[ENTRY_PATH_MAX];
};

struct mount_calls {
	struct mount_call *all, *idle;
};

/* For so many I/Os at once: 0 or -ENOMEM. */
int mount_calls_init(struct mount_calls *calls, uint32_t count);
void mount_calls_free(struct mount_calls *calls);

/* An I/O begins, and has ended or was given up. */
void mount_meta_begin(struct mount_calls *calls, struct conn_io *io);
void mount_meta_end(struct mount_calls *calls, struct conn_io *io);

/* The kernel never got what `io` was to ask next: a descriptor is closed here. */
void mount_meta_unasked(struct conn_io *io);

/* What `io` asks of the kernel next, below its job's `directory`. */
void mount_meta_prepare(struct io_uring_sqe *sqe, struct conn_io *io, int directory);

/* True where the result of what it has asked last may be a descriptor. */
bool mount_meta_opens(const struct conn_io *io);

/*
 * The kernel's result. True: the operation is over, with io->error; false: it asks once more.
 * `last`: nothing may be asked any more, and what it has opened is closed here.
 */
bool mount_meta_answered(struct conn_io *io, int result, bool last);
