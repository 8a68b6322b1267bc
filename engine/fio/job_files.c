/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include "nfs/names.h"

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
	for (uint64_t number = job->hold.first; number < job->hold.end; number++) {
		const struct hold_extent *extent = hold_extent(&job->hold, number);

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

void job_close_left_open(struct job *job)
{
	for (uint32_t i = 0; i < job->group.job.file_count; i++) {
		int error = job_file_name(job, i) ? close_file(job, i) : 0;

		if (error)
			td_verror(job->td, -error, "close_file");
	}
}
