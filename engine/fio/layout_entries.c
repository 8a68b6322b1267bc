/* SPDX-License-Identifier: GPL-2.0-only */
#include "layout_entries.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine_options.h"
#include "nfs/entries.h"
#include "nfs/meta_io.h"
#include "pass.h"
#include "job_log.h"
#include "util.h"

enum { DEPTH_MIN = 16 };

struct entry_layout {
	struct pass pass;
	enum meta_op make;
	bool may_make;
	bool renamed; /* those that have their other name alone are there, too */
};

/* `reversed`: by the other name. */
static void submit(struct pass *pass, struct conn_io *io, enum meta_op op, uint64_t entry,
		   bool reversed)
{
	*io->meta = (struct meta_io){.op = op, .reversed = reversed};
	*io = (struct conn_io){.op = IO_META, .meta = io->meta, .offset = entry};
	pass_submit(pass, io);
}

static uint64_t look_up(struct pass *pass, struct conn_io *io, uint64_t entry)
{
	submit(pass, io, META_LOOKUP, entry, false);
	return entry + 1;
}

/* What was not found is made; what somebody else has made meanwhile is there. */
static bool goes_on(struct pass *pass, struct conn_io *io)
{
	const struct entry_layout *layout = container_of(pass, struct entry_layout, pass);
	bool other = layout->renamed && !io->meta->reversed;

	if (io->meta->op == META_LOOKUP && io->error == ENOENT && !pass->error &&
	    (other || layout->may_make)) {
		submit(pass, io, other ? META_LOOKUP : layout->make, io->offset, other);
		return true;
	}
	if (io->meta->op == layout->make && io->error == EEXIST)
		io->error = 0;
	return false;
}

static void tell_begins(const struct entry_layout *layout, const struct entries_terms *terms,
			uint64_t count)
{
	uint64_t directories = entries_directories(terms);
	char entries[64] = "";

	if (count)
		snprintf(entries, sizeof(entries), "%" PRIu64 " %s in ", count,
			 layout->make == META_MKDIR ? "directories" : "files");
	job_log("entries of \"%s\": %s%" PRIu64 " %s: looking them up%s", layout->pass.name,
		entries, directories, directories == 1 ? "directory" : "directories",
		layout->may_make ? ", and making those that are missing" : "");
}

static void say_failed(const struct entry_layout *layout)
{
	const struct pass *pass = &layout->pass;

	if (pass->error == ENOENT && !layout->may_make)
		job_log("\"%s\" lacks entry %" PRIu64 " of %" PRIu64
			": %s: --readonly or allow_file_create=0 forbids making it",
			pass->name, pass->failed_at, pass->end, strerror(ENOENT));
	else
		job_log("laying out entries of \"%s\": %s%s%s at entry %" PRIu64 " of %" PRIu64,
			pass->name, strerror(pass->error), pass->status ? ": " : "",
			pass->status ?: "", pass->failed_at, pass->end);
}

/* Whether an entry that has its other name alone will do. */
static bool takes_other(const struct thread_data *td)
{
	const struct engine_options *eo = options_of(td);

	return !eo->meta_mix && (td_trim(td) || (td_write(td) && meta_takes_other(eo->meta_write)));
}

int layout_entries(struct thread_data *td, struct path **paths, uint32_t path_count,
		   const char *name, uint64_t first, uint64_t end, enum meta_op make)
{
	const struct entries_terms *terms = paths[0]->job.entries;
	struct entry_layout layout = {
		.pass =
			{
				.td = td,
				.name = name,
				.depth = max_of(td->o.iodepth, (unsigned int)DEPTH_MIN),
				.writes = true,
				.tells = true,
				.goes_on = goes_on,
			},
		.make = make,
		.may_make = terms->make,
		.renamed = takes_other(td),
	};
	int error;

	tell_begins(&layout, terms, end - first);
	error = pass_open(&layout.pass, paths, path_count);
	if (error)
		return error;
	error = pass_run(&layout.pass, look_up, first, end);
	if (error && error != -EINTR)
		say_failed(&layout);
	pass_close(&layout.pass);
	return error;
}
