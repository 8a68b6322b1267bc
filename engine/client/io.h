/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * io.h - an outstanding READ, WRITE, COMMIT or metadata operation.
 *
 * The connection owns an I/O from its submission until it reports the I/O as finished. Until then
 * the buffer must stay valid, and a WRITE's buffer unchanged.
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

/* IO_META is one metadata operation on one directory entry (nfs/meta.h). */
enum io_op { IO_READ, IO_WRITE, IO_COMMIT, IO_META };

TAILQ_HEAD(io_list, conn_io);

struct conn_io {
	/* Set by the owner before it submits the I/O. */
	enum io_op op;
	enum io_stable stable; /* IO_WRITE */
	uint32_t file;	       /* the number given to open_file() */
	uint32_t length;
	uint64_t offset; /* IO_META: the entry's number, with length 0 */
	uint8_t *buffer;
	void *owner;
	struct meta_io *meta;	  /* IO_META: the operation (nfs/meta_io.h) */
	struct commit_io *commit; /* IO_COMMIT: the WRITEs it covers (group/connection.h) */
	struct hold_extent *held; /* IO_WRITE: the copy that hold_writes keeps, or NULL */
	uint32_t load_conn;	  /* the connection whose load includes this I/O's bytes */
	bool nfs_only;		  /* a mount cannot use its buffer */
	bool unwanted;		  /* IO_READ: the data is not used, and may be discarded */

	/* The result, valid once the I/O is finished. */
	uint32_t done; /* bytes moved: less than length after an error, or at the end of file */
	int error;     /* 0 or a positive errno */
	const char *status; /* the server's status for `error`, such as "NFS3ERR_STALE", or NULL */

	/* Used by the connection while it owns the I/O. */
	struct conn *conn;
	void *state;		   /* the protocol's state of the file */
	TAILQ_ENTRY(conn_io) link; /* the owner uses it too, while it owns the I/O */
	uint64_t sent;		   /* when it was first sent, by the client's clock; 0: not yet */
	uint64_t last_sent;	   /* mount.c: when it was put into the ring */
};

/* Removes and returns the first I/O; NULL: the list is empty. */
static inline struct conn_io *io_list_take(struct io_list *list)
{
	struct conn_io *io = TAILQ_FIRST(list);

	if (io)
		TAILQ_REMOVE(list, io, link);
	return io;
}
