/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job.h - one running job: its connections, and its I/Os under way.
 *
 * Each of fio's io_us becomes a request. A request is cut at stripe boundaries into pieces (struct
 * conn_io) of at most one call's bytes, and is complete when all its pieces are. job_open()
 * allocates both. The source files form layers; each calls only those named before it:
 * job_log, open_loop, pieces, syncs, job_io, job_stats, job_open. Below the structures
 * are the functions of each, in this order.
 */
#pragma once

#include "meta_job.h"

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
	struct meta_choice meta; /* IO_META */

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

/* The state of a replay of held data (syncs.c). */
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
	uint32_t *writes;		     /* syncs.c's: writes under way, by file */
	uint64_t sequence;		     /* the number of the last write or sync */

	/*
	 * The descriptor that fio gets for each file: with fsync_on_close fio itself calls fsync(2)
	 * on it when fio closes a file during the run. job_close_file() then sends the COMMITs.
	 */
	int placeholder;
	uint32_t discard_min; /* READs of at least this many bytes discard data; UINT32_MAX: none */

	struct open_loop *open; /* open_loop.h's; NULL: I/O is sent when fio asks for it */
	struct meta_job *meta;	/* NULL: the job moves data */
	struct latency latency; /* rx_timestamps=: of all connections, once the job has ended */
	uint64_t live_at;	/* job_stats.c's: when live_file was last written */
	bool live_failed;	/* live_file could not be written: no more tries */

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

/*
 * --- pieces.c: cuts requests into pieces, submits these to the connections, takes the results ---
 *
 * All I/O of a running job passes here: fio's, syncs and replays. Nothing here waits.
 */

/* Makes `request` a COMMIT of `count` files from `file` on, over every path where one is due. */
void pieces_commit(const struct job *job, struct request *request, uint32_t file, uint32_t count);

/* True where the hold has room for the next piece of a request, or the request needs none. */
bool pieces_room(const struct job *job, const struct request *request);

/*
 * Submits the rest of a request, as far as there are idle ios and, for a WRITE, room in the hold.
 * True where all is submitted; if no COMMIT was due, a COMMIT request then has no pieces.
 */
bool pieces_submit(struct job *job, struct request *request);

/* Submits a held extent once more, as a piece of `request`. There must be an idle io. */
void pieces_replay(struct job *job, struct request *request, struct hold_extent *extent);

/* Takes what the connections have finished. Returns the next request that is complete; NULL: none
 * for now. */
struct request *pieces_take(struct job *job);

/* The name of an open file, or NULL: it is not open. */
const char *job_file_name(const struct job *job, uint32_t file);

/* True where two open files of the job are the same file at the server. */
bool job_same_file(const struct job *job, uint32_t a, uint32_t b);

/*
 * --- syncs.c ---
 *
 * A sync waits for the writes that fio queued before it, then sends the COMMITs that are due on
 * each path, and reports data that a server has lost.
 */

/* fio has queued a write. */
void syncs_write_begins(struct job *job, struct request *write);
/* The write is complete: syncs that waited only for it become pending. */
void syncs_write_ends(struct job *job, const struct request *write);

/*
 * Begins a sync of `count` files from `file` on: the sync becomes pending when the writes before it
 * are complete. Writes that are queued later do not delay it, as with fsync(2).
 */
void syncs_begin(struct job *job, struct request *sync, uint32_t file, uint32_t count);

/*
 * Called when the COMMITs of a sync are answered. False where held data is lost: the sync is
 * pending again, and is submitted after the replay. True where the sync is over: its error, if any,
 * has failed the job.
 */
bool syncs_end(struct job *job, struct request *sync);

/*
 * hold_writes: a changed write verifier shows that the server lost data that was not durable. Then
 * the job waits for its WRITEs and COMMITs under way, writes all held data again, commits it, and
 * goes on. During the replay no other WRITE or sync begins, but READs do. If replays keep losing
 * data, the job gives up. Without a loss, COMMITs make room in the hold: they go out when answered
 * WRITEs fill half of it, while new WRITEs use the other half.
 */

/* True where no WRITE or sync may begin. */
static inline bool replay_active(const struct job *job)
{
	return job->hold.lost || job->replay.stage != REPLAY_NONE;
}

/* True where COMMITs that make room, or a replay's own calls, are due or outstanding. */
static inline bool replay_makes_room(const struct job *job)
{
	return request_busy(&job->replay.request);
}

/* Continues the replay, without waiting, for a job with a hold. Sets replay.broken on giving up. */
void replay_advance(struct job *job);

/*
 * --- job_io.c: fio's hooks for I/O: queue, commit, getevents, event ---
 *
 * job_queue() cuts an I/O into pieces; job_commit() or job_getevents() sends them, and
 * job_getevents() takes the replies. Only pieces.c submits this I/O to connections.
 */

/* Queues an I/O; sends nothing of it yet. FIO_Q_BUSY: by the arrival clock the I/O is not due. */
enum fio_q_status job_queue(struct thread_data *td, struct io_u *io_u);

/*
 * Called after iodepth_batch= I/Os: sends those that must not wait for getevents(). If fio may
 * sleep next, blocks until all is sent; a sync is sent only after the writes before it. Returns 0.
 */
int job_commit(struct thread_data *td);

/*
 * Sends what was queued, waits until at least `min` I/Os are complete, and returns how many are.
 * Returns sooner after `timeout`, unless that is NULL, or when an I/O has become due (arrival
 * clock). -EIO where fewer than `min` are left to wait for.
 */
int job_getevents(struct thread_data *td, unsigned int min, unsigned int max,
		  const struct timespec *timeout);

/* Takes the next complete I/O, of those that job_getevents() has counted. */
struct io_u *job_event(struct thread_data *td, int number);

/* Waits for all outstanding I/O: at the end of a replayed log fio leaves I/O in flight. A failed
 * I/O fails the job. Afterwards fio may free its buffers. */
void job_drain(struct job *job);

/* Sends what fio has queued, and waits for I/O under way on one file, before the file is opened,
 * closed or removed: at the end of a replayed log fio does so with I/O in flight. */
void job_settle_file(struct job *job, uint32_t file);

/* Makes one file durable and waits for that. 0 or a negative errno, logged. */
int job_sync_file(struct job *job, uint32_t file);

/* --- job_open.c: a job's beginning and end; its files, on all of its paths --- */

/* 0 or a negative errno, logged. Sets td->io_ops_data to the job, on success only. */
int job_open(struct thread_data *td);

/* Makes the files that are still open durable, writes the statistics and frees the job. `job` may
 * be NULL. */
void job_close(struct job *job);

/* 0 or a negative errno, logged. */
int job_open_file(struct job *job, struct fio_file *f);

/* Makes all written data of a file durable, and closes it. 0 or a negative errno, logged. */
int job_close_file(struct job *job, struct fio_file *f);

/* Removes a file; an absent file is no error. 0 or a negative errno, logged. */
int job_unlink(struct job *job, struct fio_file *f);

/* Drops a file from the mounts' caches. 0 or a negative errno, logged. */
int job_invalidate(struct job *job, struct fio_file *f);

/* --- job_stats.c: what connections and metadata operations did --- */

/*
 * Appends JSON lines to stats_file=: one per connection, kind of metadata operation, arrival clock
 * and message, one for rx_timestamps=. Logs a summary, with a line per kind if there are several.
 */
void job_stats_report(struct job *job);

/*
 * conn_job.ticked(): once a second writes a JSON line per path to the file that live_file= names,
 * with a dot and the job's number appended. A failure is logged once, and the job goes on without
 * the file.
 */
void job_stats_live(void *job);
