/* SPDX-License-Identifier: GPL-2.0-only */
#include "job_io.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "job_hold.h"
#include "deadline.h"
#include "say.h"

#include "nfs/status.h"
#include "util.h"

/* --- from fio to the connections --- */

static struct spread *spread_of(struct job *job, enum io_op op)
{
	return op == IO_READ ? &job->reads : &job->writes;
}

static void submit_piece(struct job *job, struct request *request, struct conn_io *io)
{
	const struct spread_piece *piece = &request->piece;

	io->op = request->op;
	io->stable = job->stable;
	io->file = request->file;
	io->offset = piece->offset;
	io->length = piece->length;
	io->buffer = (uint8_t *)request->io_u->xfer_buf + (piece->offset - request->io_u->offset);
	io->done = 0;
	io->nfs_status = 0;
	io->owner = request;
	io->held = NULL;
	io->nfs_only = false;
	if (request->op == IO_WRITE && job->group.job.hold)
		io->held = hold_take(&job->hold, io->file, io->offset, io->buffer, io->length);
	request->pieces++;
	io->charged = piece->connection; /* also where it is dead: it is to look busy, not idle */
	spread_load_add(job->load, io->charged, piece->length);
	group_submit(&job->group, piece->connection, io);
}

static void finish_request(struct job *job, struct request *request);

/* hold_writes has been given up: nothing more is written. */
static bool refuse(struct job *job, struct request *request)
{
	request->error = job->mending.broken;
	request->label = job->mending.label;
	request->left = 0;
	if (!request->pieces)
		finish_request(job, request);
	return true;
}

/* True where the hold, if there is one, has room for the next piece of a request. */
static bool may_cut(struct job *job, const struct request *request)
{
	return request->op != IO_WRITE || !job->group.job.hold ||
	       job_hold_admits(job, min_of(request->left, job->io_max[DDIR_WRITE]));
}

/* Cuts what is left of a request into pieces, as far as there are ios for them, and room. */
static bool cut(struct job *job, struct request *request)
{
	struct conn_io *io;

	if (job->mending.broken && request->op == IO_WRITE)
		return refuse(job, request);
	while (request->left && may_cut(job, request) && (io = io_list_take(&job->idle))) {
		spread_cut(spread_of(job, request->op), request->offset, request->left,
			   job->io_max[request->op == IO_WRITE], !request->begun, &request->piece);
		request->begun = true;
		request->offset += request->piece.length;
		request->left -= request->piece.length;
		submit_piece(job, request, io);
	}
	return !request->left;
}

static void starve(struct job *job, struct request *request)
{
	request->next = NULL;
	*job->starved_end = request;
	job->starved_end = &request->next;
}

static void begin(struct request *request, struct io_u *io_u, uint32_t file, enum io_op op)
{
	memset(request, 0, sizeof(*request));
	request->io_u = io_u;
	request->file = file;
	request->op = op;
	if (op == IO_COMMIT) {
		request->left = 1; /* until every path has been asked */
		return;
	}
	request->offset = io_u->offset;
	request->left = (uint32_t)io_u->xfer_buflen;
	request->end = io_u->offset + io_u->xfer_buflen;
}

static enum fio_q_status queue_transfer(struct job *job, struct io_u *io_u)
{
	struct request *request = &job->requests[io_u->index];

	job->fresh[job->fresh_count++] = io_u;
	begin(request, io_u, io_u->file->fileno, io_u->ddir == DDIR_READ ? IO_READ : IO_WRITE);
	job->transfers++;
	if (request->op == IO_WRITE) {
		request->born = ++job->births;
		job->files[request->file].writes++;
	}
	if (job->starved || !cut(job, request))
		starve(job, request);
	return FIO_Q_QUEUED;
}

/* --- syncs: after the writes that came before them, on every path that owes a COMMIT --- */

/* The first connections, one on each path, have the paths' numbers. */
void job_commit_file(struct job *job, struct conn_io *io, uint32_t path, uint32_t file,
		     struct request *owner)
{
	io->op = IO_COMMIT;
	io->data_only = owner && owner->data_only;
	io->ledger = &job->used[path]->files[file].ledger;
	io->file = file;
	io->offset = 0;
	io->length = 0;
	io->done = 0;
	io->nfs_status = 0;
	io->owner = owner;
	job->commits++;
	group_submit(&job->group, path, io);
}

/* request->piece.connection counts the paths that have been asked. */
static bool commit_paths(struct job *job, struct request *request)
{
	uint32_t *path = &request->piece.connection;

	if (job_hold_busy(job))
		return false;
	for (; *path < job->group.path_count; ++*path) {
		const struct path_file *file = &job->used[*path]->files[request->file];

		if (file->removed || !ledger_unsettled(&file->ledger))
			continue;
		if (!job->idle.first)
			return false;
		request->pieces++;
		job_commit_file(job, io_list_take(&job->idle), *path, request->file, request);
	}
	request->left = 0;
	if (!request->pieces)
		finish_request(job, request); /* nothing was owed */
	return true;
}

/* No write that it waits for is left. */
static void start_sync(struct job *job, struct request *request)
{
	if (!commit_paths(job, request))
		starve(job, request);
}

/* Writes that are queued later do not hold a sync up: it covers what came before it, as fsync(2)
 * does. */
static void queue_sync(struct job *job, struct request *request)
{
	request->born = ++job->births;
	request->waits = job->files[request->file].writes;
	if (!request->waits) {
		start_sync(job, request);
		return;
	}
	request->next = job->syncs;
	job->syncs = request;
}

/* A write has finished: the syncs that came after it wait for one less. */
static void release_syncs(struct job *job, const struct request *write)
{
	struct request **link = &job->syncs;

	while (*link) {
		struct request *sync = *link;

		if (sync->file != write->file || sync->born < write->born || --sync->waits) {
			link = &sync->next;
			continue;
		}
		*link = sync->next;
		start_sync(job, sync);
	}
}

enum fio_q_status job_queue(struct job *job, struct io_u *io_u)
{
	struct request *request;

	if (ddir_rw(io_u->ddir) && io_u->ddir != DDIR_TRIM)
		return queue_transfer(job, io_u);
	if (!ddir_sync(io_u->ddir)) {
		io_u->error = EOPNOTSUPP;
		return FIO_Q_COMPLETED;
	}
	job->fresh[job->fresh_count++] = io_u;
	request = &job->requests[io_u->index];
	begin(request, io_u, io_u->file->fileno, IO_COMMIT);
	request->data_only = io_u->ddir != DDIR_SYNC;
	queue_sync(job, request);
	return FIO_Q_QUEUED;
}

/* --- from the connections to fio --- */

/* The requests that got no io go first when there are some again. */
static void feed_starved(struct job *job)
{
	while (job->starved && job->idle.first) {
		struct request *request = job->starved;
		bool through =
			request->op == IO_COMMIT ? commit_paths(job, request) : cut(job, request);

		if (!through)
			return;
		job->starved = request->next;
		if (!job->starved)
			job->starved_end = &job->starved;
	}
}

/* Bytes that a server lost after it had taken them are an error of the sync that finds it out. */
static void report_losses(struct job *job, struct request *request)
{
	for (uint32_t i = 0; i < job->group.path_count; i++) {
		struct path *path = job->used[i];
		struct path_file *file = &path->files[request->file];
		uint64_t lost = ledger_take_lost(&file->ledger);

		if (!lost || file->removed)
			continue;
		say("%s: %" PRIu64
		    " bytes of \"%s\" may be lost: the server did not keep what it had "
		    "not committed (its write verifier changed, or COMMIT failed)",
		    path->config.label, lost, file->name);
		if (!request->error) {
			request->error = EIO;
			request->label = path->config.label;
		}
	}
}

static void push_done(struct job *job, struct io_u *io_u)
{
	job->done[(job->done_first + job->done_count) % job->done_size] = io_u;
	job->done_count++;
}

/* A sync has found out that data was lost which is held: it begins anew when that is mended. */
static bool sync_again(struct job *job, struct request *request)
{
	if (request->op != IO_COMMIT || request->error || !job->hold.lost)
		return false;
	request->left = 1;
	request->piece.connection = 0;
	starve(job, request);
	return true;
}

static void finish_request(struct job *job, struct request *request)
{
	struct io_u *io_u = request->io_u;

	if (sync_again(job, request))
		return;
	if (request->op == IO_COMMIT) {
		report_losses(job, request);
		/* fio does not look at the result of a sync that was queued: the job fails here. */
		if (request->error)
			td_verror(job->td, request->error, "fsync");
	}
	if (!io_u)
		return; /* job_sync_file() looks at the request */
	io_u->error = request->error;
	io_u->resid = 0;
	if (request->op != IO_COMMIT && request->end < io_u->offset + io_u->xfer_buflen)
		io_u->resid = io_u->offset + io_u->xfer_buflen - request->end;
	/* As with fio's synchronous engines: part of a block at the end of file is short, nothing
	 * is an error. */
	if (!io_u->error && io_u->resid && io_u->resid == io_u->xfer_buflen) {
		io_u->error = EIO;
		request->label = "a READ beyond the end of file";
	}
	push_done(job, io_u);
	if (request->op != IO_COMMIT)
		job->transfers--;
	if (request->op == IO_WRITE) {
		job->files[request->file].writes--;
		release_syncs(job, request);
	}
}

static void trace(const struct job *job, const struct conn_io *io)
{
	static const char *const names[] = {
		[IO_READ] = "READ", [IO_WRITE] = "WRITE", [IO_COMMIT] = "COMMIT"};
	const struct path *path = io->conn->path;

	say("trace: connection %u %s \"%s\" %s %u@%" PRIu64 " = %u%s%s", io->conn->number,
	    path->config.label, path->files[io->file].name, names[io->op], io->length, io->offset,
	    io->done, io->error ? ": " : "", io->error ? strerror(io->error) : "");
}

static void take_piece(struct job *job, struct conn_io *io)
{
	struct request *request = io->owner;

	if (job->trace)
		trace(job, io);
	job->commits -= io->op == IO_COMMIT;
	if (!request) {
		job_hold_took(job, io);
		return;
	}
	if (io->op != IO_COMMIT)
		spread_load_add(job->load, io->charged, -(int64_t)io->length);
	if (io->error && !request->error) {
		request->error = io->error;
		request->label = io->conn->path->config.label;
		request->nfs_status = io->nfs_status;
	}
	if (io->done < io->length)
		request->end = min_of(request->end, io->offset + io->done);
	io_list_add(&job->idle, io);
	if (!--request->pieces && !request->left)
		finish_request(job, request);
}

static void take_finished(struct job *job)
{
	struct conn_io *io;

	while ((io = io_list_take(&job->group.job.finished)))
		take_piece(job, io);
	if (job->starved)
		feed_starved(job);
}

/* --- waiting --- */

/*
 * A server that does not answer holds a hard mount for ever, but not a job that is to end. A COMMIT
 * may well take a while: whether the server lives is then asked by other calls. Once given up,
 * every further I/O, such as a COMMIT at close, fails at once.
 */
static void give_up_silence(struct job *job, bool progress)
{
	struct conn_job *all = &job->group.job;
	bool alive = all->ask && all->signs;

	if (!job->gave_up) {
		all->ask =
			group_outstanding(&job->group) == job->commits && deadline_runtime_over();
		all->signs = 0;
		if (!deadline_io_passed(progress, alive))
			return;
		say("giving up %u calls that the server did not answer: the run is to end",
		    group_outstanding(&job->group));
		job->gave_up = true;
	}
	group_abort(&job->group, EINTR);
}

/* Tells fio when what it queued went out: its submission latency ends there, completion latency
 * begins. */
static void note_issued(struct job *job)
{
	struct thread_data *td = job->td;
	struct timespec now;

	if (fio_fill_issue_time(td)) {
		fio_gettime(&now, NULL);
		for (uint32_t i = 0; i < job->fresh_count; i++) {
			job->fresh[i]->issue_time = now;
			io_u_queued(td, job->fresh[i]);
		}
		if (td->o.read_iolog_file)
			td->last_issue = now;
	}
	io_u_mark_submit(td, job->fresh_count);
	job->fresh_count = 0;
}

static void send_fresh(struct job *job)
{
	if (job->fresh_count)
		note_issued(job);
	group_flush(&job->group);
}

void job_commit(struct job *job)
{
	if (job->fresh_count >= job->fresh_max)
		send_fresh(job);
}

/* One round: out with what was queued, in with what has come. */
static void turn(struct job *job, bool wait)
{
	if (job_hold_busy(job) && job_hold_mend(job)) {
		feed_starved(job);
		wait = wait && group_outstanding(&job->group);
	}
	send_fresh(job);
	group_reap(&job->group, wait);
	if (wait)
		give_up_silence(job, job->group.job.finished.first);
	take_finished(job);
}

static bool expired(const struct timespec *timeout, uint64_t start)
{
	return timeout &&
	       clock_now() - start >= (uint64_t)timeout->tv_sec * SEC + (uint64_t)timeout->tv_nsec;
}

int job_getevents(struct job *job, unsigned int min, unsigned int max,
		  const struct timespec *timeout)
{
	uint64_t start = timeout ? clock_now() : 0;

	turn(job, job->done_count < min);
	while (job->done_count < min && !expired(timeout, start)) {
		if (!group_outstanding(&job->group) && !job->group.job.finished.first &&
		    !job_hold_busy(job))
			return -EIO; /* nothing is on its way any more */
		turn(job, true);
	}
	return (int)job->done_count;
}

struct io_u *job_event(struct job *job)
{
	struct io_u *io_u = job->done[job->done_first];

	job->done_first = (job->done_first + 1) % job->done_size;
	job->done_count--;
	return io_u;
}

/* Completions that fio will not collect any more: it cannot see their errors. */
static void discard_done(struct job *job)
{
	while (job->done_count) {
		const struct io_u *io_u = job_event(job);

		if (io_u->error)
			td_verror(job->td, io_u->error, "an I/O in flight at the end");
	}
}

void job_drain(struct job *job)
{
	while (job->fresh_count || job->starved || job->syncs || group_outstanding(&job->group) ||
	       job_hold_busy(job))
		turn(job, true);
	discard_done(job);
}

int job_sync_file(struct job *job, uint32_t file)
{
	struct request *request = &job->requests[job->done_size]; /* the engine's own */

	begin(request, NULL, file, IO_COMMIT);
	queue_sync(job, request);
	while (request->left || request->pieces)
		turn(job, true);
	if (request->error)
		say("\"%s\" is not durable on %s: %s", job_file_name(job, file), request->label,
		    strerror(request->error));
	return -request->error;
}

char *job_error_details(const struct io_u *io_u)
{
	const struct job *job = job_of_thread();
	const struct request *request = job ? &job->requests[io_u->index] : NULL;
	char *text;

	if (!request || !request->label)
		return strdup("nfsmulti: no connection has failed");
	if (asprintf(&text, "nfsmulti: %s%s%s", request->label, request->nfs_status ? ": " : "",
		     request->nfs_status ? nfs3_status_name(request->nfs_status) : "") < 0)
		return NULL;
	return text;
}
