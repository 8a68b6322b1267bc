/* SPDX-License-Identifier: GPL-2.0-only */
#include "verify_entries.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn/group.h"
#include "deadline.h"
#include "engine_options.h"
#include "nfs/entries.h"
#include "say.h"
#include "util.h"

enum { DEPTH_MAX = 1024 };

/* What was found of one entry. */
enum { FIRST_NAME = 1 << 0, OTHER_NAME = 1 << 1, AGAIN = 1 << 2 };

struct verification {
	struct group group;
	struct conn_io ios[DEPTH_MAX];
	struct io_list idle;
	const struct entries *entries; /* of the first path: names are the same on all */
	uint8_t *found;		       /* by entry */
	uint64_t first, end;
	uint64_t next;	    /* an entry of the next directory to be listed */
	uint32_t turn;	    /* the connection whose turn it is */
	bool two_names;	    /* an entry may have both */
	int error;	    /* the first, positive … */
	const char *status; /* … in the server's words … */
	uint64_t entry;	    /* … of the directory that holds this one */
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

/* conn_io's listed(): a name that the listing of entry io->offset's directory brings. */
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

/* --- listings --- */

static void submit(struct verification *all, struct conn_io *io)
{
	uint64_t begin;

	*io = (struct conn_io){
		.op = IO_META,
		.meta = META_READDIR,
		.offset = all->next,
		.owner = all,
		.listed = take_name,
	};
	range_of(all, all->next, &begin, &all->next);
	group_submit(&all->group, all->turn++ % all->group.job.conn_count, io);
}

static void take_finished(struct verification *all)
{
	struct conn_io *io;

	while ((io = io_list_take(&all->group.job.finished))) {
		if (io->error && !all->error) {
			all->error = io->error;
			all->status = io->status;
			all->entry = io->offset;
		}
		io_list_add(&all->idle, io);
	}
}

static void list_directories(struct verification *all)
{
	while (all->group.job.outstanding || (all->next < all->end && !all->error)) {
		struct conn_io *io;

		while (all->next < all->end && !all->error && (io = io_list_take(&all->idle)))
			submit(all, io);
		group_flush(&all->group);
		group_reap(&all->group, true);
		if (deadline_told()) {
			all->error = EINTR;
			group_abort(&all->group, EINTR);
		}
		take_finished(all);
	}
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

static void say_wrong(const struct verification *all, const char *name, const struct count *missing,
		      const struct count *twice)
{
	uint64_t count = all->end - all->first;

	if (!twice->count)
		say("meta_verify=1: \"%s\": of %" PRIu64 " entries %" PRIu64
		    " missing: entry %" PRIu64 " is the first",
		    name, count, missing->count, missing->first);
	else if (!missing->count)
		say("meta_verify=1: \"%s\": of %" PRIu64 " entries %" PRIu64
		    " there twice: entry %" PRIu64 " is the first",
		    name, count, twice->count, twice->first);
	else
		say("meta_verify=1: \"%s\": of %" PRIu64 " entries %" PRIu64
		    " missing: entry %" PRIu64 " is the first; %" PRIu64
		    " there twice: entry %" PRIu64 " is the first",
		    name, count, missing->count, missing->first, twice->count, twice->first);
}

static int judge(const struct verification *all, const char *name)
{
	struct count missing = {0}, twice = {0};

	for (uint64_t i = all->first; i < all->end; i++) {
		const uint8_t both = FIRST_NAME | OTHER_NAME, found = all->found[i];

		if (!found)
			count_one(&missing, i);
		else if (found & AGAIN || (found == both && !all->two_names))
			count_one(&twice, i);
	}
	if (!missing.count && !twice.count)
		return 0;
	say_wrong(all, name, &missing, &twice);
	return missing.count ? -ENOENT : -EEXIST;
}

static int list_and_judge(struct verification *all, const char *name)
{
	all->entries = all->group.paths[0]->files[0].entries;
	for (uint32_t i = 1; !all->entries && i < all->group.path_count; i++)
		all->entries = all->group.paths[i]->files[0].entries; /* failover */
	list_directories(all);
	if (!all->error)
		return judge(all, name);
	if (all->error != EINTR)
		say("meta_verify=1: listing the directory of entry %" PRIu64
		    " below \"%s\": %s%s%s",
		    all->entry, name, strerror(all->error), all->status ? ": " : "",
		    all->status ?: "");
	return -all->error;
}

static int run(struct verification *all, struct path **paths, uint32_t path_count, const char *name)
{
	int error = group_open(&all->group, paths, path_count, 1, deadline_passed);

	if (error)
		return error;
	error = group_open_file(&all->group, 0, name);
	if (!error) {
		error = list_and_judge(all, name);
		group_close_file(&all->group, 0);
	}
	group_close(&all->group);
	return error;
}

int verify_entries(struct thread_data *td, struct path **paths, uint32_t path_count,
		   const char *name, uint64_t first, uint64_t end)
{
	const struct engine_options *eo = td->eo;
	uint32_t depth = min_of(max_of(td->o.iodepth, 1u), (unsigned int)DEPTH_MAX);
	struct verification *all = calloc(1, sizeof(*all));
	int error = -ENOMEM;

	if (!all)
		return error;
	all->found = calloc(end, 1);
	all->first = all->next = first;
	all->end = end;
	all->two_names = eo->meta_write == META_LINK;
	for (uint32_t i = 0; i < depth; i++)
		io_list_add(&all->idle, &all->ios[i]);
	all->group.job = (struct conn_job){
		.io_count = depth,
		.file_count = 1,
		.failover = eo->failover,
		.log = say,
	};
	if (all->found)
		error = run(all, paths, path_count, name);
	free(all->found);
	free(all);
	return error;
}
