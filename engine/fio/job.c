/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "job_hold.h"
#include "job_io.h"
#include "job_stats.h"
#include "deadline.h"
#include "say.h"
#include "util.h"

enum {
	PIECES_MAX = 8192,    /* more only where iodepth is larger: further pieces wait */
	CALL_GUESS = 1 << 20, /* what one call may carry, before the server is asked */
	IO_COUNT_MAX = 65536, /* struct conn_job's limit */
	FRESH_SHARE = 8,      /* mounts: a disk idles while more than this part is kept back */
};

struct job *job_of(const struct thread_data *td)
{
	return td->io_ops_data;
}

static __thread struct job *job_here;

struct job *job_of_thread(void)
{
	return job_here;
}

static const struct engine_options *options_of(const struct job *job)
{
	return job->td->eo;
}

/* --- the spread --- */

static enum spread_policy policy_of(const struct engine_options *eo, unsigned int own)
{
	return own == SPREAD_AS_SPREAD ? eo->spread : own - 1;
}

static bool keeps_to_a_path(const struct engine_options *eo)
{
	return policy_of(eo, eo->spread_reads) == SPREAD_JOB &&
	       policy_of(eo, eo->spread_writes) == SPREAD_JOB;
}

static uint32_t largest_block(const struct thread_data *td)
{
	return (uint32_t)max_of(td->o.max_bs[DDIR_READ], td->o.max_bs[DDIR_WRITE]);
}

/* Under `job` a direction uses its own path alone, even where the other one has all of them open.
 */
static struct spread make_spread(struct job *job, unsigned int own)
{
	const struct engine_options *eo = options_of(job);
	uint32_t all = job->group.path_count;
	struct spread spread = {
		.policy = policy_of(eo, own),
		.step = 1,
		.count = all * eo->nconnect,
		.stripe_size = eo->stripe_size ?: largest_block(job->td),
		.load = job->load,
	};

	if (spread.policy == SPREAD_JOB) {
		spread.first = terms_path_of_job(job->td, all);
		spread.step = all;
		spread.count = eo->nconnect;
	}
	return spread;
}

/* --- opening --- */

/* The paths that this job opens connections on: its own alone, or all. */
static int open_paths(struct job *job)
{
	const struct engine_options *eo = options_of(job);
	bool one = keeps_to_a_path(eo) && !eo->failover;
	uint32_t count = one ? 1 : job->paths.pool.count;
	int error;

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

/* Enough for every request to be under way in full at once, where that stays within reason. */
static uint32_t count_ios(const struct job *job)
{
	const struct engine_options *eo = options_of(job);
	uint32_t block = largest_block(job->td), depth = job->td->o.iodepth;
	uint32_t reads = spread_pieces_max(&job->reads, block, eo->rsize ?: (uint32_t)CALL_GUESS);
	uint32_t writes = spread_pieces_max(&job->writes, block, eo->wsize ?: (uint32_t)CALL_GUESS);
	uint64_t wanted = (uint64_t)depth * max_of(reads, writes);
	uint64_t granted = max_of(min_of(wanted, (uint64_t)PIECES_MAX), (uint64_t)depth);

	return (uint32_t)min_of(granted, (uint64_t)IO_COUNT_MAX);
}

static int allocate(struct job *job)
{
	const struct thread_data *td = job->td;
	uint32_t depth = td->o.iodepth, ios;

	job->load = spread_load_new(job->group.path_count * options_of(job)->nconnect);
	if (!job->load)
		return -ENOMEM;
	job->reads = make_spread(job, options_of(job)->spread_reads);
	job->writes = make_spread(job, options_of(job)->spread_writes);
	ios = count_ios(job);
	job->ios = calloc(ios, sizeof(*job->ios));
	job->requests = calloc(depth + 1, sizeof(*job->requests));
	job->files = calloc(td->o.nr_files, sizeof(*job->files));
	job->fresh = calloc(depth, sizeof(*job->fresh));
	job->done = calloc(depth, sizeof(*job->done));
	if (!job->ios || !job->requests || !job->files || !job->fresh || !job->done)
		return -ENOMEM;
	job->done_size = depth;
	job->fresh_max = depth;
	if (path_all_mounts(job->used, job->group.path_count))
		job->fresh_max = max_of(depth / FRESH_SHARE, 1u);
	job->starved_end = &job->starved;
	for (uint32_t i = 0; i < ios; i++) {
		job->ios[i].slot = i;
		io_list_add(&job->idle, &job->ios[i]);
	}
	job->group.job = (struct conn_job){
		.ios = job->ios,
		.io_count = ios,
		.file_count = td->o.nr_files,
		.writes = td_write(td),
		.direct = td->o.odirect,
		.failover = options_of(job)->failover,
		.rdma = true,
		.inline_max = options_of(job)->inline_max,
		.busy_poll = options_of(job)->busy_poll * 1000ull,
		.log = say,
	};
	return job_hold_open(job);
}

static int open_job(struct job *job)
{
	struct thread_data *td = job->td;
	int error = terms_check(td) ?: pool_paths_init(&job->paths, td, td->o.nr_files);

	if (!error)
		error = open_paths(job);
	if (!error)
		error = allocate(job);
	if (!error)
		error = group_open(&job->group, job->used, job->group.path_count,
				   options_of(job)->nconnect, deadline_passed);
	return error;
}

/* A memfd: fsync(2) succeeds on it and does nothing. */
static int open_placeholder(struct job *job)
{
	job->placeholder = memfd_create("nfsmulti", MFD_CLOEXEC);
	return job->placeholder < 0 ? -errno : 0;
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
	free(job->requests);
	free(job->files);
	free(job->fresh);
	free(job->done);
	free(job);
	say_job(NULL);
	deadline_end();
}

int job_open(struct thread_data *td)
{
	struct job *job = calloc(1, sizeof(*job));
	int error;

	if (!job)
		return -ENOMEM;
	job->td = td;
	job->group.epoll_fd = -1;
	job->placeholder = -1;
	job->stable = terms_stable(td);
	job->trace = options_of(job)->trace || getenv("IOTRAP_TRACE");
	say_job(td->o.name);
	deadline_run(td);
	error = open_placeholder(job) ?: open_job(job);
	if (error) {
		free_job(job);
		return error;
	}
	job_here = job;
	td->io_ops_data = job; /* last: job_close() does nothing where job_open() failed */
	return 0;
}

void job_buffers(struct job *job, void *memory, size_t size)
{
	job->group.job.buffers[RPC_BUFFER_IO] = (struct iovec){memory, size};
}

/* --- files --- */

static bool may_create(const struct thread_data *td)
{
	return td_write(td) && td->o.allow_create && !read_only;
}

/* Does something by the first path; with failover by the first that can, ENOENT being an answer. */
static int by_any_path(struct job *job, int (*what)(struct path *path, const char *name),
		       const char *name)
{
	int error = -ENOTCONN;

	for (uint32_t i = 0; i < job->group.path_count; i++) {
		if (job->used[i]->unusable)
			continue;
		error = what(job->used[i], name);
		if (!error || error == -ENOENT || !options_of(job)->failover)
			break;
	}
	return error;
}

static int create_if_missing(struct path *path, const char *name)
{
	uint64_t size;
	bool created;
	int error = path_size(path, name, &size);

	return error == -ENOENT ? path_create(path, name, &created) : error;
}

/* Creates a file that a writing job lacks, over one path: the others then find it. */
static int create_missing(struct job *job, const char *name)
{
	return may_create(job->td) ? by_any_path(job, create_if_missing, name) : 0;
}

/* The smallest of what the connections carry at once, so that a piece fits whichever is chosen. */
static void find_io_max(struct job *job)
{
	job->io_max[DDIR_READ] = job->io_max[DDIR_WRITE] = UINT32_MAX;
	for (uint32_t i = 0; i < job->group.job.conn_count; i++) {
		const struct conn *conn = job->group.conns[i];

		if (conn->path->unusable)
			continue;
		job->io_max[DDIR_READ] =
			min_of(job->io_max[DDIR_READ], conn->ops->io_max(conn, IO_READ));
		job->io_max[DDIR_WRITE] =
			min_of(job->io_max[DDIR_WRITE], conn->ops->io_max(conn, IO_WRITE));
	}
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

	if (!error)
		error = create_missing(job, name);
	if (!error)
		error = group_open_file(&job->group, f->fileno, name);
	if (error)
		return error;
	find_io_max(job);
	f->fd = job->placeholder;
	if (job->td->o.invalidate_cache)
		drop_caches(job, name);
	/* All open: the name-space connections have nothing more to do for now. */
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

static int close_file(struct job *job, uint32_t file)
{
	/* While the hold is mended, its ledgers do not tell yet. */
	bool unsettled = job_hold_busy(job) || owes(job, file);
	int error = unsettled ? job_sync_file(job, file) : 0;

	hold_forget(&job->hold, file);
	group_close_file(&job->group, file);
	return error;
}

int job_close_file(struct job *job, struct fio_file *f)
{
	f->fd = -1;
	return close_file(job, f->fileno);
}

int job_unlink(struct job *job, struct fio_file *f)
{
	const char *name;
	int error = terms_name(f, &job->paths.pool, &name);

	if (!error)
		error = by_any_path(job, path_remove, name);
	if (error && error != -ENOENT)
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

/* A path that is not used any more does not know it: the first that does tells. */
const char *job_file_name(const struct job *job, uint32_t file)
{
	const char *name = NULL;

	for (uint32_t i = 0; !name && i < job->group.path_count; i++)
		name = job->used[i]->files[file].name;
	return name;
}

/* fio closes no file that it left I/O in flight on. */
static void close_left_open(struct job *job)
{
	for (uint32_t i = 0; i < job->group.job.file_count; i++) {
		int error = job_file_name(job, i) ? close_file(job, i) : 0;

		if (error)
			td_verror(job->td, -error, "close_file");
	}
}

void job_close(struct job *job)
{
	if (!job)
		return;
	job_drain(job);
	close_left_open(job);
	job_stats_report(job);
	job->td->io_ops_data = NULL;
	job_here = NULL;
	free_job(job);
}
