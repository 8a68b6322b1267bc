/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include <inttypes.h>
#include <string.h>

#include "nfs/meta_call.h"
#include "open_loop.h"
#include "job_log.h"

/* An unusable path has no open files: the name then comes from another path. */
const char *job_file_name(const struct job *job, uint32_t file)
{
	const char *name = NULL;

	for (uint32_t i = 0; !name && i < job->group.path_count; i++)
		name = job->used[i]->files[file].name;
	return name;
}

bool job_same_file(const struct job *job, uint32_t a, uint32_t b)
{
	bool same = a == b;

	for (uint32_t i = 0; !same && i < job->group.path_count; i++)
		same = path_same_file(job->used[i], a, b);
	return same;
}

/* The load that an I/O puts on its connection: its bytes, or one operation. */
static int64_t load_of(const struct conn_io *io)
{
	return io->op == IO_META ? 1 : io->length;
}

/* The caller has set file, offset and length, and for a READ or WRITE the buffer. */
static inline void submit(struct job *job, struct request *request, struct conn_io *io,
			  uint32_t connection)
{
	if (job->group.job.own_files)
		connection = conn_job_place(&job->group.job, io->file).connection;
	io->op = request->op;
	io->stable = job->stable;
	io->done = 0;
	io->sent = 0;
	io->status = NULL;
	io->owner = request;
	request->pieces++;
	io->load_conn = connection; /* even a dead one: it must not look idle to the spread */
	if (job->load)
		spread_load_add(job->load, connection, load_of(io));
	group_submit(&job->group, connection, io);
}

static inline struct spread *spread_of(struct job *job, enum io_op op)
{
	return &job->spread[job->one_spread ? IO_READ : op];
}

static void submit_transfer(struct job *job, struct request *request, struct conn_io *io)
{
	struct spread_piece *piece = &request->piece;

	spread_cut(spread_of(job, request->op), request->offset, request->left,
		   job->io_max[request->op], !request->begun, piece);
	request->begun = true;
	request->offset += piece->length;
	request->left -= piece->length;
	io->file = request->file;
	io->offset = piece->offset;
	io->length = piece->length;
	io->buffer = (uint8_t *)request->io_u->xfer_buf + (piece->offset - request->io_u->offset);
	io->held = NULL;
	io->nfs_only = false;
	io->unwanted = io->length >= job->discard_min;
	if (request->op == IO_WRITE && job->group.job.hold)
		io->held = hold_take(&job->hold, io->file, io->offset, io->buffer, io->length);
	submit(job, request, io, piece->connection);
}

/* Spreads the operation as a READ or WRITE at io_u->offset: a stripe holds a number of entries. */
static void submit_meta(struct job *job, struct request *request, struct conn_io *io)
{
	const struct io_u *io_u = request->io_u;
	uint32_t entry = (uint32_t)io_u->xfer_buflen;

	spread_cut(spread_of(job, io_u->ddir == DDIR_READ ? IO_READ : IO_WRITE), io_u->offset,
		   entry, entry, true, &request->piece);
	request->left = 0;
	*io->meta = (struct meta_io){
		.op = request->meta.op,
		.expected = metadata_expected(job->td, request->meta.op),
	};
	io->file = request->file;
	io->offset = request->meta.entry;
	io->length = 0;
	io->nfs_only = false;
	submit(job, request, io, request->piece.connection);
}

bool pieces_room(const struct job *job, const struct request *request)
{
	return request->op != IO_WRITE || !job->group.job.hold ||
	       hold_room(&job->hold, min_of(request->left, job->io_max[IO_WRITE]));
}

/*
 * True where the latest COMMIT also covers this request: all WRITEs answered so far were answered
 * before that COMMIT was sent (RFC 1813, 3.3.21).
 */
static bool may_share(const struct path_file *file, const struct request *request)
{
	const struct conn_io *latest = file->commit;

	return latest && !request->held_only &&
	       (request->data_only || !latest->commit->data_only) &&
	       ledger_covered(&file->ledger, &latest->commit->covered);
}

/* Shares the latest COMMIT, or submits one to connection number `path`, the path's first one. */
static void submit_commit(struct job *job, struct request *request, uint32_t path, uint32_t file)
{
	struct path_file *path_file = &job->used[path]->files[file];
	struct conn_io *io = io_list_take(&job->idle);

	if (may_share(path_file, request)) {
		io->owner = request;
		request->pieces++;
		TAILQ_INSERT_TAIL(&path_file->commit->commit->sharing, io, link);
		return;
	}
	path_file->commit = io;
	TAILQ_INIT(&io->commit->sharing);
	io->commit->covered = (struct ledger_commit){0};
	io->file = file;
	io->offset = 0;
	io->length = 0;
	io->commit->data_only = request->data_only;
	io->commit->ledger = &path_file->ledger;
	job->commits++;
	submit(job, request, io, path);
}

static bool submit_commits(struct job *job, struct request *request)
{
	for (uint32_t paths = job->group.path_count; request->left; request->left--) {
		uint32_t number = paths * request->file_count - request->left;
		uint32_t path = number % paths, file = request->file + number / paths;
		const struct path_file *path_file = &job->used[path]->files[file];
		const struct ledger *ledger = &path_file->ledger;

		if (path_file->removed) {
			hold_forget(&job->hold, file);
			continue;
		}
		if (!(request->held_only ? ledger->held : ledger_unsettled(ledger)))
			continue;
		if (TAILQ_EMPTY(&job->idle))
			return false;
		submit_commit(job, request, path, file);
	}
	return true;
}

void pieces_commit(const struct job *job, struct request *request, uint32_t file, uint32_t count)
{
	*request = (struct request){.op = IO_COMMIT, .file = file, .file_count = count};
	request->left = job->group.path_count * count;
}

bool pieces_submit(struct job *job, struct request *request)
{
	struct conn_io *io;

	if (request->op == IO_COMMIT)
		return submit_commits(job, request);
	if (request->op == IO_META) {
		io = io_list_take(&job->idle);
		if (io)
			submit_meta(job, request, io);
		return io;
	}
	while (request->left && pieces_room(job, request) && (io = io_list_take(&job->idle)))
		submit_transfer(job, request, io);
	return !request->left;
}

void pieces_replay(struct job *job, struct request *request, struct hold_extent *extent)
{
	struct conn_io *io = io_list_take(&job->idle);
	uint32_t connection = extent->connection; /* if it is dead, group_submit() takes another */

	/* Avoids mounts, even if one took the WRITE: mounts cannot use the hold's buffers. */
	while (job->group.conns[connection]->path->config.dir)
		connection = (connection + 1) % job->group.job.conn_count;
	hold_again(&job->hold, extent);
	io->file = extent->file;
	io->offset = extent->offset;
	io->length = extent->length;
	io->buffer = extent->data;
	io->held = extent;
	io->nfs_only = true;
	submit(job, request, io, connection);
}

/* The arrival times of the fio I/O that a piece belongs to; NULL: the I/O has none. */
static const struct open_loop_io *scheduled(const struct job *job, const struct conn_io *io)
{
	const struct request *request = io->owner;
	const struct open_loop_io *found;

	if (!job->open || !request->io_u)
		return NULL;
	found = &job->open->ios[request->io_u->index];
	return found->due ? found : NULL;
}

static void trace(const struct job *job, const struct conn_io *io)
{
	static const char *const names[] = {
		[IO_READ] = "READ", [IO_WRITE] = "WRITE", [IO_COMMIT] = "COMMIT", [IO_META] = ""};
	const struct path *path = io->conn->path;
	const struct open_loop_io *clock = scheduled(job, io);
	char due[64] = "";

	if (clock)
		snprintf(due, sizeof(due), " due %" PRIu64 " ns, lag %" PRIu64 " ns",
			 clock->due - job->open->origin, clock->lag);
	job_log("trace: connection %u %s \"%s\" %s %u@%" PRIu64 " = %u%s%s%s", io->conn->number,
		path->config.label, path->files[io->file].name,
		io->op == IO_META ? meta_name(io->meta->op) : names[io->op], io->length, io->offset,
		io->done, due, io->error ? ": " : "", io->error ? strerror(io->error) : "");
}

/* Skips COMMITs, which may serve several syncs. An I/O that was never sent has waited until now. */
static void note_latency(const struct job *job, const struct request *request,
			 const struct conn_io *io)
{
	struct latency *latency = &io->conn->latency;
	const struct open_loop_io *clock;
	uint64_t until = io->sent ?: job->group.job.clock.now;

	if (!request->issued || request->op == IO_COMMIT)
		return;
	latency_waited(latency, until > request->issued ? until - request->issued : 0);
	clock = scheduled(job, io);
	if (clock)
		histogram_add(&latency->lag, clock->lag);
}

static void note_result(struct request *request, const struct conn_io *io)
{
	if (io->error && !request->error) {
		request->error = io->error;
		request->label = io->conn->path->config.label;
		request->status = io->status;
		/* The NFS client logs why I/O fails without a status. */
		request->told = !io->status && !io->conn->path->config.dir;
		if (io->op == IO_META)
			request->found = io->meta->found;
	}
	if (io->done < io->length)
		request->end = min_of(request->end, io->offset + io->done);
	if (io->op == IO_WRITE && !request->io_u) /* a replay */
		io->conn->counters.rewritten_bytes += io->done;
}

static void end_commit(struct job *job, struct conn_io *io)
{
	struct path_file *file = container_of(io->commit->ledger, struct path_file, ledger);
	struct conn_io *other;

	job->commits--;
	if (file->commit == io)
		file->commit = NULL;
	while ((other = io_list_take(&io->commit->sharing))) {
		void *owner = other->owner;
		struct commit_io *commit = other->commit;

		*other = *io;
		other->owner = owner;
		other->commit = commit;
		TAILQ_INSERT_TAIL(&job->shared, other, link);
	}
}

static struct conn_io *take_finished(struct job *job)
{
	struct conn_io *io = io_list_take(&job->group.job.finished);

	if (io && job->trace)
		trace(job, io);
	if (io && io->op == IO_COMMIT)
		end_commit(job, io);
	return io;
}

struct request *pieces_take(struct job *job)
{
	struct conn_io *io;

	while ((io = io_list_take(&job->shared) ?: take_finished(job))) {
		struct request *request = io->owner;

		note_result(request, io);
		note_latency(job, request, io);
		if (job->load)
			spread_load_add(job->load, io->load_conn, -load_of(io));
		TAILQ_INSERT_TAIL(&job->idle, io, link);
		request->pieces--;
		if (!request_busy(request))
			return request;
	}
	return NULL;
}
