/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * deadline.h - how long an ending job still waits for a server. The state is per thread.
 *
 * A job ends because a signal told it to, or because its runtime is over: fio sets td->terminate in
 * both cases. After a signal the job ends soon, whatever the server does. After its runtime the job
 * lets I/O under way finish: a COMMIT of gigabytes or a READ of a slow disk may take a while. A job
 * that exitall, exitall_on_error or steadystate may end lets I/O finish even after a signal.
 *
 * When fio's main process ends, for any reason, jobs that are processes end as after SIGTERM.
 */
#pragma once

#include "fio.h"

/* From now on this thread works for `td`: sets up files in fio's main process, or runs the job. */
void deadline_setup(struct thread_data *td);
void deadline_run(struct thread_data *td);
/* Called when a failed setup removes its file: a job that was told to end gets 2 s for that. */
void deadline_clear_up(struct thread_data *td);
/* The thread works for no job. A deadline remains only if the last job was told to end. */
void deadline_end(void);

/* True where a signal told the job to end, as far as fio's state shows. */
bool deadline_told(void);

/* True: waits for names end 2 s after a signal (setup: 0), 60 s after the first past runtime. */
bool deadline_passed(void);

/* True 4 s after a signal: then the job does not even close its state at the server. */
bool deadline_over(void);

/* True where this process is a job, and fio's main process has ended. */
bool deadline_orphaned(void);

/* fio sets the epoch when the job is open: its runtime begins then. */
static inline bool deadline_begun(const struct thread_data *td)
{
	return td->epoch.tv_sec || td->epoch.tv_nsec;
}

static inline bool deadline_runtime_over(const struct thread_data *td)
{
	return td->o.timeout && deadline_begun(td) &&
	       utime_since_now(&td->epoch) >= td->o.timeout + td->o.ramp_time;
}

/* True once the job is to end, by a signal or by its runtime. */
static inline bool deadline_set(const struct thread_data *td)
{
	return td->terminate || deadline_runtime_over(td);
}

/*
 * Called before and after each wait of an ending job, to notice a signal during the wait. fio's
 * handler only sets td->terminate: listen() clears that and returns its value, which heard() takes
 * and restores.
 */
bool deadline_listen(struct thread_data *td);
void deadline_heard(struct thread_data *td, bool ended);

/*
 * Called after each wait for I/O of an ending job. True: the job must abort its outstanding I/O.
 * `progress`: an I/O completed. `reachable`: the host of a server that owes a reply is reachable,
 * even if the server is silent.
 */
bool deadline_io_passed(bool progress, bool reachable);
