/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job.h - one running job: its connections, and its I/Os on their way.
 *
 * fio's io_u becomes a request; a request is cut into pieces (struct conn_io), by stripe and by
 * what one call may carry, and is complete when all its pieces are. job_open() allocates all
 * memory. The source files form layers; each calls only those before it: job_log, open_loop,
 * pieces, syncs, job_io, job_files, job_open.
 */
#pragma once

#include "meta_job.h"
#include "pool_paths.h"

#include "group/group.h"
#include "pool/spread.h"

enum {
	IO_OPS = IO_META + 1,
	TOLD_MAX = 16, /* reasons of failed I/O that are logged */
};

struct request {
	struct io_u *io_u;	   /* NULL: a request of the engine's own */
	TAILQ_ENTRY(request) link; /* in a struct request_list */
	enum io_op op;
	uint32_t file;	     /* IO_COMMIT: the first of file_count */
	uint32_t file_count; /* IO_COMMIT: files, from `file` on */
	bool data_only;	     /* fdatasync */
	bool held_only;	     /* IO_COMMIT: only files and paths of which data is held */

	uint64_t offset; /* of the bytes that are not submitted yet */
	uint32_t left;	 /* bytes not submitted; IO_COMMIT: ledgers to look at; IO_META: 1 or 0 */
	bool begun;	 /* the first piece is cut: the spread has chosen a connection */
	struct spread_piece piece;
	struct meta_request meta; /* IO_META */

	uint32_t pieces;	/* outstanding */
	int error;		/* the first error, a positive errno */
	uint64_t end;		/* where the data ends: a READ may meet the end of file first */
	const char *label;	/* the path that failed */
	const char *status;	/* the server's word for the error */
	bool told;		/* the reason is logged already */
	struct meta_kind found; /* IO_META: struct meta_io's */

	uint64_t issued; /* clock_now() when it was sent, or began to wait for a connection */

	uint64_t sequence; /* writes and syncs, in fio's order */
	uint32_t waits;	   /* a sync: writes that must finish before it */
};

TAILQ_HEAD(request_list, request);

/* True where a part of the request is still to be submitted, or outstanding. */
static inline bool request_busy(const struct request *request)
{
	return request->left || request->pieces;
}

/* syncs.h's: how far the replay of held data has come. */
struct replay {
	enum { REPLAY_NONE, REPLAY_DRAIN, REPLAY_WRITE, REPLAY_COMMIT } stage;
	struct request request; /* the replay's WRITEs or COMMITs, or COMMITs that make room */
	uint64_t oldest, next;	/* the WRITEs under way are of extents oldest to next-1 */
	uint32_t rounds;	/* times that all held data was written again */
	uint32_t unexplained;	/* rounds in a row that lost data, but no connection */
	uint64_t reconnects;	/* of all connections, when the round began */
	const char *label;	/* the path that messages name */
	int broken;		/* why the job gave up, and writes no more; 0: it has not */
};

struct job {
	struct thread_data *td;
	struct pool_paths paths;
	struct path *
		*used; /* the paths of the pool that this job uses, in the order of the spread */
	struct group group;
	struct spread spread[2];  /* by IO_READ and IO_WRITE */
	uint32_t io_max[2];	  /* bytes of one piece, by IO_READ and IO_WRITE */
	struct spread_load *load; /* NULL: no spread policy needs it */
	enum io_stable stable;
	bool trace;

	struct hold hold; /* without hold_writes: all zeros, and group.job.hold is NULL */
	struct replay replay;

	struct conn_io *ios;
	struct meta_io *metas;	      /* one for each of ios; NULL: the job moves data */
	struct commit_io *commit_ios; /* one for each of ios, where it moves data; else NULL */
	struct io_list idle;	      /* ios that no request has */
	struct io_list shared;	      /* COMMITs that another COMMIT's reply has answered */
	struct request *requests;     /* by io_u->index, and one of the engine's own */
	struct request_list pending[IO_OPS]; /* requests that are not submitted wholly, by op */
	struct request_list syncs;	     /* syncs that wait for earlier writes */
	uint32_t *writes;		     /* syncs.h's: writes under way, by file */
	uint64_t sequence;		     /* the number of the last write or sync */

	/*
	 * The descriptor of all files: with fsync_on_close fio calls fsync(2) on it when fio closes
	 * a file during the run. The file's COMMITs follow in job_close_file().
	 */
	int placeholder;
	uint32_t discard_min; /* READs of so many bytes or more discard data; UINT32_MAX: none */

	struct open_loop *open;	   /* open_loop.h's; NULL: I/O is sent when fio asks for it */
	struct meta_job *meta;	   /* NULL: the job moves data */
	struct response *response; /* job_stats.c's: of the whole job, at its end; or NULL */
	uint64_t live_at;	   /* job_stats.c's: when live_file was last written */
	bool live_failed;	   /* live_file could not be written, and is not tried again */

	struct io_u **fresh; /* queued since the last flush: fresh_count of iodepth */
	uint32_t fresh_count;
	uint32_t fresh_max; /* so many are sent at once; fewer when fio asks for completions */
	bool fio_sleeps;    /* fio may sleep with I/O queued: each I/O is sent at once */
	struct io_u **done; /* a ring of iodepth entries, complete and not yet taken by fio */
	uint32_t done_first, done_count, done_size;

	bool said_beyond_end; /* logged: a READ beyond the end of file */
	bool said_failed;     /* logged: metadata=1: the first entry that failed */
	struct {
		const char *label;
		int error;
	} told[TOLD_MAX]; /* job_log.h's */
	uint32_t told_count;
	uint32_t commits; /* COMMITs under way, on any path */
	bool gave_up;	  /* the run is to end and the server is silent: the job waits no more */
};

/* The job, or NULL before job_open() and after job_close(). */
static inline struct job *job_of(const struct thread_data *td)
{
	return td->io_ops_data;
}

static inline const struct terms *job_options(const struct job *job)
{
	return options_of(job->td);
}

/* True where the job verifies what another job wrote, and writes nothing: verify_only's writes are
 * a dry run. */
static inline bool job_verifies(const struct thread_data *td)
{
	return td->o.verify && (td->o.verify_only || !td_write(td));
}
