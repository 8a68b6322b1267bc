/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * io.h - a READ, a WRITE, a COMMIT, or a metadata operation on its way.
 *
 * An I/O belongs to its owner, except from its submission until the connection reports it finished.
 * In between its buffer must stay valid, and unchanged for a write.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "terms/choices.h"

struct commit_io;
struct conn;
struct hold_extent;
struct meta_io;

/* IO_META is one operation on one entry (nfs/meta.h); it moves no data. */
enum io_op { IO_READ, IO_WRITE, IO_COMMIT, IO_META };

TAILQ_HEAD(io_list, conn_io);

struct conn_io {
	/* The owner's, set before the I/O is submitted. */
	enum io_op op;
	enum io_stable stable; /* IO_WRITE */
	uint32_t file;	       /* the number given to open_file() */
	uint32_t length;
	uint64_t offset; /* IO_META: the entry's number; its length is 0 */
	uint8_t *buffer;
	void *owner;
	struct meta_io *meta;	  /* IO_META: what it does (nfs/meta_io.h) */
	struct commit_io *commit; /* IO_COMMIT: what it makes durable (group/connection.h) */
	struct hold_extent *held; /* IO_WRITE: the copy in the job's hold, or NULL: none is kept */
	uint32_t load_conn;	  /* the connection that its bytes in flight are counted for */
	bool nfs_only;		  /* a mount cannot use its buffer */
	bool unwanted;		  /* IO_READ: the data is not used, and may be discarded */

	/* The result, once it is finished. */
	uint32_t done; /* bytes moved: less than length after an error, or at the end of file */
	int error;     /* 0 or a positive errno */
	const char *status; /* the server's word for `error`, such as "NFS3ERR_STALE", or NULL */

	/* The connection's, while it has the I/O. */
	struct conn *conn;
	void *state;		   /* the protocol's state of the file */
	TAILQ_ENTRY(conn_io) link; /* also the owner's, while it has the I/O */
	uint64_t sent;		   /* when it first went out, by the client's clock; 0: not yet */
	uint64_t last_sent;	   /* mount.c's: when the kernel got it */
};

/* Removes and returns the first I/O; NULL: the list is empty. */
static inline struct conn_io *io_list_take(struct io_list *list)
{
	struct conn_io *io = TAILQ_FIRST(list);

	if (io)
		TAILQ_REMOVE(list, io, link);
	return io;
}
