/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * deadline.h - how long a job that is to end still waits for a server. Per thread.
 *
 * A job ends because a signal told it to, or because its runtime is over: fio sets td->terminate in
 * both cases. After a signal the job ends soon, whatever the server does. After its runtime the job
 * lets I/O under way finish: a COMMIT of gigabytes or a READ of a slow disk may take a while. A job
 * that exitall, exitall_on_error or steadystate may end lets it finish after a signal, too.
 *
 * A job that is a process ends when fio has ended, however that ended, as if by SIGTERM.
 */
#pragma once

#include "fio.h"

/* This thread works for `td` from now on: to set its files up, in fio's parent, or to run it. */
void deadline_setup(struct thread_data *td);
void deadline_run(struct thread_data *td);
/* The thread clears up after setting up: a job that is to end still has some seconds for names. */
void deadline_clear_up(struct thread_data *td);
/* The thread works for no job. A deadline stays only where the last job was told to end. */
void deadline_end(void);

/* A signal told the job to end, as far as can be known from fio. */
bool deadline_told(void);

/* The job was told some time ago, or its runtime has long been over: names are given up. */
bool deadline_passed(void);

/* The job was told long ago: no time is left for telling the server of its end. */
bool deadline_over(void);

/* This process is a job, and was told to end because fio has ended. */
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

/* The job is to end, for either reason; from then on this stays true. */
static inline bool deadline_set(const struct thread_data *td)
{
	return td->terminate || deadline_runtime_over(td);
}

/*
 * Called before and after a wait of a job that is to end, so that a signal during the wait is seen:
 * where td->terminate is set already, fio's handler changes nothing, so listen() clears it and
 * heard() sets it again. heard() takes what listen() returned.
 */
bool deadline_listen(struct thread_data *td);
void deadline_heard(struct thread_data *td, bool ended);

/*
 * Called after each wait for I/O of a job that is to end. True: give up what is outstanding.
 * `progress`: something completed. `reachable`: a host that owes an answer is reachable, whether or
 * not its server answers.
 */
bool deadline_io_passed(bool progress, bool reachable);
