/* SPDX-License-Identifier: GPL-2.0-only */
#include "verify_entries.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine_options.h"
#include "nfs/entries.h"
#include "nfs/meta_io.h"
#include "pass.h"
#include "job_log.h"
#include "util.h"

/* What was found of one entry. */
enum { FIRST_NAME = 1 << 0, OTHER_NAME = 1 << 1, AGAIN = 1 << 2 };

struct verification {
	struct pass pass;
	const struct entries *entries; /* of one path: names are the same on all */
	uint8_t *found;		       /* by entry */
	bool two_names;		       /* an entry may have both */
};

/* --- names --- */

/* The entries that lie in the same directory: from *begin to before *end. */
static void range_of(const struct verification *all, uint64_t entry, uint64_t *begin, uint64_t *end)
{
	const struct entries_terms *terms = &all->entries->terms;
	uint64_t count = terms->depth ? terms->per_directory : terms->count;

	*begin = entry / count * count;
	*end = min_of(*begin + count, terms->count);
}

/* meta_io's listed(): a name that the listing of entry io->offset's directory brings. */
static void take_name(struct conn_io *io, const char *name, uint32_t length)
{
	struct verification *all = io->owner;
	uint64_t entry, begin, end;
	uint8_t bit;
	bool other;

	range_of(all, io->offset, &begin, &end);
	if (!name) {
		memset(all->found + begin, 0, end - begin);
		return;
	}
	if (!entries_number(all->entries, name, length, &entry, &other) || entry < begin ||
	    entry >= end)
		return;
	bit = other ? OTHER_NAME : FIRST_NAME;
	all->found[entry] |= all->found[entry] & bit ? AGAIN : bit;
}

static uint64_t list_directory(struct pass *pass, struct conn_io *io, uint64_t entry)
{
	struct verification *all = container_of(pass, struct verification, pass);
	uint64_t begin, end;

	*io->meta = (struct meta_io){.op = META_READDIR, .listed = take_name};
	*io = (struct conn_io){
		.op = IO_META,
		.meta = io->meta,
		.offset = entry,
		.owner = all,
	};
	pass_submit(pass, io);
	range_of(all, entry, &begin, &end);
	return end;
}

/* --- the result --- */

/* A number of entries, and the first of them. */
struct count {
	uint64_t count, first;
};

static void count_one(struct count *count, uint64_t entry)
{
	if (!count->count++)
		count->first = entry;
}

static void say_wrong(const struct pass *pass, const struct count *missing,
		      const struct count *twice)
{
	uint64_t count = pass->end - pass->first;

	if (!twice->count)
		job_log("meta_verify=1: \"%s\": of %" PRIu64 " entries %" PRIu64
			" missing: entry %" PRIu64 " is the first",
			pass->name, count, missing->count, missing->first);
	else if (!missing->count)
		job_log("meta_verify=1: \"%s\": of %" PRIu64 " entries %" PRIu64
			" duplicate: entry %" PRIu64 " is the first",
			pass->name, count, twice->count, twice->first);
	else
		job_log("meta_verify=1: \"%s\": of %" PRIu64 " entries %" PRIu64
			" missing: entry %" PRIu64 " is the first; %" PRIu64
			" duplicate: entry %" PRIu64 " is the first",
			pass->name, count, missing->count, missing->first, twice->count,
			twice->first);
}

static int judge(const struct verification *all)
{
	struct count missing = {0}, twice = {0};

	for (uint64_t i = all->pass.first; i < all->pass.end; i++) {
		const uint8_t both = FIRST_NAME | OTHER_NAME, found = all->found[i];

		if (!found)
			count_one(&missing, i);
		else if (found & AGAIN || (found == both && !all->two_names))
			count_one(&twice, i);
	}
	if (!missing.count && !twice.count)
		return 0;
	say_wrong(&all->pass, &missing, &twice);
	return missing.count ? -ENOENT : -EEXIST;
}

static int list_and_judge(struct verification *all, uint64_t first, uint64_t end)
{
	struct pass *pass = &all->pass;
	int error;

	for (uint32_t i = 0; !all->entries && i < pass->group.path_count; i++)
		all->entries = pass->group.paths[i]->files[0].entries; /* failover: or the next's */
	error = pass_run(pass, list_directory, first, end);
	if (!error)
		return judge(all);
	if (error != -EINTR)
		job_log("meta_verify=1: listing the directory of entry %" PRIu64
			" below \"%s\": %s%s%s",
			pass->failed_at, pass->name, strerror(-error), pass->status ? ": " : "",
			pass->status ?: "");
	return error;
}

int verify_entries(struct thread_data *td, struct path **paths, uint32_t path_count,
		   const char *name, uint64_t first, uint64_t end)
{
	struct verification all = {
		.pass = {.td = td, .name = name, .depth = td->o.iodepth},
		.found = calloc(end, 1),
		.two_names = options_of(td)->meta_write == META_LINK,
	};
	int error = -ENOMEM;

	if (all.found)
		error = pass_open(&all.pass, paths, path_count);
	if (!error) {
		error = list_and_judge(&all, first, end);
		pass_close(&all.pass);
	}
	free(all.found);
	return error;
}
