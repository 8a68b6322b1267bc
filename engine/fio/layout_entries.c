/* SPDX-License-Identifier: GPL-2.0-only */
#include "layout_entries.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conn/group.h"
#include "deadline.h"
#include "engine_options.h"
#include "nfs/entries.h"
#include "say.h"
#include "util.h"

enum { DEPTH_MIN = 16, DEPTH_MAX = 1024 };

static const uint64_t TELL_EVERY = 10 * SEC;

struct entry_layout {
	struct group group;
	struct conn_io ios[DEPTH_MAX];
	struct io_list idle;
	enum meta_op make;
	bool may_make;
	bool renamed;		/* those that have their other name alone are there, too */
	uint64_t first, end;	/* entries that are needed … */
	uint64_t next;		/* … and of which this is to be looked up next */
	uint64_t done;		/* those that were looked up, and made if missing */
	uint64_t told, told_at; /* `done`, when it was told last */
	uint32_t turn;		/* the connection whose turn it is */
	int error;		/* the first, positive, of an entry … */
	const char *status;	/* … in the server's words */
	uint64_t entry;		/* … with this number */
};

/* `back`: by the other name. */
static void submit(struct entry_layout *layout, struct conn_io *io, enum meta_op op, uint64_t entry,
		   bool back)
{
	*io = (struct conn_io){.op = IO_META, .meta = op, .offset = entry, .back = back};
	group_submit(&layout->group, layout->turn++ % layout->group.job.conn_count, io);
}

static void note_failed(struct entry_layout *layout, const struct conn_io *io)
{
	if (layout->error)
		return;
	layout->error = io->error;
	layout->status = io->status;
	layout->entry = io->offset;
}

/* What was not found is made; what somebody else has made meanwhile is there. */
static void take_finished(struct entry_layout *layout)
{
	struct conn_io *io;

	while ((io = io_list_take(&layout->group.job.finished))) {
		bool other = layout->renamed && !io->back;

		if (io->meta == META_LOOKUP && io->error == ENOENT && !layout->error &&
		    (other || layout->may_make)) {
			submit(layout, io, other ? META_LOOKUP : layout->make, io->offset, other);
			continue;
		}
		if (io->error && !(io->meta == layout->make && io->error == EEXIST))
			note_failed(layout, io);
		layout->done++;
		io_list_add(&layout->idle, io);
	}
}

static void tell_begins(const struct entry_layout *layout, const char *name,
			const struct entries_terms *terms)
{
	uint64_t directories = entries_directories(terms);
	char entries[64] = "";

	if (layout->end)
		snprintf(entries, sizeof(entries), "%" PRIu64 " %s in ",
			 layout->end - layout->first,
			 layout->make == META_MKDIR ? "directories" : "files");
	say("entries of \"%s\": %s%" PRIu64 " %s: looking them up%s", name, entries, directories,
	    directories == 1 ? "directory" : "directories",
	    layout->may_make ? ", and making those that are missing" : "");
}

static void tell_progress(struct entry_layout *layout, const char *name)
{
	uint64_t now = layout->group.job.now, span = now - layout->told_at;

	if (now < layout->told_at + TELL_EVERY)
		return;
	say("entries of \"%s\": %" PRIu64 " %% done, %.0f entries/s", name,
	    100 * layout->done / (layout->end - layout->first),
	    (double)(layout->done - layout->told) * (double)SEC / (double)span);
	layout->told = layout->done;
	layout->told_at = now;
}

static void make_entries(struct entry_layout *layout, const char *name)
{
	layout->told_at = clock_now();
	while (layout->group.job.outstanding || (layout->next < layout->end && !layout->error)) {
		struct conn_io *io;

		while (layout->next < layout->end && !layout->error &&
		       (io = io_list_take(&layout->idle)))
			submit(layout, io, META_LOOKUP, layout->next++, false);
		group_flush(&layout->group);
		group_reap(&layout->group, true);
		if (deadline_told()) {
			layout->error = EINTR;
			group_abort(&layout->group, EINTR);
		}
		take_finished(layout);
		tell_progress(layout, name);
	}
}

static void say_failed(const struct entry_layout *layout, const char *name)
{
	if (layout->error == ENOENT && !layout->may_make)
		say("\"%s\" lacks entry %" PRIu64 " of %" PRIu64
		    ": %s: --readonly or allow_file_create=0 forbids making it",
		    name, layout->entry, layout->end, strerror(ENOENT));
	else
		say("laying out entries of \"%s\": %s%s%s at entry %" PRIu64 " of %" PRIu64, name,
		    strerror(layout->error), layout->status ? ": " : "", layout->status ?: "",
		    layout->entry, layout->end);
}

static int run(struct entry_layout *layout, struct path **paths, uint32_t path_count,
	       const char *name)
{
	int error = group_open(&layout->group, paths, path_count, 1, deadline_passed);

	if (error)
		return error;
	error = group_open_file(&layout->group, 0, name);
	if (!error) {
		make_entries(layout, name);
		error = -layout->error;
		if (error && error != -EINTR)
			say_failed(layout, name);
		group_close_file(&layout->group, 0);
	}
	group_close(&layout->group);
	return error;
}

int layout_entries(struct thread_data *td, struct path **paths, uint32_t path_count,
		   const char *name, uint64_t first, uint64_t end, enum meta_op make)
{
	const struct engine_options *eo = td->eo;
	uint32_t depth =
		min_of(max_of(td->o.iodepth, (unsigned int)DEPTH_MIN), (unsigned int)DEPTH_MAX);
	struct entry_layout *layout = calloc(1, sizeof(*layout));
	int error;

	if (!layout)
		return -ENOMEM;
	layout->make = make;
	layout->may_make = paths[0]->job.entries->make;
	layout->renamed = td_write(td) && meta_takes_other(eo->meta_write);
	layout->first = layout->next = first;
	layout->end = end;
	for (uint32_t i = 0; i < depth; i++)
		io_list_add(&layout->idle, &layout->ios[i]);
	layout->group.job = (struct conn_job){
		.io_count = depth,
		.file_count = 1,
		.writes = true,
		.failover = eo->failover,
		.log = say,
	};
	tell_begins(layout, name, paths[0]->job.entries);
	error = run(layout, paths, path_count, name);
	free(layout);
	return error;
}
