/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * metadata.h - metadata=1: what fio's words for data mean for entries. A file is a directory, and a
 * block is an entry. A read is meta_read=, a write is meta_write= and a trim a removal; or reads
 * and writes are operations of meta_mix=.
 */
#pragma once

#include "job_terms.h"
#include "fio.h"
#include "group/path.h"
#include "nfs/entries.h"
#include "nfs/meta.h"
#include "pool/pool.h"

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
struct request;
void metadata_say_failed(const struct thread_data *td, const struct request *request);

/* --- meta_verify=1: are all entries there --- */

/*
 * Lists each directory below directory `name` that holds entries, over all the given paths at once,
 * `iodepth` directories at a time, and looks for the names of entries `first` to `end` - 1. Creates
 * nothing. 0 or a negative errno, logged: -ENOENT where an entry is missing,
 * -EEXIST where one is there twice, -EINTR where the run was stopped.
 */
int verify_entries(struct thread_data *td, struct path **paths, uint32_t path_count,
		   const char *name, uint64_t first, uint64_t end);
