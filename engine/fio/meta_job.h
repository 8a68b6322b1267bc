/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * meta_job.h - metadata=1: applies fio's options for data to entries, decides which operation each
 * I/O does on which entry, and counts each kind of operation.
 *
 * fio's file is a directory, and its block is an entry. A read does the operation of meta_read=, a
 * write that of meta_write=, and a trim removes an entry; with meta_mix= reads and writes do
 * operations of the mix.
 *
 * With meta_mix= a job makes and removes entries beside its own, so that each read finds its entry.
 * A removal takes the oldest entry that the job has made beside its own; if there is none, the I/O
 * makes one first, and counts as two operations.
 */
#pragma once

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
	bool beside;		    /* meta_mix=: makes and removes entries beside the job's */
};

/* True where an I/O may do `op`. A removal makes an entry first where it finds none to remove. */
bool meta_mix_does(const struct meta_mix *mix, enum meta_op op);

/* What an I/O of fio does, in its request. */
struct meta_choice {
	enum meta_op op;
	enum meta_op removes; /* META_REMOVE or META_RMDIR, if that follows `op`; else `op` */
	uint64_t entry;
	uint64_t begun; /* clock_now() when it was sent, or due to be sent */
};

/* The kinds of entries that a mix makes beside the job's. */
enum made_kind { MADE_FILES, MADE_DIRECTORIES };
enum { MADE_KINDS = MADE_DIRECTORIES + 1 };

/* A ring of the entries that a mix has made and not removed, oldest first. All zeros: empty. */
struct made {
	uint64_t *entries; /* `size` of them */
	uint64_t first, count, size;
};

struct meta_job {
	const struct thread_data *td;
	const struct entries_terms *terms; /* of the entries of all files, except their count */

	uint64_t begun, ended; /* when the first operation began, and the latest ended */
	uint64_t now;	       /* set by the caller: clock_now(), once for a batch */

	struct meta_mix mix;
	struct frand_state random;
	struct made (*made)[MADE_KINDS]; /* by file */
	uint64_t turn;			 /* numbers the entries beside the job's */
	uint64_t made_first;		 /* entries that removals had to make first */

	struct operations operations[META_OPS];
};

/* NULL: out of memory. `terms` must outlive the result. */
struct meta_job *meta_job_new(const struct thread_data *td, const struct entries_terms *terms);
void meta_job_free(struct meta_job *meta);

/* The terms of a file's entries. */
struct entries_terms meta_job_terms(const struct meta_job *meta, const struct fio_file *f);

/* Called when fio has queued an I/O: chooses the I/O's operation and entry. */
void meta_job_begins(struct meta_job *meta, struct meta_choice *choice, const struct io_u *io_u);

/* Called when the I/O was sent: at `now`, clock_now(), `lag` nanoseconds after it was due. */
void meta_job_issued(struct meta_job *meta, struct meta_choice *choice, uint64_t now, uint64_t lag);

/* Called when the I/O's operation has ended at meta->now, with 0 or a positive errno. True: the
 * caller must send the I/O's next operation. */
bool meta_job_ends(struct meta_job *meta, struct meta_choice *choice, const struct io_u *io_u,
		   int error);

/* meta_mix=: how many entries of a kind the job has made beside its own and not removed. */
uint64_t meta_job_left(const struct meta_job *meta, enum made_kind kind);

/* --- fio's options, applied to entries --- */

/* Refuse options or a pool that a metadata job cannot use. 0 or a negative errno, logged. */
int metadata_check(struct thread_data *td);
int metadata_check_pool(const struct thread_data *td, const struct pool *pool);

/* Fills in the terms of the job's entries, except their number. */
void metadata_terms(const struct thread_data *td, struct entries_terms *terms);

/* Sets *count to the number of entries in a file, up to the end of the job's part of the file. 0 or
 * a negative errno, logged. */
int metadata_count(const struct thread_data *td, const struct fio_file *f, uint64_t *count);

/* The kind that an operation's entry must have (meta_verify=1); type 0: any kind. */
struct meta_kind metadata_expected(const struct thread_data *td, enum meta_op op);

/* True where entries must exist before the job begins; *make is the operation that makes them. */
bool metadata_needs_entries(const struct thread_data *td, enum meta_op *make);

/* Logs which entry failed over which path, why, and what to do. */
void metadata_say_failed(const struct thread_data *td, const struct request *request);
