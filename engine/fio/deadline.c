/* SPDX-License-Identifier: GPL-2.0-only */
#include "deadline.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "util.h"

/* After the job was told to end: */
static const uint64_t NAMES_GRACE = 2 * SEC; /* for names, such as an unlink */
static const uint64_t IO_GRACE = 3 * SEC;
static const uint64_t END_GRACE = 4 * SEC; /* for closing state at the server */
/* After the runtime: */
static const uint64_t OUT_OF_REACH = 3 * SEC; /* no host is reachable */
static const uint64_t IO_MAX = 60 * SEC;      /* a host is reachable, but nothing completes */
static const uint64_t NAMES_MAX = 60 * SEC;   /* for names */

static __thread struct {
	struct thread_data *td;
	bool setup;
	uint64_t told_at;     /* when the job was told to end; 0: not yet */
	uint64_t alone_since; /* since when no host is reachable; 0: one is reachable */
	uint64_t idle_since;  /* since when no I/O has completed; 0: one just has */
	uint64_t names_since; /* when the job first waited for names after its end; 0: never */
} here;

static pid_t forker;			/* the process that forked last: this one, or its parent */
static struct thread_data *process_job; /* the job that this process is; else NULL */
static volatile sig_atomic_t orphaned;

bool deadline_orphaned(void)
{
	return orphaned;
}

/*
 * From now on this process gets signal `number` when fio ends, even if fio has ended already. The
 * kernel sends the signal when the thread that forked ends: fio's main thread. Other threads of fio
 * may then still run, and getppid(2) still returns fio.
 */
static void end_with_fio(int number)
{
	prctl(PR_SET_PDEATHSIG, number);
	if (forker && forker != getpid() && forker != getppid())
		raise(number);
}

/* Used instead of fio's SIGTERM handler, which formats a line: within malloc(3) that deadlocks. */
static void on_end_of_fio(int number)
{
	orphaned = process_job->terminate = true;
}

static void note_forker(void)
{
	forker = getpid();
}

/* Uses SIGKILL, since until fio lets its jobs begin, they have nothing to lose, and only a signal
 * ends their wait for fio. Leaves out a fio server's child, which forks the jobs, and its jobs. */
static void begin_as_child(void)
{
	if (!is_backend)
		end_with_fio(SIGKILL);
}

__attribute__((constructor)) static void look_at_forks(void)
{
	pthread_atfork(note_forker, NULL, begin_as_child);
}

static void begin(struct thread_data *td, bool setup)
{
	memset(&here, 0, sizeof(here));
	here.td = td;
	here.setup = setup;
}

void deadline_setup(struct thread_data *td)
{
	begin(td, true);
}

void deadline_run(struct thread_data *td)
{
	begin(td, false);
	if (td->o.use_thread)
		return;
	process_job = td;
	signal(SIGRTMAX, on_end_of_fio);
	end_with_fio(SIGRTMAX);
}

void deadline_clear_up(struct thread_data *td)
{
	begin(td, false);
	here.told_at = td->terminate ? clock_now() : 0;
}

void deadline_end(void)
{
	uint64_t told_at = here.told_at;

	begin(NULL, false);
	here.told_at = told_at;
}

/* Other jobs, or steadystate, may end this job: fio sets td->terminate as after a signal. */
static bool others_may_end(const struct thread_data *td)
{
	return exitall_on_terminate || td->o.exitall_error || td->o.ss_dur;
}

/* True where the runtime, another job or steadystate may have ended the job. Before the job is
 * open, only a signal can. */
static bool may_end_by_itself(const struct thread_data *td)
{
	return deadline_runtime_over(td) || (deadline_begun(td) && others_may_end(td));
}

bool deadline_told(void)
{
	if (!here.td || here.told_at)
		return here.told_at;
	if (here.td->terminate && (here.setup || !may_end_by_itself(here.td) || orphaned))
		here.told_at = clock_now();
	return here.told_at;
}

/* True where `condition` has held for more than `most`. *since: when that began, or 0. */
static bool lasts(bool condition, uint64_t *since, uint64_t now, uint64_t most)
{
	if (!condition)
		*since = 0;
	else if (!*since)
		*since = now;
	return *since && now - *since > most;
}

bool deadline_passed(void)
{
	if (deadline_told())
		return here.setup || clock_now() - here.told_at > NAMES_GRACE;
	return here.td && lasts(deadline_set(here.td), &here.names_since, clock_now(), NAMES_MAX);
}

bool deadline_over(void)
{
	return deadline_told() && clock_now() - here.told_at > END_GRACE;
}

bool deadline_listen(struct thread_data *td)
{
	bool ended = td->terminate;

	if (!others_may_end(td))
		td->terminate = false;
	return ended;
}

void deadline_heard(struct thread_data *td, bool ended)
{
	if (td->terminate && !others_may_end(td) && !here.told_at)
		here.told_at = clock_now();
	if (ended)
		td->terminate = true;
}

bool deadline_io_passed(bool progress, bool reachable)
{
	bool alone, idle;
	uint64_t now;

	if (deadline_told())
		return clock_now() - here.told_at > IO_GRACE;
	if (progress) {
		here.alone_since = here.idle_since = 0;
		return false;
	}
	now = clock_now();
	alone = lasts(!reachable, &here.alone_since, now, OUT_OF_REACH);
	idle = lasts(true, &here.idle_since, now, IO_MAX);
	return alone || idle;
}
