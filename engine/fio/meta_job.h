/* SPDX-License-Identifier: GPL-2.0-only */
/* meta_job.h - what a metadata job keeps beside its I/O: which operation each one is, and figures
 * of each kind of operation. */
#ifndef NFSMULTI_META_JOB_H
#define NFSMULTI_META_JOB_H

#include "fio.h"

#include "conn/meta.h"
#include "stats/operations.h"

/* One I/O of fio. */
struct meta_request {
	enum meta_op op;
	uint64_t begun; /* clock_now() when it went to the connections */
};

struct meta_job {
	struct meta_request *requests;		 /* by io_u->index */
	struct operations *operations[META_OPS]; /* NULL: the job has none of that kind */
	uint64_t begun, ended; /* when the first one began, and when the latest ended */
	uint64_t now;	       /* the caller's: clock_now(), one reading serves a batch */
};

/* NULL: out of memory. */
struct meta_job *meta_job_new(const struct thread_data *td);
void meta_job_free(struct meta_job *meta);

/* fio has queued an I/O: decides what it does. */
void meta_job_begins(struct meta_job *meta, const struct thread_data *td, const struct io_u *io_u);

/* They went to the connections at meta->now. */
void meta_job_issued(struct meta_job *meta, struct io_u *const *io_us, uint32_t count);

/* It has ended at meta->now, with 0 or a positive errno. */
void meta_job_ends(struct meta_job *meta, const struct io_u *io_u, int error);

static inline const struct meta_request *meta_job_request(const struct meta_job *meta,
							  const struct io_u *io_u)
{
	return &meta->requests[io_u->index];
}

#endif
