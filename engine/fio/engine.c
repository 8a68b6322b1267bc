/* SPDX-License-Identifier: GPL-2.0-only */
/* engine.c - the hooks that fio calls. Those for I/O are in job_io.c; those here only convert
 * arguments and results. */
#include <errno.h>

#include "abi.h"
#include "job_terms.h"
#include "job.h"
#include "job_log.h"
#include "setup.h"

static struct ioengine_ops engine;

static int hook_init(struct thread_data *td)
{
	/* If struct thread_data has another layout, td->io_ops reads another member. */
	if (td->io_ops != &engine) {
		job_log("this fio's struct thread_data is not the one the engine was built for: "
			"rebuild the engine");
		return EINVAL;
	}
	setup_leave();
	return -job_open(td);
}

/* Called when fio has allocated its I/O buffers. */
static int hook_post_init(struct thread_data *td)
{
	job_of(td)->group.job.buffers[RPC_BUFFER_IO] =
		(struct iovec){td->orig_buffer, td->orig_buffer_size};
	return 0;
}

static void hook_cleanup(struct thread_data *td)
{
	setup_leave(); /* create_only=1 calls no open_file */
	job_close(job_of(td));
}

/* Called before fio frees its buffers. */
static void hook_io_u_free(struct thread_data *td, struct io_u *io_u)
{
	if (job_of(td))
		job_drain(job_of(td));
}

static int failed(struct thread_data *td, int error, const char *what)
{
	if (!error)
		return 0;
	td_verror(td, -error, what);
	return 1;
}

static int hook_open_file(struct thread_data *td, struct fio_file *f)
{
	setup_leave(); /* create_serialize=0 sets files up after init */
	return failed(td, job_open_file(job_of(td), f), "open_file");
}

static int hook_close_file(struct thread_data *td, struct fio_file *f)
{
	return failed(td, job_close_file(job_of(td), f), "close_file");
}

static int hook_unlink_file(struct thread_data *td, struct fio_file *f)
{
	int error = job_of(td) ? -job_unlink(job_of(td), f) : setup_unlink(td, f);

	if (error) /* fio ignores the result */
		td_verror(td, error, "unlink_file");
	return error;
}

static int hook_invalidate(struct thread_data *td, struct fio_file *f)
{
	return job_of(td) ? -job_invalidate(job_of(td), f) : setup_invalidate(td, f);
}

#ifdef HAVE_FIO_SYNCFS
enum { SYNCFS = FIO_SYNCFS };
#else
enum { SYNCFS = 0 };
#endif

static struct ioengine_ops engine = {
	.name = "nfsmulti",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL | FIO_NO_OFFLOAD |
		 FIO_ASYNCIO_SETS_ISSUE_TIME | SYNCFS,
	.init = hook_init,
	.post_init = hook_post_init,
	.io_u_free = hook_io_u_free,
	.cleanup = hook_cleanup,
	.queue = job_queue,
	.commit = job_commit,
	.getevents = job_getevents,
	.event = job_event,
	.open_file = hook_open_file,
	.close_file = hook_close_file,
	.unlink_file = hook_unlink_file,
	.invalidate = hook_invalidate,
	.get_file_size = setup_file_size,
	.prepopulate_file = setup_prepopulate,
	.option_struct_size = sizeof(struct terms),
	.options = engine_option_table,
};

/* The one symbol that the library exports: fio looks it up. */
__attribute__((visibility("default"))) void get_ioengine(struct ioengine_ops **ops);

void get_ioengine(struct ioengine_ops **ops)
{
	char why[ABI_WHY_MAX];

	job_log_begin(); /* fio calls us for each job, and by the last call has opened --output */
	*ops = NULL;	 /* fio then says "not loadable" and exits with 1 */
	if (abi_check(why, sizeof(why)))
		job_log("%s", why);
	else
		*ops = &engine;
}
