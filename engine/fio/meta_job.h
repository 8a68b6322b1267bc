/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * meta_job.h - metadata=1: what fio's words for data mean for entries (metadata.c), and what such a
 * job keeps beside its I/O: which operation each I/O is, on which entry, and figures of each kind
 * of operation (meta_job.c).
 *
 * A file is a directory, and a block is an entry. A read is meta_read=, a write is meta_write= and
 * a trim a removal; or reads and writes are operations of meta_mix=.
 *
 * With meta_mix= a job makes and removes entries beside its own, so that the entries that it reads
 * stay. A removal takes the oldest entry that the job has made; where there is none, the job makes
 * one first, and the I/O is two operations.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "job_terms.h"
#include "fio.h"
#include "nfs/entries.h"
#include "nfs/meta.h"
#include "pool/pool.h"
#include "stats/counters.h"

struct request;

/*
 * Which operations a metadata job does, and how often: by meta_mix=, or one for reads and one for
 * writes or trims.
 */
struct meta_mix {
	uint32_t weights[META_OPS]; /* 0: not in the mix */
	uint32_t reads, writes;	    /* sums of the weights */
	bool beside;		    /* what is made and removed lies beside the job's entries */
};

/* The job's mix. 0, or -EINVAL, logged. */
int meta_mix_of(const struct thread_data *td, struct meta_mix *mix);

/* Refuses what does not fit its mix, and sets fio's rwmixread from it. 0 or -EINVAL, logged. */
int meta_mix_check(struct thread_data *td);

/* True where an I/O may do `op`. A removal that finds nothing to remove first makes an entry. */
bool meta_mix_does(const struct meta_mix *mix, enum meta_op op);

/* One I/O of fio, in its request. */
struct meta_request {
	enum meta_op op;
	enum meta_op removes; /* META_REMOVE or META_RMDIR, where it is to follow `op`; else `op` */
	uint64_t entry;
	uint64_t begun; /* clock_now() when it went to the connections, or should have gone */
};

/* What a mix makes beside the job's entries. */
enum made_kind { MADE_FILES, MADE_DIRECTORIES };
enum { MADE_KINDS = MADE_DIRECTORIES + 1 };

/* Entries that a mix has made and not yet removed, the oldest first: a ring, of zeros at first. */
struct made {
	uint64_t *entries; /* `size` of them */
	uint64_t first, count, size;
};

struct meta_job {
	const struct thread_data *td;
	const struct entries_terms *terms; /* of all files, but for their count */

	uint64_t begun, ended; /* when the first operation began, and the latest ended */
	uint64_t now;	       /* the caller's: clock_now(), one reading serves a batch */

	struct meta_mix mix;
	struct frand_state random;
	struct made (*made)[MADE_KINDS]; /* by file */
	uint64_t turn;			 /* of the next entry beside the job's */
	uint64_t made_first;		 /* entries that removals had to make first */

	struct operations operations[META_OPS];
};

/* NULL: out of memory. `terms` must outlive the result. */
struct meta_job *meta_job_new(const struct thread_data *td, const struct entries_terms *terms);
void meta_job_free(struct meta_job *meta);

/* The terms of a file's entries. */
struct entries_terms meta_job_terms(const struct meta_job *meta, const struct fio_file *f);

/* fio has queued an I/O: decides what it does. */
void meta_job_begins(struct meta_job *meta, struct meta_request *request, const struct io_u *io_u);

/* The I/O went to the connections at `now`, clock_now(), `lag` nanoseconds after it was due. */
void meta_job_issued(struct meta_job *meta, struct meta_request *request, uint64_t now,
		     uint64_t lag);

/*
 * The I/O's operation has ended at meta->now, with 0 or a positive errno. True: another operation
 * follows, which is to go to the connections.
 */
bool meta_job_ends(struct meta_job *meta, struct meta_request *request, const struct io_u *io_u,
		   int error);

/* meta_mix=: entries of a kind that the job has made beside its own, and not removed. */
uint64_t meta_job_left(const struct meta_job *meta, enum made_kind kind);

/* --- metadata.c --- */

/* Refuse what such a job cannot do: 0 or a negative errno, logged. */
int metadata_check(struct thread_data *td);
int metadata_check_pool(const struct thread_data *td, const struct pool *pool);

/* The terms of the job's entries, without their number. */
void metadata_terms(const struct thread_data *td, struct entries_terms *terms);

/* The number of entries that a file needs: up to the end of the job's part of the file. 0 or a
 * negative errno, logged. */
int metadata_count(const struct thread_data *td, const struct fio_file *f, uint64_t *count);

/* The kind that an operation's entry must have; of type 0: any kind. */
struct meta_kind metadata_expected(const struct thread_data *td, enum meta_op op);

/* True where entries must be there before the job begins; *make is the operation that makes one. */
bool metadata_needs_entries(const struct thread_data *td, enum meta_op *make);

/* Says which entry failed over which path, why, and what can be done. */
void metadata_say_failed(const struct thread_data *td, const struct request *request);
