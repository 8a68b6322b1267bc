/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job_io.h - fio's hooks for I/O: queue, commit, getevents, event. job_queue() cuts an I/O into
 * pieces; job_commit() or job_getevents() sends them, and job_getevents() takes the replies. Only
 * pieces.c submits this I/O to connections.
 */
#pragma once

#include "job.h"

/* Queues an I/O; sends nothing of it yet. FIO_Q_BUSY: by the arrival clock the I/O is not due. */
enum fio_q_status job_queue(struct thread_data *td, struct io_u *io_u);

/*
 * Called after iodepth_batch= I/Os: sends those that must not wait for getevents(). If fio may
 * sleep next, blocks until all is sent; a sync is sent only after the writes before it. Returns 0.
 */
int job_commit(struct thread_data *td);

/*
 * Sends what was queued, waits until at least `min` I/Os are complete, and returns how many are.
 * Returns sooner after `timeout`, unless that is NULL, or when an I/O has become due (arrival
 * clock). -EIO where fewer than `min` are left to wait for.
 */
int job_getevents(struct thread_data *td, unsigned int min, unsigned int max,
		  const struct timespec *timeout);

/* Takes the next complete I/O, of those that job_getevents() has counted. */
struct io_u *job_event(struct thread_data *td, int number);

/* Waits for all outstanding I/O: at the end of a replayed log fio leaves I/O in flight. A failed
 * I/O fails the job. Afterwards fio may free its buffers. */
void job_drain(struct job *job);

/* Sends what fio has queued, and waits for I/O under way on one file, before the file is opened,
 * closed or removed: at the end of a replayed log fio does so with I/O in flight. */
void job_settle_file(struct job *job, uint32_t file);

/* Makes one file durable and waits for that. 0 or a negative errno, logged. */
int job_sync_file(struct job *job, uint32_t file);
