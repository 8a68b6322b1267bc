/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * patience.h - how long a job that is to end still waits for a server. Per thread.
 *
 * A job ends because a signal told it to, or because its runtime is over: fio sets td->terminate in
 * both cases. The first ends soon whatever the server does. The second lets what is under way
 * finish, as long as something does: a COMMIT of gigabytes may well take a while.
 */
#ifndef NFSMULTI_PATIENCE_H
#define NFSMULTI_PATIENCE_H

#include "fio.h"

/* This thread works for `td` from now on: to set its files up, in fio's parent, or to run it. */
void patience_setup(struct thread_data *td);
void patience_run(struct thread_data *td);
/* For nobody: nothing tells it to end. */
void patience_end(void);

/* The job was told to end. */
bool patience_told(void);

/* It was, some time ago: what waits for a name-space operation gives up. */
bool patience_stopped(void);

/* Its runtime is over. */
bool patience_over(void);

/*
 * Called after each wait for I/O, with what it brought: true where what is outstanding is to be
 * given up. `alive`: nothing but COMMITs is, and the server answers other calls.
 */
bool patience_lost(bool progress, bool alive);

#endif
