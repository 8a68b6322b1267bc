/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pass.h - before a job begins, goes once through pieces of work on one file, such as blocks to be
 * written or entries to be looked up: over all its paths at once, by one connection on each.
 *
 * Pieces have ascending numbers, which the owner gives: offsets in bytes, or entries. An idle I/O
 * belongs to the pass, during a callback to the callback, and after pass_submit() to a connection
 * (connection.h). Buffers belong to the owner. No callback may block.
 */
#pragma once

#include "group/group.h"
#include "fio.h"

struct pass {
	/* The owner's, set before pass_open(); all else is of zeros then. */
	struct thread_data *td;
	const char *name; /* of the file; it outlives the pass */
	uint32_t depth;	  /* I/Os under way at once: 1024 at the most, whatever it says */
	bool writes;
	bool tells; /* pieces are entries: job_log() tells each 10 seconds how many are done */
	/* An I/O has its result. True: it was submitted once more, for the same piece. False: the
	 * piece is done, and has failed if io->error is not 0. NULL: as false. */
	bool (*goes_on)(struct pass *pass, struct conn_io *io);

	/* For the owner to read. */
	struct group group;
	struct conn_io *ios;
	struct meta_io *metas;	   /* one for each of ios */
	struct commit_io *commits; /* one for each of ios */
	uint64_t first, end;	   /* the pieces of this pass_run() */
	uint64_t next;		   /* the first piece that was not begun */
	int error;		   /* the first error, a positive errno */
	const char *status;	   /* that error in the server's words, or NULL */
	const char *label;	   /* the path that failed */
	uint64_t failed_at;	   /* the offset of the I/O that failed */

	/* private */
	struct io_list idle;
	uint32_t turn;		/* the connection whose turn it is */
	uint64_t done;		/* pieces */
	uint64_t told, told_at; /* `done`, when it was told last */
};

/*
 * Connects, and opens the file. Waits for the server, until deadline_passed(). 0, or a negative
 * errno with the reason logged and nothing left open. The paths stay the caller's.
 */
int pass_open(struct pass *pass, struct path **paths, uint32_t path_count);
void pass_close(struct pass *pass);

/* Begins piece `number`: sets all of `io` and submits it. Returns the next number, or `end`. */
typedef uint64_t pass_piece(struct pass *pass, struct conn_io *io, uint64_t number);

/*
 * Works through the pieces from `first` to before `end`, and waits until all are done. After an
 * error no further piece begins. A job that is told to end gives up the pieces under way. 0 or a
 * negative errno, for the owner to log; -EINTR: told to end, with no error before.
 */
int pass_run(struct pass *pass, pass_piece *begin, uint64_t first, uint64_t end);

/* Submits an I/O to the connection whose turn it is. */
void pass_submit(struct pass *pass, struct conn_io *io);
