/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job_io.h - fio's way of doing I/O: queue, commit, getevents, event. A READ becomes pieces in
 * job_queue() and leaves in job_commit() or in job_getevents(), which also takes the replies in;
 * pieces.c is all that lies between that and the connections.
 */
#pragma once

#include "job.h"

/* Queues an I/O; nothing is sent yet. */
enum fio_q_status job_queue(struct thread_data *td, struct io_u *io_u);

/*
 * After each I/O that fio queues: sends what should not wait for getevents(). Where fio may sleep
 * next, blocks until all is sent, for a sync also until the writes before it are done. Returns 0.
 */
int job_commit(struct thread_data *td);

/*
 * Sends what was queued, waits until at least `min` I/Os are complete, and returns how many are.
 * `timeout` NULL: no limit. -EIO where fewer than `min` are left to wait for.
 */
int job_getevents(struct thread_data *td, unsigned int min, unsigned int max,
		  const struct timespec *timeout);

/* Takes the next complete I/O, of those that job_getevents() has counted. */
struct io_u *job_event(struct thread_data *td, int number);

/*
 * Waits for everything outstanding where fio no longer does: at the end of a replayed log fio
 * leaves I/O in flight. An I/O that fails fails the job. fio may free its buffers afterwards.
 */
void job_drain(struct job *job);

/*
 * Sends what fio has queued, and waits for I/O under way on one file, before the file is opened,
 * closed or removed: at the end of a log fio does so with I/O in flight.
 */
void job_settle_file(struct job *job, uint32_t file);

/* Makes one file durable and waits for that. 0 or a negative errno, logged. */
int job_sync_file(struct job *job, uint32_t file);
