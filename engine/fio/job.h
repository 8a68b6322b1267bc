/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job.h - one running job: its connections, and its I/Os on their way.
 *
 * fio's io_u becomes a request; a request is cut into pieces (struct conn_io), by stripe and by
 * what one call may carry, and is complete when all its pieces are. All of it is allocated in
 * job_open().
 */
#ifndef NFSMULTI_JOB_H
#define NFSMULTI_JOB_H

#include "pool_paths.h"

#include "conn/group.h"
#include "pool/spread.h"

struct request {
	struct io_u *io_u;    /* NULL: the engine's own, a sync before a file is closed */
	struct request *next; /* in job->starved or job->syncs */
	uint32_t file;
	enum io_op op;
	bool data_only; /* fdatasync */

	uint64_t offset; /* of what is not cut into pieces yet … */
	uint32_t left;	 /* … so many bytes */
	bool begun;	 /* a piece has been cut: the spread's choice is made */
	struct spread_piece piece;

	uint32_t pieces;    /* outstanding */
	int error;	    /* the first, positive */
	uint64_t end;	    /* where the data ends: after it, a READ found the end of file */
	const char *label;  /* the path that failed, and … */
	const char *status; /* … the server's word for it */

	uint64_t born;	/* the order of writes and syncs */
	uint32_t waits; /* a sync: writes that must finish before it */
};

struct job_file {
	uint32_t writes; /* requests under way */
};

/* job_hold.h: how far the hold's data has come on its way to being durable. */
struct mending {
	enum { MENDING_NOTHING, MENDING_DRAIN, MENDING_WRITE, MENDING_COMMIT } stage;
	bool full;	    /* a write has found no room */
	uint32_t rounds;    /* times that everything has been written again */
	uint64_t next;	    /* the extent, or the path and file, whose turn it is */
	uint32_t under_way; /* calls of its own: the WRITEs among them … */
	struct conn_io *writes[16];
	uint32_t write_count; /* … are so many */
	int error;	      /* the first of theirs, positive */
	const char *label;    /* the path that it came from */
	int broken;	      /* given up, for that reason: there are no more writes */
};

struct job {
	struct thread_data *td;
	struct pool_paths paths;
	struct path **used; /* those of the pool that this job uses, in the order of the spread */
	struct group group;
	struct spread reads, writes;
	struct spread_load *load;
	enum io_stable stable;
	uint32_t io_max[2]; /* bytes of one piece, by DDIR_READ and DDIR_WRITE */
	bool trace;

	struct hold hold; /* of zeros where the job has none: group.job.hold is NULL then */
	struct mending mending;

	struct conn_io *ios;
	struct io_list idle;			/* ios that no request has */
	struct request *requests;		/* by io_u->index, and one of the engine's own */
	struct request *starved, **starved_end; /* wait for an idle io */
	struct request *syncs;			/* wait for earlier writes */
	struct job_file *files;
	uint64_t births;

	/*
	 * What files have for a descriptor: with fsync_on_close fio calls fsync(2) on that by
	 * itself when it closes a file under way. The file's COMMITs follow in job_close_file().
	 */
	int placeholder;

	struct io_u **fresh; /* queued since the last flush: fresh_count of iodepth */
	uint32_t fresh_count;
	uint32_t fresh_max; /* so many are not kept back until fio asks for completions */
	struct io_u **done; /* a ring of iodepth entries, complete and not yet taken by fio */
	uint32_t done_first, done_count, done_size;

	uint32_t transfers; /* READ and WRITE requests under way */
	uint32_t commits;   /* COMMITs under way, on any path */
	bool gave_up; /* the run is to end and the server is silent: nothing is waited for any more
		       */
};

/* The job, or NULL before job_open() and after job_close(). */
struct job *job_of(const struct thread_data *td);

/* The same for this thread: fio before 3.37 has hooks that are not told whose I/O it is. */
struct job *job_of_thread(void);

/* 0 or a negative errno, logged. td->io_ops_data is the job on success alone. */
int job_open(struct thread_data *td);
/* Makes durable what is still open, writes the statistics and closes everything. NULL is allowed.
 */
void job_close(struct job *job);

/* Memory that fio's I/O buffers lie in, known once they are allocated. */
void job_buffers(struct job *job, void *memory, size_t size);

/* 0 or a negative errno, logged. */
int job_open_file(struct job *job, struct fio_file *f);
/* Makes durable what was written and not committed. 0, or a negative errno where that failed,
 * logged. */
int job_close_file(struct job *job, struct fio_file *f);
/* The name of an open file, or NULL: it is not open. */
const char *job_file_name(const struct job *job, uint32_t file);
/* An absent file is no error. */
int job_unlink(struct job *job, struct fio_file *f);
/* Drops what mounts have cached of a file. */
int job_invalidate(struct job *job, struct fio_file *f);

#endif
