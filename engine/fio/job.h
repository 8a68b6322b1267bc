/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job.h - one running job: its connections, and its I/Os on their way.
 *
 * fio's io_u becomes a request; a request is cut into pieces (struct conn_io), by stripe and by
 * what one call may carry, and is complete when all its pieces are. All of it is allocated in
 * job_open(). The files of a job form layers, each calls only those before it: job, failure,
 * open_loop, pieces, syncs, replay, job_io, job_files, job_open.
 */
#pragma once

#include "meta_job.h"
#include "pool_paths.h"

#include "group/group.h"
#include "pool/spread.h"

enum {
	IO_OPS = IO_META + 1,
	TOLD_MAX = 16, /* reasons why I/O failed, that are told */
};

struct request {
	struct io_u *io_u;	   /* NULL: the engine's own */
	TAILQ_ENTRY(request) link; /* in a struct request_list */
	enum io_op op;
	uint32_t file;	     /* IO_COMMIT: the first of file_count */
	uint32_t file_count; /* IO_COMMIT: files, from `file` on */
	bool data_only;	     /* fdatasync */
	bool held_only;	     /* IO_COMMIT: leaves out what the hold has nothing of */

	uint64_t offset; /* of what is not submitted yet */
	uint32_t
		left; /* bytes not submitted yet; IO_COMMIT: ledgers to look at; IO_META: 1, or 0 */
	bool begun;   /* a piece has been cut: the spread's choice is made */
	struct spread_piece piece;
	struct meta_request meta; /* IO_META */

	uint32_t pieces;	/* outstanding */
	int error;		/* the first, positive */
	uint64_t end;		/* where the data ends: after it, a READ found the end of file */
	const char *label;	/* the path that failed */
	const char *status;	/* the server's word for the error */
	bool told;		/* a line has said why already */
	struct meta_kind found; /* IO_META: as struct meta_io has it */

	uint64_t issued; /* clock_now() when it was sent, or began to wait for its connection */

	uint64_t sequence; /* writes and syncs, in fio's order */
	uint32_t waits;	   /* a sync: writes that must finish before it */
};

TAILQ_HEAD(request_list, request);

/* Something of it is still to be submitted, or outstanding. */
static inline bool request_busy(const struct request *request)
{
	return request->left || request->pieces;
}

/* syncs.h's: how far the held data has come on its way to being durable. */
struct replay {
	enum { REPLAY_NONE, REPLAY_DRAIN, REPLAY_WRITE, REPLAY_COMMIT } stage;
	struct request request; /* its WRITEs, its COMMITs, or those that make room */
	uint64_t oldest, next;	/* extents: between them are the WRITEs under way */
	uint32_t rounds;	/* times that everything has been written again */
	uint32_t unexplained;	/* the latest of them: data was lost, and no connection */
	uint64_t reconnects;	/* of all connections, when the round began */
	const char *label;	/* the path that messages name */
	int broken;		/* why it was given up: no more is written; 0: it was not */
};

struct job {
	struct thread_data *td;
	struct pool_paths paths;
	struct path **used; /* those of the pool that this job uses, in the order of the spread */
	struct group group;
	struct spread spread[2];  /* by IO_READ and IO_WRITE */
	uint32_t io_max[2];	  /* bytes of one piece, likewise */
	struct spread_load *load; /* NULL: no spread asks for it */
	enum io_stable stable;
	bool trace;

	struct hold hold; /* of zeros where the job has none: group.job.hold is NULL then */
	struct replay replay;

	struct conn_io *ios;
	struct meta_io *metas;	      /* one for each of ios; NULL: the job moves data */
	struct commit_io *commit_ios; /* one for each of ios, where it moves data; else NULL */
	struct io_list idle;	      /* ios that no request has */
	struct io_list shared;	      /* COMMITs that were answered by another's reply */
	struct request *requests;     /* by io_u->index, and one of the engine's own */
	struct request_list pending[IO_OPS]; /* what is left of them waits to be submitted */
	struct request_list syncs;	     /* wait for earlier writes */
	uint32_t *writes;		     /* syncs.h's: under way, by file */
	uint64_t sequence;		     /* of the last write or sync */

	/*
	 * What files have for a descriptor: with fsync_on_close fio calls fsync(2) on that by
	 * itself when it closes a file under way. The file's COMMITs follow in job_close_file().
	 */
	int placeholder;
	uint32_t discard_min; /* discard: bytes of a READ whose data is dropped; UINT32_MAX: none */

	struct open_loop *open;	   /* open_loop.h's; NULL: I/O is sent when fio asks for it */
	struct meta_job *meta;	   /* NULL: the job moves data */
	struct response *response; /* job_stats.h's: the job's, at its end; or NULL */
	uint64_t live_at;	   /* job_stats.h's: when live_file was written */
	bool live_failed;	   /* that was not possible, and is not tried again */

	struct io_u **fresh; /* queued since the last flush: fresh_count of iodepth */
	uint32_t fresh_count;
	uint32_t fresh_max; /* this many are sent before fio asks for completions */
	bool fio_sleeps;    /* with I/O queued, which is then sent at once */
	struct io_u **done; /* a ring of iodepth entries, complete and not yet taken by fio */
	uint32_t done_first, done_count, done_size;

	bool said_beyond_end; /* that a READ was beyond the end of file */
	bool said_failed;     /* metadata=1: the first entry that failed was told */
	struct {
		const char *label;
		int error;
	} told[TOLD_MAX]; /* job_log.h's */
	uint32_t told_count;
	uint32_t commits; /* COMMITs under way, on any path */
	bool gave_up;	  /* the run is to end and the server is silent: nothing is waited for */
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

/* Whether it verifies what another job has written, and writes nothing: fio's dry run is no I/O. */
static inline bool job_verifies(const struct thread_data *td)
{
	return td->o.verify && (td->o.verify_only || !td_write(td));
}

/* The name of an open file, or NULL: it is not open. */
const char *job_file_name(const struct job *job, uint32_t file);

/* True where two of its open files are one at the server, or are one. */
bool job_same_file(const struct job *job, uint32_t a, uint32_t b);
