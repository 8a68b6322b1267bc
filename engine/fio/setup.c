/* SPDX-License-Identifier: GPL-2.0-only */
#include "setup.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "job.h"
#include "job_terms.h"
#include "job_log.h"
#include "wait.h"

enum { LAYOUT_PATHS_MAX = 8 };

/* A file that another job lays out grows within this time, even if a mount's attributes are 3 s old
 * (nfs(5)). */
static const uint64_t STANDSTILL = 5 * SEC;

#define SIZE_UNKNOWN (-1ULL) /* fio's size of a missing file */

static struct {
	pthread_mutex_t lock; /* thread=1 with create_serialize=0 comes here from several threads */
	char *terms;	      /* terms_text() of the job that opened the paths */
	char *job;	      /* the name of the last job that used the paths */
	int error; /* why there are no paths; logged once, though fio asks for each file */
	struct pool_paths paths;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Jobs with the same text can share the paths. The caller frees the text. NULL: out of memory. */
static char *terms_text(struct thread_data *td)
{
	const struct terms *terms = options_of(td);
	char *key = terms_key(terms), *text = NULL;

	if (key && asprintf(&text, "%s\n%s\n%u\n%s", terms->pool ?: "",
			    terms->pool ? "" : td->files[0]->file_name,
			    terms->shared_dir ? td->subjob_number : 0, key) < 0)
		text = NULL;
	free(key);
	return text;
}

static void forget(void)
{
	const char *name = job_log_name(kept.job); /* for what paths log as they close */

	pool_paths_close(&kept.paths);
	job_log_name(name);
	free(kept.terms);
	free(kept.job);
	kept.terms = kept.job = NULL;
}

/* Closes nothing while a thread uses the paths: such a thread may still run when fio exits. */
void setup_leave(void)
{
	if (pthread_mutex_trylock(&kept.lock))
		return;
	if (kept.terms)
		forget();
	pthread_mutex_unlock(&kept.lock);
}

__attribute__((destructor)) static void leave_all(void)
{
	deadline_end();
	job_log_name(NULL);
	setup_leave();
}

/* Called in a child: a thread of the parent may hold the lock, and the paths are the parent's. */
static void begin_anew(void)
{
	pthread_mutex_init(&kept.lock, NULL);
	kept.terms = kept.job = NULL;
	kept.paths = (struct pool_paths){0};
}

/* Closes paths before a fork: fio has no hook for setup's end, and fio --server ends by _exit(). */
__attribute__((constructor)) static void leave_before_fork(void)
{
	pthread_atfork(leave_all, NULL, begin_anew);
}

/* Keeps the paths if this job can share them, else finds its own. The caller holds the lock. */
static int recall(struct thread_data *td)
{
	char *terms = terms_text(td);

	if (!terms)
		return -ENOMEM;
	if (kept.terms && !strcmp(kept.terms, terms)) {
		free(terms);
	} else {
		forget();
		kept.error = pool_paths_init(&kept.paths, td, 1);
		kept.terms = terms;
	}
	return kept.error ?: metadata_check_pool(td, &kept.paths.pool);
}

struct file_task {
	struct thread_data *td;
	struct fio_file *f;
	struct pool_paths *paths;
	struct path *path; /* the job's own */
	const char *name;
};

/* Calls `work` on a file over the job's own path, with the lock held. 0 or a negative errno. */
static int with_file(struct thread_data *td, struct fio_file *f,
		     int (*work)(struct file_task *task))
{
	struct file_task task = {.td = td, .f = f, .paths = &kept.paths};
	int error;

	pthread_mutex_lock(&kept.lock);
	deadline_setup(td);
	job_log_name(td->o.name);
	error = recall(td);
	if (!error) {
		free(kept.job);
		kept.job = strdup(td->o.name);
		error = terms_name(f, &task.paths->pool, &task.name);
	}
	if (!error)
		task.path = pool_paths_own(task.paths, td, &error);
	if (!error)
		error = work(&task);
	pthread_mutex_unlock(&kept.lock);
	if (job_of(td)) /* create_serialize=0: the job is open already */
		deadline_run(td);
	return error;
}

/* Returns 0, or sets td's error and returns 1. ENOENT, "a new file" to fio, becomes EINVAL. */
static int fail(struct thread_data *td, int error, const char *what)
{
	if (!error)
		return 0;
	td_verror(td, error == -ENOENT ? EINVAL : -error, what);
	return 1;
}

/*
 * The size that fio gets for a missing file. Without filesize= fio then gives the file a share of
 * size=. With a range of filesize= fio gets 0: it keeps a size within the range, and draws another
 * for any other, as for psync. With a single filesize= fio gets that size: offset=50% needs it.
 */
static uint64_t missing_size(const struct thread_data *td)
{
	const struct thread_options *o = &td->o;

	if (!o->file_size_low)
		return SIZE_UNKNOWN;
	return o->file_size_low == o->file_size_high ? o->file_size_low : 0;
}

static int find_size(struct file_task *task)
{
	struct fio_file *f = task->f;
	uint64_t size;
	int error;

	f->filetype = FIO_TYPE_FILE; /* whatever a local file of that name is */
	if (options_of(task->td)->metadata) {
		f->real_file_size = missing_size(task->td); /* prepopulate() looks for entries */
		return 0;
	}
	error = path_size(task->path, task->name, &size);
	if (!error) {
		f->real_file_size = size;
		fio_file_set_size_known(f);
		return 0;
	}
	if (error != -ENOENT)
		return error;
	f->real_file_size = missing_size(task->td);
	if (task->td->o.allow_create)
		return 0;
	job_log("%s: \"%s\" does not exist, and allow_file_create=0", task->path->config.label,
		task->name);
	return error;
}

int setup_file_size(struct thread_data *td, struct fio_file *f)
{
	return fail(td, terms_check(td) ?: with_file(td, f, find_size), "get_file_size");
}

static int lay_out(struct file_task *task, uint64_t from, uint64_t to, bool created)
{
	struct path *paths[LAYOUT_PATHS_MAX];
	int error;
	uint32_t count = pool_paths_all(task->paths, task->td, paths, LAYOUT_PATHS_MAX, &error);

	if (!error)
		error = layout_write(task->td, paths, count, task->name, from, to);
	if (error && created) { /* leave no file half laid out, even if the run is stopped */
		deadline_clear_up(task->td);
		path_remove(task->path, task->name);
		deadline_setup(task->td);
	}
	return error;
}

/* overwrite=1 allows changing an existing file if the user set it: fio sets it for all readers. */
static bool may_change(const struct file_task *task)
{
	struct thread_options *o = &task->td->o;

	return td_write(task->td) || (o->overwrite && fio_option_is_set(o, overwrite)) ||
	       own_file(&task->paths->pool, task->name);
}

/* Waits while a job with create_serialize=0, or on another host, lays the file out. Sets *size. */
static int await_others(struct file_task *task, uint64_t wanted, uint64_t *size)
{
	uint64_t grew = clock_now(), before = *size;
	int error = 0;

	while (!error && *size < wanted && !may_change(task) && clock_now() - grew < STANDSTILL) {
		error = wait_until(clock_now() + 100 * MSEC, deadline_passed);
		if (!error)
			error = path_size(task->path, task->name, size);
		if (*size > before)
			grew = clock_now();
		before = *size;
	}
	return error;
}

/* Lays out the rest of a short file, whoever made the file, if this job may change it. */
static int lay_out_rest(struct file_task *task, uint64_t size, uint64_t wanted)
{
	bool others = !task->td->o.create_serialize || is_backend;
	int error = others ? await_others(task, wanted, &size) : 0;

	if (error || size >= wanted)
		return error;
	if (may_change(task))
		return lay_out(task, size, wanted, false);
	job_log("%s: \"%s\" has %llu of %llu bytes, and a job that only reads does not change an "
		"existing file: give a smaller size=, another filename=, or overwrite=1, which "
		"lays out the rest",
		task->path->config.label, task->name, (unsigned long long)size,
		(unsigned long long)wanted);
	return -EINVAL;
}

/* True where a file that the job verifies must not be laid out: a short one, or with verify_only or
 * verify_state_load a missing one. Any other is laid out, as an earlier job may yet write it. */
static bool is_evidence(const struct thread_data *td, bool missing)
{
	return job_verifies(td) && !td->o.create_only &&
	       (!missing || td->o.verify_only || td->o.verify_state);
}

static int extend(struct file_task *task, uint64_t wanted)
{
	uint64_t size = 0;
	int error = path_size(task->path, task->name, &size);
	bool missing = error == -ENOENT, created = false;

	if (error && !missing)
		return error;
	if (size >= wanted || is_evidence(task->td, missing))
		return 0;
	if (read_only) {
		job_log("%s: \"%s\" has %llu of %llu bytes, and --readonly forbids laying it out",
			task->path->config.label, task->name, (unsigned long long)size,
			(unsigned long long)wanted);
		return -EROFS;
	}
	if (missing)
		error = path_create(task->path, task->name, &created);
	if (error)
		return error;
	if (!created)
		return lay_out_rest(task, size, wanted);
	own_file_add(&task->paths->pool, task->name);
	return lay_out(task, size, wanted, true);
}

/* Makes, or with meta_verify=1 only looks for, the entries that a metadata job needs; makes the
 * directories of entries that the job itself will make. */
static int make_entries(struct file_task *task)
{
	struct path *paths[LAYOUT_PATHS_MAX];
	uint64_t first = task->f->file_offset / task->td->o.min_bs[DDIR_READ];
	uint64_t entries;
	enum meta_op make;
	bool needs = metadata_needs_entries(task->td, &make);
	bool verify = options_of(task->td)->meta_verify;
	uint32_t count;
	int error = metadata_count(task->td, task->f, &entries);

	if (error)
		return error;
	task->paths->entries.count = entries;
	task->paths->entries.make = !verify && task->td->o.allow_create && !read_only;
	count = pool_paths_all(task->paths, task->td, paths, LAYOUT_PATHS_MAX, &error);
	if (!error && verify)
		error = verify_entries(task->td, paths, count, task->name, first, entries);
	else if (!error)
		error = layout_entries(task->td, paths, count, task->name, needs ? first : 0,
				       needs ? entries : 0, make);
	return error;
}

static int prepopulate(struct file_task *task)
{
	struct thread_data *td = task->td;
	struct fio_file *f = task->f;
	uint64_t wanted = f->file_offset + f->io_size;
	/* The job reads what it has not written: fio's rule (filesetup.c, extend_file()). A job
	 * with create_only opens no file: only the setup can make its files. */
	bool wants_data = td_read(td) || td->o.overwrite || td->o.create_only;
	int error = 0;

	if (options_of(td)->metadata)
		error = make_entries(task);
	else if (wants_data && !td->o.create_on_open)
		error = extend(task, wanted);
	/* fio does I/O only below real_file_size, even if another job makes the file longer. */
	if (!error && (f->real_file_size == SIZE_UNKNOWN || f->real_file_size < wanted))
		f->real_file_size = wanted;
	return error;
}

int setup_prepopulate(struct thread_data *td, struct fio_file *f)
{
	return fail(td, with_file(td, f, prepopulate), "prepopulate_file");
}

static int unlink_name(struct file_task *task)
{
	return path_remove(task->path, task->name);
}

int setup_unlink(struct thread_data *td, struct fio_file *f)
{
	return -with_file(td, f, unlink_name);
}

static int drop_cache(struct file_task *task)
{
	return path_drop_cache(task->path, task->name);
}

int setup_invalidate(struct thread_data *td, struct fio_file *f)
{
	return -with_file(td, f, drop_cache);
}
