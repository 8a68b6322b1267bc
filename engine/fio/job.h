/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job.h - one running job: its connections, and its I/Os under way.
 *
 * Each of fio's io_us becomes a request. A request is cut at stripe boundaries into pieces (struct
 * conn_io) of at most one call's bytes, and is complete when all its pieces are. job_open()
 * allocates both. The source files form layers; each calls only those named before it:
 * job_log, open_loop, pieces, syncs, job_io, job_files, job_stats, job_open.
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
	bool held_only;	     /* IO_COMMIT: only ledgers that count held data */

	uint64_t offset; /* of the bytes that are not submitted yet */
	uint32_t left; /* bytes not submitted; IO_COMMIT: ledgers not looked at; IO_META: 1 or 0 */
	bool begun;    /* the first piece is cut: the spread has chosen a connection */
	struct spread_piece piece;
	struct meta_request meta; /* IO_META */

	uint32_t pieces;	/* outstanding */
	int error;		/* the first error, a positive errno */
	uint64_t end;		/* the offset behind the data: lower after a short READ */
	const char *label;	/* the path that failed */
	const char *status;	/* the server's name of the error, or NULL */
	bool told;		/* the reason is logged already */
	struct meta_kind found; /* IO_META, EILSEQ: the entry's real type and size */

	uint64_t issued; /* clock_now() when it was sent, or began to wait for a connection */

	uint64_t sequence; /* the place among writes and syncs, in fio's order */
	uint32_t waits;	   /* of a sync: earlier writes that have not finished */
};

TAILQ_HEAD(request_list, request);

/* True where a part of the request is still to be submitted, or outstanding. */
static inline bool request_busy(const struct request *request)
{
	return request->left || request->pieces;
}

/* The state of a replay of held data (syncs.h). */
struct replay {
	enum { REPLAY_NONE, REPLAY_DRAIN, REPLAY_WRITE, REPLAY_COMMIT } stage;
	struct request request; /* the replay's WRITEs or COMMITs, or COMMITs that make room */
	uint64_t oldest, next;	/* the WRITEs under way are of extents oldest to next-1 */
	uint32_t rounds;	/* times that all held data was written again */
	uint32_t unexplained;	/* rounds in a row that lost data while no connection broke */
	uint64_t reconnects;	/* of all connections, when the round began */
	const char *label;	/* the path that messages name */
	int broken;		/* the errno for which the job gave up writing; 0: none */
};

struct job {
	struct thread_data *td;
	struct pool_paths paths;
	struct path **used; /* the pool's paths that the job uses: group.path_count of them */
	struct group group;
	struct spread spread[2];  /* by IO_READ and IO_WRITE */
	uint32_t io_max[2];	  /* bytes of one piece, by IO_READ and IO_WRITE */
	struct spread_load *load; /* NULL: no spread policy needs it */
	enum io_stable stable;
	bool trace;
	bool one_spread; /* nclients: reads and writes take turns together, in spread[IO_READ] */

	struct hold hold; /* without hold_writes: all zeros, and group.job.hold is NULL */
	struct replay replay;

	struct conn_io *ios;
	struct meta_io *metas;		     /* one for each of ios; NULL without metadata=1 */
	struct commit_io *commit_ios;	     /* one for each of ios; NULL with metadata=1 */
	struct io_list idle;		     /* ios that no request uses */
	struct io_list shared;		     /* COMMITs that another COMMIT's reply has answered */
	struct request *requests;	     /* by io_u->index; the last one is the engine's own */
	struct request_list pending[IO_OPS]; /* requests not submitted in full, by op */
	struct request_list syncs;	     /* syncs that wait for earlier writes */
	uint32_t *writes;		     /* syncs.h's: writes under way, by file */
	uint64_t sequence;		     /* the number of the last write or sync */

	/*
	 * The descriptor that fio gets for each file: with fsync_on_close fio itself calls fsync(2)
	 * on it when fio closes a file during the run. job_close_file() then sends the COMMITs.
	 */
	int placeholder;
	uint32_t discard_min; /* READs of at least this many bytes discard data; UINT32_MAX: none */

	struct open_loop *open;	   /* open_loop.h's; NULL: I/O is sent when fio asks for it */
	struct meta_job *meta;	   /* NULL: the job moves data */
	struct response *response; /* job_stats.c's: of the whole job, set at its end; or NULL */
	uint64_t live_at;	   /* job_stats.c's: when live_file was last written */
	bool live_failed;	   /* live_file could not be written: no more tries */

	struct io_u **fresh; /* queued since the last flush: fresh_count of iodepth */
	uint32_t fresh_count;
	uint32_t fresh_max; /* job_commit() sends when this many are fresh */
	bool fio_sleeps;    /* fio may sleep with I/O queued: each I/O is sent at once */
	struct io_u **done; /* a ring of iodepth entries: I/Os complete and not yet taken by fio */
	uint32_t done_first, done_count, done_size;

	bool said_beyond_end; /* logged: a READ beyond the end of file */
	bool said_failed;     /* metadata=1: the first failed entry is logged */
	struct {
		const char *label;
		int error;
	} told[TOLD_MAX]; /* the reasons that failure_say() has logged */
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
