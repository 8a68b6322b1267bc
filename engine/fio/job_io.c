/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include <limits.h>
#include <string.h>

#include "deadline.h"
#include "job_log.h"
#include "open_loop.h"

/* Wraps a place in the ring of complete requests; `place` is below 2 * done_size. */
static uint32_t wrapped(const struct job *job, uint32_t place)
{
	return place < job->done_size ? place : place - job->done_size;
}

/* Ends an I/O's operation. False: the I/O continues with another operation. */
static bool end_operation(struct job *job, struct request *request)
{
	if (request->error && !job->said_failed) {
		metadata_say_failed(job->td, request);
		job->said_failed = true;
	}
	if (!meta_job_ends(job->meta, &request->meta, request->io_u, request->error))
		return true;
	request->issued = job->meta->now;
	request->left = 1;
	TAILQ_INSERT_TAIL(&job->pending[IO_META], request, link);
	return false;
}

/* Logs once why a READ got no data, as far as the job's own options explain it. */
static void say_beyond_end(struct job *job, const struct io_u *io_u)
{
	const struct thread_options *o = &job->td->o;
	const char *why =
		"a READ beyond the end of file: did another program truncate it during the run?";

	if (o->read_iolog_file)
		why = "a READ beyond the end of file: the log of read_iolog= reads more than the "
		      "file has";
	else if (o->create_on_open)
		why = "a READ beyond the end of file: create_on_open=1 lays no file out";
	else if (job_verifies(job->td))
		why = "a READ beyond the end of file: less was written than this job verifies: "
		      "was the write interrupted? Give size= as written, or verify_state_load=1";
	if (!job->said_beyond_end)
		job_log("\"%s\" at %llu: %s", io_u->file->file_name, io_u->offset, why);
	job->said_beyond_end = true;
}

static void complete(struct job *job, struct request *request)
{
	struct io_u *io_u = request->io_u;

	if (request == &job->replay.request) /* replay_advance() reads its result */
		return;
	if (request->op == IO_COMMIT && !syncs_end(job, request))
		return;
	if (!io_u) /* job_sync_file() reads its result */
		return;
	if (request->op == IO_META && !end_operation(job, request))
		return;
	io_u->error = request->error;
	io_u->resid =
		request->op == IO_COMMIT ? 0 : io_u->offset + io_u->xfer_buflen - request->end;
	/* As in fio's synchronous engines, a READ that gets only part of its bytes is short, and a
	 * READ that gets none fails. */
	if (io_u->resid && io_u->resid == io_u->xfer_buflen && !io_u->error) {
		io_u->error = EIO;
		say_beyond_end(job, io_u);
	} else if (io_u->error && request->op != IO_META) {
		failure_say(job, request);
	}
	if (request->op == IO_WRITE)
		syncs_write_ends(job, request);
	if (job->open)
		open_loop_finished(job->open, io_u);
	job->done[wrapped(job, job->done_first + job->done_count++)] = io_u;
}

/* After a failed replay (hold_writes), all further writes of the job fail. */
static void refuse_writes(struct job *job)
{
	struct request_list *writes = &job->pending[IO_WRITE];
	struct request *request;

	while ((request = TAILQ_FIRST(writes))) {
		TAILQ_REMOVE(writes, request, link);
		request->error = job->replay.broken;
		request->told = true; /* syncs.c has logged why */
		request->left = 0;
		if (!request->pieces)
			complete(job, request);
	}
}

static void submit_all(struct job *job, struct request_list *list)
{
	struct request *request;

	while ((request = TAILQ_FIRST(list)) && pieces_submit(job, request)) {
		TAILQ_REMOVE(list, request, link);
		if (!request_busy(request)) /* a sync with nothing to COMMIT */
			complete(job, request);
	}
}

/* Saves a call where the list is empty, as usual. */
static void submit_kind(struct job *job, enum io_op kind)
{
	if (!TAILQ_EMPTY(&job->pending[kind]))
		submit_all(job, &job->pending[kind]);
}

/* Each kind has a queue of its own, so that a WRITE that waits for room in the hold delays no READ.
 * COMMITs that make room go first. */
static void submit_pending(struct job *job)
{
	if (job->group.job.hold)
		replay_advance(job);
	if (job->replay.broken)
		refuse_writes(job);
	if (!replay_active(job)) {
		submit_kind(job, IO_COMMIT);
		submit_kind(job, IO_WRITE);
	}
	submit_kind(job, IO_READ);
	submit_kind(job, IO_META);
}

static void begin_transfer(struct job *job, struct request *request, struct io_u *io_u)
{
	*request = (struct request){
		.op = io_u->ddir == DDIR_READ ? IO_READ : IO_WRITE,
		.file = io_u->file->fileno,
		.offset = io_u->offset,
		.left = (uint32_t)io_u->xfer_buflen,
		.end = io_u->offset + io_u->xfer_buflen,
	};
	if (job->meta) {
		meta_job_begins(job->meta, &request->meta, io_u);
		request->op = IO_META;
		request->left = 1;
	}
	if (request->op == IO_WRITE)
		syncs_write_begins(job, request);
	TAILQ_INSERT_TAIL(&job->pending[request->op], request, link);
}

static void begin_sync(struct job *job, struct request *request, struct io_u *io_u)
{
#ifdef HAVE_FIO_SYNCFS
	/* The io_u's file is not the job's: fio has opened a local directory for syncfs(2). */
	if (io_u->ddir == DDIR_SYNCFS) {
		syncs_begin(job, request, 0, job->group.job.file_count);
		return;
	}
#endif
	syncs_begin(job, request, io_u->file->fileno, 1);
	request->data_only = io_u->ddir != DDIR_SYNC;
}

/* Tells fio when its I/Os were sent: submission latency ends and completion latency begins. */
static void note_issued(struct job *job)
{
	struct thread_data *td = job->td;
	struct open_loop *open = job->open;
	bool timed = fio_fill_issue_time(td);
	struct timespec now;

	if (timed)
		fio_gettime(&now, NULL);
	for (uint32_t i = 0; i < job->fresh_count; i++) {
		struct io_u *io_u = job->fresh[i];
		struct request *request = &job->requests[io_u->index];

		request->issued = job->group.job.clock.now;
		if (timed) {
			io_u->issue_time = now;
			if (open)
				open_loop_sent(open, io_u);
			io_u_queued(td, io_u);
		}
		if (job->meta)
			meta_job_issued(job->meta, &request->meta, request->issued,
					open ? open->ios[io_u->index].lag : 0);
	}
	if (timed && td->o.read_iolog_file)
		td->last_issue = now;
	io_u_mark_submit(td, job->fresh_count);
	job->fresh_count = 0;
}

static void send_fresh(struct job *job)
{
	if (!job->fresh_count && TAILQ_EMPTY(&job->group.dirty))
		return;
	clock_read(&job->group.job.clock);
	if (job->fresh_count)
		note_issued(job);
	group_flush(&job->group);
}

/* Waits for the outstanding I/O of an ending job, but not for ever, even if mounts are hard. Once
 * the job has given up, every further I/O, such as a COMMIT at close, fails at once. */
static void wait_for_the_last(struct job *job)
{
	struct group *group = &job->group;
	bool ended = deadline_listen(job->td), progress;

	if (job->open)
		open_loop_over(job->open);
	group_reap(group, true);
	deadline_heard(job->td, ended);
	if (!job->gave_up) {
		progress = !TAILQ_EMPTY(&group->job.finished);
		if (!deadline_io_passed(progress, !progress && group_reachable(group)))
			return;
		job_log("giving up %u calls that the server did not answer: the run is ending",
			group->job.outstanding);
		job->gave_up = true;
	}
	group_abort(group, EINTR);
}

/* Sends what was queued, and takes the replies that have come. Waits if fewer than `min` I/Os are
 * complete. Returns false if there is nothing to wait for. */
static bool poll_once(struct job *job, unsigned int min)
{
	struct request *request;
	bool wait, idle;

	submit_pending(job);
	wait = job->done_count < min && TAILQ_EMPTY(&job->group.job.finished);
	idle = wait && !job->group.job.outstanding && !job->group.job.wake_at;
	send_fresh(job);
	if (idle)
		return false;
	if (wait && deadline_set(job->td))
		wait_for_the_last(job);
	else
		group_reap(&job->group, wait);
	if (job->meta)
		job->meta->now = clock_now();
	while ((request = pieces_take(job)))
		complete(job, request);
	return true;
}

/* True where an I/O waits for room, for earlier writes, or for a connection. */
static bool unsent(const struct job *job)
{
	for (int op = 0; op < IO_OPS; op++)
		if (!TAILQ_EMPTY(&job->pending[op]))
			return true;
	return !TAILQ_EMPTY(&job->syncs) || group_unsent(&job->group);
}

/* True where fio may sleep before its next I/O; with read_iolog= the next entries show that. */
static bool fio_sleeps_next(const struct thread_data *td)
{
	const struct flist_head *log = &td->io_log_list;

	for (const struct flist_head *at = log->next; at != log; at = at->next) {
		const struct io_piece *next = flist_entry(at, struct io_piece, list);

		if (next->delay)
			return true;
		if (next->ddir != DDIR_INVAL) /* else a file is opened or closed */
			return false;
	}
	return !td->o.read_iolog_file;
}

int job_commit(struct thread_data *td)
{
	struct job *job = job_of(td);

	if (job->fresh_count >= job->fresh_max)
		send_fresh(job);
	if (!job->fio_sleeps || !fio_sleeps_next(td))
		return 0;
	while (unsent(job) && !deadline_set(td) && poll_once(job, UINT_MAX)) {
	}
	return 0;
}

/* True where it is time for fio to offer again the I/O that is_due() turned away. */
static bool woken(const struct job *job)
{
	uint64_t wake_at = job->group.job.wake_at;

	return wake_at && clock_now() >= wake_at;
}

static uint64_t batch_time(const struct job *job)
{
	return job_options(job)->arrival_batch * 1000ull;
}

/*
 * True where the I/O is due. If not, fio keeps the I/O, asks for completions, and offers the I/O
 * again. With nothing else under way fio would offer it again at once, so this function waits. This
 * wait and job_getevents() last a slice at most, so that fio can check runtime, signals and
 * requests for status.
 */
static bool is_due(struct job *job, const struct io_u *io_u)
{
	uint64_t left = open_loop_left(job->open, io_u);

	if (!left)
		return true;
	job->group.job.wake_at = clock_now() + min_of(left + batch_time(job), WAIT_SLICE_MS * MSEC);
	if (job->td->cur_depth > 1)
		return false;
	while (!woken(job) && !job->td->terminate)
		poll_once(job, 1);
	job->group.job.wake_at = 0;
	return !open_loop_left(job->open, io_u);
}

enum fio_q_status job_queue(struct thread_data *td, struct io_u *io_u)
{
	struct job *job = job_of(td);
	struct request *request = &job->requests[io_u->index];

	if (job->open) {
		if (open_loop_schedules(io_u) && !is_due(job, io_u))
			return FIO_Q_BUSY;
		open_loop_take(job->open, io_u);
	}
	if (io_u->ddir == DDIR_READ || io_u->ddir == DDIR_WRITE ||
	    (io_u->ddir == DDIR_TRIM && job->meta)) {
		begin_transfer(job, request, io_u);
	} else if (ddir_sync(io_u->ddir)) {
		begin_sync(job, request, io_u);
	} else {
		io_u->error = EOPNOTSUPP;
		return FIO_Q_COMPLETED;
	}
	request->io_u = io_u;
	job->fresh[job->fresh_count++] = io_u;
	submit_pending(job);
	return FIO_Q_QUEUED;
}

/* arrival_batch=: sleeps, with replies unread, until fio must offer the next I/O, if soon. */
static void wait_for_batch(struct job *job)
{
	uint64_t wake_at = job->group.job.wake_at;
	const struct timespec until = {(time_t)(wake_at / SEC), (long)(wake_at % SEC)};

	if (wake_at - clock_now() > 2 * batch_time(job))
		return;
	send_fresh(job);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

int job_getevents(struct thread_data *td, unsigned int min, unsigned int max,
		  const struct timespec *timeout)
{
	struct job *job = job_of(td);
	uint64_t start = timeout ? clock_now() : 0;

	if (batch_time(job) && job->group.job.wake_at)
		wait_for_batch(job);
	do {
		if (!poll_once(job, min))
			return -EIO;
	} while (job->done_count < min && !woken(job) &&
		 (!timeout || clock_now() - start < nanoseconds_of(timeout)));
	job->group.job.wake_at = 0;
	if (job->open && job->done_count)
		open_loop_collected(job->open);
	return (int)job->done_count;
}

struct io_u *job_event(struct thread_data *td, int number)
{
	struct job *job = job_of(td);
	struct io_u *io_u = job->done[job->done_first];

	job->done_first = wrapped(job, job->done_first + 1);
	job->done_count--;
	return io_u;
}

void job_drain(struct job *job)
{
	while (poll_once(job, UINT_MAX)) {
	}
	while (job->done_count) { /* fio no longer collects them: their errors are set here */
		const struct io_u *io_u = job_event(job->td, 0);

		if (io_u->error)
			td_verror(job->td, io_u->error, "an I/O in flight at the end");
	}
}

static bool under_way(const struct job *job, uint32_t file)
{
	for (uint32_t i = 0; i < job->done_size; i++) {
		const struct request *request = &job->requests[i];

		if (request_busy(request) && file >= request->file &&
		    file < request->file + max_of(request->file_count, 1u))
			return true;
	}
	return false;
}

void job_settle_file(struct job *job, uint32_t file)
{
	send_fresh(job);
	while (under_way(job, file) && poll_once(job, UINT_MAX)) {
	}
}

int job_sync_file(struct job *job, uint32_t file)
{
	struct request *request = &job->requests[job->done_size]; /* the engine's own */

	syncs_begin(job, request, file, 1);
	while (request_busy(request) ||
	       replay_makes_room(job)) /* COMMITs that make room may be of this file */
		poll_once(job, UINT_MAX);
	if (request->error)
		job_log("\"%s\" is not durable on %s: %s%s%s%s", job_file_name(job, file),
			request->label, strerror(request->error), request->status ? ": " : "",
			request->status ?: "", failure_remedy(IO_COMMIT, request->error));
	return -request->error;
}
