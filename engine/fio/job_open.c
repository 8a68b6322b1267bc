/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "deadline.h"
#include "open_loop.h"
#include "nfs/meta_call.h"
#include "nfs/names.h"
#include "job_log.h"

enum {
	PIECES_MAX = 8192,    /* or iodepth, if that is larger: further pieces wait */
	CALL_GUESS = 1 << 20, /* bytes of one call, before the server's limit is known */
	IO_COUNT_MAX = 65536, /* struct conn_job's limit */
	FRESH_SHARE = 8,      /* mounts: with more than 1/8 of iodepth unsent, a disk would idle */
	FRESH_LATE = 32,      /* arrival clock: I/Os come only when due: at most 32 wait unsent */
	DISCARD_MIN =
		32768, /* bytes of a READ: for fewer, the system call costs more than it saves */
};

static enum spread_policy policy_of(const struct terms *eo, unsigned int own)
{
	return own == SPREAD_AS_SPREAD ? eo->spread : own - 1;
}

static uint32_t largest_block(const struct thread_data *td)
{
	return (uint32_t)max_of(td->o.max_bs[DDIR_READ], td->o.max_bs[DDIR_WRITE]);
}

static uint32_t conn_count(const struct job *job)
{
	const struct terms *eo = job_options(job);

	return eo->nclients ?: job->group.path_count * eo->nconnect;
}

/* With spread=job a direction uses the job's own path only, even if the other uses all paths. */
static struct spread make_spread(struct job *job, unsigned int own)
{
	const struct terms *eo = job_options(job);
	uint32_t all = job->group.path_count;
	struct spread spread = {
		.policy = policy_of(eo, own),
		.step = 1,
		.count = conn_count(job),
		.stripe_size = eo->stripe_size ?: largest_block(job->td),
		.load = job->load,
	};

	if (spread.policy == SPREAD_JOB) {
		spread.first = terms_path_of_job(job->td, all);
		spread.step = all;
		spread.count = (spread.count - 1 - spread.first) / all + 1;
	}
	return spread;
}

/* Returns how many ios there must be: enough for all pieces of all requests at once, up to
 * PIECES_MAX, and for a COMMIT on each path, to make room in the hold. */
static uint32_t count_ios(const struct job *job)
{
	const struct terms *eo = job_options(job);
	uint32_t block = largest_block(job->td), depth = job->td->o.iodepth;
	uint32_t reads =
		spread_pieces_max(&job->spread[IO_READ], block, eo->rsize ?: (uint32_t)CALL_GUESS);
	uint32_t writes =
		spread_pieces_max(&job->spread[IO_WRITE], block, eo->wsize ?: (uint32_t)CALL_GUESS);
	uint64_t wanted = (uint64_t)depth * max_of(reads, writes);
	uint64_t granted = max_of(min_of(wanted, (uint64_t)PIECES_MAX), (uint64_t)depth);

	return (uint32_t)min_of(granted + job->group.path_count, (uint64_t)IO_COUNT_MAX);
}

static int open_hold(struct job *job)
{
	const struct terms *eo = job->td->eo;
	uint64_t block = job->td->o.max_bs[DDIR_WRITE], size = eo->hold_writes;

	if (!size || !td_write(job->td))
		return 0;
	if (size < block) {
		job_log("hold_writes=%" PRIu64 ": a write of this job has up to %" PRIu64
			" bytes: give at least that, better several times as much",
			size, block);
		return -EINVAL;
	}
	if (job->stable != IO_UNSTABLE || path_all_mounts(job->used, job->group.path_count))
		return 0; /* WRITEs are durable at once, or the kernel keeps the data */
	if (size > memory_of_machine() || hold_init(&job->hold, size)) {
		job_log("hold_writes=%" PRIu64 ": not enough memory for it", size);
		return -ENOMEM;
	}
	job->group.job.hold = &job->hold;
	job->group.job.buffers[RPC_BUFFER_HOLD] = (struct iovec){job->hold.memory, job->hold.size};
	return 0;
}

/* Sets job->load, if a spread policy needs the bytes in flight. False: out of memory. */
static bool open_load(struct job *job)
{
	const struct terms *eo = job_options(job);

	if (policy_of(eo, eo->spread_reads) != SPREAD_QUEUE &&
	    policy_of(eo, eo->spread_writes) != SPREAD_QUEUE)
		return true;
	job->load = spread_load_new(conn_count(job));
	return job->load;
}

static bool allocate_ios(struct job *job, uint32_t count)
{
	job->ios = calloc(count, sizeof(*job->ios));
	if (job_options(job)->metadata) {
		job->meta = meta_job_new(job->td, &job->paths.entries);
		job->metas = calloc(count, sizeof(*job->metas));
	} else {
		job->commit_ios = calloc(count, sizeof(*job->commit_ios));
	}
	if (!job->ios || !(job->commit_ios || (job->meta && job->metas)))
		return false;
	TAILQ_INIT(&job->idle);
	for (uint32_t i = 0; i < count; i++) {
		if (job->metas)
			job->ios[i].meta = &job->metas[i];
		else
			job->ios[i].commit = &job->commit_ios[i];
		TAILQ_INSERT_TAIL(&job->idle, &job->ios[i], link);
	}
	return true;
}

static int allocate(struct job *job)
{
	const struct thread_data *td = job->td;
	const struct thread_options *o = &td->o;
	const struct terms *eo = options_of(td);
	uint32_t depth = o->iodepth, ios;

	if (!open_load(job))
		return -ENOMEM;
	job->spread[IO_READ] = make_spread(job, eo->spread_reads);
	job->spread[IO_WRITE] = make_spread(job, eo->spread_writes);
	job->one_spread =
		eo->nclients && policy_of(eo, eo->spread_reads) == policy_of(eo, eo->spread_writes);
	ios = count_ios(job);
	job->requests = calloc(depth + 1, sizeof(*job->requests));
	job->writes = calloc(o->nr_files, sizeof(*job->writes));
	job->fresh = calloc(depth, sizeof(*job->fresh));
	job->done = calloc(depth, sizeof(*job->done));
	if (!job->requests || !job->writes || !job->fresh || !job->done || !allocate_ios(job, ios))
		return -ENOMEM;
	job->done_size = depth;
	if ((eo->arrival_rate || eo->arrival_bw) && !(job->open = open_loop_new(td)))
		return -ENOMEM;
	job->fresh_max = job->open ? min_of(depth, (uint32_t)FRESH_LATE) : depth;
	if (path_all_mounts(job->used, job->group.path_count))
		job->fresh_max = min_of(job->fresh_max, max_of(depth / FRESH_SHARE, 1u));
	/* fio asks for all completions before it sleeps for rates, thinktime or flow_sleep, but not
	 * before it waits for the times in a log, for its share of a flow or for a file's lock. */
	job->fio_sleeps = (o->read_iolog_file && !o->no_stall) || o->flow ||
			  o->file_lock_mode != FILE_LOCK_NONE;
	if (job->fio_sleeps)
		job->fresh_max = 1;
	job->group.job = (struct conn_job){
		.io_count = ios,
		.file_count = o->nr_files,
		.clients = eo->nclients,
		.client_depth =
			min_of(eo->client_depth, ios) ?: max_of(depth / (eo->nclients ?: 1), 1u),
		.client_start = eo->client_start,
		.own_files = eo->client_files,
		.writes = td_write(td) && !job_verifies(td),
		.direct = o->odirect,
		.failover = eo->failover,
		.rdma = true,
		.busy_poll = eo->busy_poll * 1000ull,
		.punctual = job->open,
		.spin = eo->arrival_spin * 1000ull,
		.stamps = eo->rx_timestamps,
		.ticked = eo->live_file ? job_stats_live : NULL,
		.owner = job,
		.log = job_log,
	};
	return open_hold(job);
}

/* Opens the job's own path, if the job uses no other; else all paths. 0 or a negative errno. */
static int open_paths(struct job *job)
{
	const struct terms *eo = job_options(job);
	bool one = !eo->failover && policy_of(eo, eo->spread_reads) == SPREAD_JOB &&
		   policy_of(eo, eo->spread_writes) == SPREAD_JOB;
	uint32_t count = one ? 1 : job->paths.pool.count;
	int error;

	if (eo->nclients && eo->nclients < count) {
		job_log("nclients=%u is less than the pool's %u paths: give more clients, or use "
			"spread=job",
			eo->nclients, count);
		return -EINVAL;
	}
	job->used = calloc(count, sizeof(*job->used));
	if (!job->used)
		return -ENOMEM;
	if (one) {
		job->used[0] = pool_paths_own(&job->paths, job->td, &error);
		job->group.path_count = 1;
	} else {
		job->group.path_count =
			pool_paths_all(&job->paths, job->td, job->used, count, &error);
	}
	return error;
}

static int open_job(struct job *job)
{
	struct thread_data *td = job->td;
	int error = terms_check(td) ?: pool_paths_init(&job->paths, td, td->o.nr_files);

	job->paths.clients = job_options(job)->nclients;
	error = error ?: metadata_check_pool(td, &job->paths.pool);
	if (!error)
		error = open_paths(job);
	if (!error)
		error = allocate(job);
	if (!error)
		error = group_open(&job->group, job->used, job->group.path_count,
				   job_options(job)->nconnect, deadline_passed);
	return error;
}

static void free_job(struct job *job)
{
	if (job->placeholder >= 0)
		close(job->placeholder);
	group_close(&job->group);
	hold_free(&job->hold);
	pool_paths_close(&job->paths);
	spread_load_free(job->load);
	free(job->used);
	free(job->ios);
	free(job->metas);
	free(job->commit_ios);
	free(job->requests);
	free(job->writes);
	free(job->fresh);
	free(job->done);
	if (job->open)
		histogram_free(&job->open->arrivals.lag);
	free(job->open);
	latency_free(&job->latency);
	meta_job_free(job->meta);
	free(job);
	job_log_name(NULL);
	deadline_end();
}

int job_open(struct thread_data *td)
{
	struct job *job = calloc(1, sizeof(*job));
	int error;

	if (!job)
		return -ENOMEM;
	job->td = td;
	for (int op = 0; op < IO_OPS; op++)
		TAILQ_INIT(&job->pending[op]);
	TAILQ_INIT(&job->syncs);
	TAILQ_INIT(&job->shared);
	job->group.epoll_fd = -1;
	job->placeholder = memfd_create("nfsmulti", MFD_CLOEXEC); /* fsync(2) succeeds on it */
	error = job->placeholder < 0 ? -errno : 0;
	job->stable = terms_stable(td);
	job->discard_min = job_options(job)->discard ? DISCARD_MIN : UINT32_MAX;
	job->trace = job_options(job)->trace || getenv("IOTRAP_TRACE");
	job_log_name(td->o.name);
	if (job_options(job)->stats_file)
		job_log_keep(terms_job_number(td));
	deadline_run(td);
	error = error ?: open_job(job);
	if (error) {
		free_job(job);
		return error;
	}
	td->io_ops_data = job; /* set last: job_close() then gets NULL where job_open() failed */
	return 0;
}

/* --- files --- */

/* failover: true where a path gave up only because another one might answer (nfs/names.h). */
static bool waits_for_any(const struct job *job, int error)
{
	for (uint32_t i = 0; i < job->group.path_count; i++)
		if (!job->used[i]->unusable && question_is_left(job->used[i], error))
			return true;
	return false;
}

/* Calls `what` for the first usable path; with failover for each until success or -ENOENT. */
static int by_any_path(struct job *job, int (*what)(struct path *path, const char *name),
		       const char *name)
{
	int error;

	do {
		error = -ENOTCONN;
		for (uint32_t i = 0; i < job->group.path_count; i++) {
			if (job->used[i]->unusable)
				continue;
			error = what(job->used[i], name);
			if (error >= 0 || error == -ENOENT || !job_options(job)->failover)
				break;
		}
	} while (error < 0 && waits_for_any(job, error));
	return error;
}

/* Returns 1 where it made the file, 0 where the file existed, or a negative errno. */
static int create_if_missing(struct path *path, const char *name)
{
	uint64_t size;
	bool created = false;
	int error = path_size(path, name, &size);

	if (error == -ENOENT)
		error = path_create(path, name, &created);
	return error ?: created;
}

/* Creates a file that a writing job lacks, over one path; the other paths then find the file. */
static int create_missing(struct job *job, const char *name)
{
	const struct thread_data *td = job->td;
	int made;

	if (!td_write(td) || job_verifies(td) || !td->o.allow_create || read_only)
		return 0;
	made = by_any_path(job, create_if_missing, name);
	if (made > 0)
		own_file_add(&job->paths.pool, name);
	return min_of(made, 0);
}

static int drop_caches(struct job *job, const char *name)
{
	int error = 0;

	for (uint32_t i = 0; i < job->group.path_count && !error; i++)
		error = path_drop_cache(job->used[i], name);
	return error;
}

int job_open_file(struct job *job, struct fio_file *f)
{
	const char *name;
	int error = terms_name(f, &job->paths.pool, &name);

	job_settle_file(job, f->fileno);
	if (!error && job_options(job)->metadata)
		error = metadata_count(job->td, f, &job->paths.entries.count);
	else if (!error)
		error = create_missing(job, name);
	if (!error)
		error = group_open_file(&job->group, f->fileno, name);
	if (error)
		return error;
	job->io_max[IO_READ] = group_io_max(&job->group, IO_READ);
	job->io_max[IO_WRITE] = group_io_max(&job->group, IO_WRITE);
	f->fd = job->placeholder;
	if (job->td->o.invalidate_cache)
		drop_caches(job, name);
	/* All files are open: the connections for names have nothing to do for now. */
	if (job->td->nr_open_files + 1 >= job->td->o.nr_files)
		for (uint32_t i = 0; i < job->group.path_count; i++)
			path_rest(job->used[i]);
	return 0;
}

static bool owes(const struct job *job, uint32_t file)
{
	for (uint32_t i = 0; i < job->group.path_count; i++) {
		const struct path_file *path_file = &job->used[i]->files[file];

		if (!path_file->removed && ledger_owes(&path_file->ledger))
			return true;
	}
	return false;
}

/* Drops the extents of a file that is being closed. If another open file of the job is the same
 * file at the server and has extents, too, it takes over the closed one's durable extents. */
static void let_go(struct job *job, uint32_t file)
{
	for_each_extent (&job->hold, extent) {
		if (extent->file != file && !extent->dropped &&
		    job_same_file(job, extent->file, file)) {
			hold_hand_over(&job->hold, file, extent->file);
			return;
		}
	}
	hold_forget(&job->hold, file);
}

static int close_file(struct job *job, uint32_t file)
{
	/* During a replay, ledgers do not show which COMMITs are due. */
	bool unsettled = replay_active(job) || replay_makes_room(job) || owes(job, file);
	int error = unsettled ? job_sync_file(job, file) : 0;

	let_go(job, file);
	group_close_file(&job->group, file);
	return error;
}

int job_close_file(struct job *job, struct fio_file *f)
{
	f->fd = -1;
	job_settle_file(job, f->fileno);
	return close_file(job, f->fileno);
}

int job_unlink(struct job *job, struct fio_file *f)
{
	const char *name;
	int error = terms_name(f, &job->paths.pool, &name);

	job_settle_file(job, f->fileno);
	if (!error)
		error = by_any_path(job, path_remove, name);
	if (error)
		return error;
	for (uint32_t i = 0; i < job->group.path_count; i++)
		path_mark_removed(job->used[i], name);
	hold_forget(&job->hold, f->fileno);
	return 0;
}

int job_invalidate(struct job *job, struct fio_file *f)
{
	const char *name;

	return terms_name(f, &job->paths.pool, &name) ?: drop_caches(job, name);
}

/* Closes files that fio left open because they had I/O in flight. A failure fails the job. */
static void close_left_open(struct job *job)
{
	for (uint32_t i = 0; i < job->group.job.file_count; i++) {
		int error = job_file_name(job, i) ? close_file(job, i) : 0;

		if (error)
			td_verror(job->td, -error, "close_file");
	}
}

/* --- the end --- */

void job_close(struct job *job)
{
	if (!job)
		return;
	if (deadline_orphaned())
		job_log("fio itself has ended, killed or out of memory: this job ends as after "
			"SIGTERM");
	job_drain(job);
	close_left_open(job);
	job_stats_report(job);
	job->td->io_ops_data = NULL;
	free_job(job);
}
