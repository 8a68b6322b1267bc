/* SPDX-License-Identifier: GPL-2.0-only */
#include "layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "job_terms.h"
#include "job_log.h"
#include "nfs/entries.h"
#include "nfs/meta_io.h"
#include "pass.h"
#include "util.h"

enum {
	DEPTH = 16,	 /* blocks under way at once; entries, at least */
	BLOCK = 1 << 20, /* bytes of a block, at most */
	ALIGNMENT = 4096,
};

/* --- the data of a file --- */

struct layout {
	struct pass pass;
	uint8_t *buffers;    /* BLOCK bytes for each I/O */
	uint32_t block_size; /* bytes */
};

static uint64_t write_block(struct pass *pass, struct conn_io *io, uint64_t offset)
{
	const struct layout *layout = container_of(pass, struct layout, pass);
	uint32_t length = (uint32_t)min_of((uint64_t)layout->block_size, pass->end - offset);

	*io = (struct conn_io){
		.op = IO_WRITE,
		.stable = IO_UNSTABLE,
		.offset = offset,
		.length = length,
		.buffer = layout->buffers + (size_t)(io - pass->ios) * BLOCK,
		.commit = io->commit,
	};
	fill_io_buffer(pass->td, io->buffer, length, length);
	pass_submit(pass, io);
	return offset + length;
}

static struct ledger *ledger_of(const struct pass *pass, uint64_t path)
{
	return &pass->group.paths[path]->files[0].ledger;
}

/* The first path from `path` on that owes a COMMIT. */
static uint64_t next_owing(const struct pass *pass, uint64_t path)
{
	while (path < pass->group.path_count && !ledger_owes(ledger_of(pass, path)))
		path++;
	return path;
}

static uint64_t commit_path(struct pass *pass, struct conn_io *io, uint64_t path)
{
	*io->commit = (struct commit_io){.ledger = ledger_of(pass, path)};
	*io = (struct conn_io){.op = IO_COMMIT, .commit = io->commit};
	group_submit(&pass->group, (uint32_t)path, io);
	return next_owing(pass, path + 1);
}

static int write_durably(struct pass *pass, uint64_t from, uint64_t to)
{
	const char *what = "WRITE";
	int error = pass_run(pass, write_block, from, to);
	bool lost = false;

	if (!error) {
		what = "COMMIT";
		error = pass_run(pass, commit_path, next_owing(pass, 0), pass->group.path_count);
	}
	if (error && error != -EINTR)
		job_log("%s: laying out \"%s\": %s at %llu: %s%s%s%s", pass->label, pass->name,
			what, (unsigned long long)pass->failed_at, strerror(pass->error),
			pass->status ? ": " : "", pass->status ?: "",
			failure_remedy(IO_WRITE, pass->error));
	for (uint32_t i = 0; i < pass->group.path_count; i++)
		lost = lost || ledger_of(pass, i)->lost;
	if (error || !lost)
		return error;
	job_log("laying out \"%s\": the server lost data that was not committed: did it restart?",
		pass->name);
	return -EIO;
}

int layout_write(struct thread_data *td, struct path **paths, uint32_t path_count, const char *name,
		 uint64_t from, uint64_t to)
{
	struct layout layout = {.pass = {.td = td, .name = name, .depth = DEPTH, .writes = true}};
	void *buffers;
	int error;

	if (posix_memalign(&buffers, ALIGNMENT, (size_t)DEPTH * BLOCK))
		return -ENOMEM;
	layout.buffers = buffers;
	error = pass_open(&layout.pass, paths, path_count);
	if (!error) {
		layout.block_size =
			min_of(group_io_max(&layout.pass.group, IO_WRITE), (uint32_t)BLOCK);
		error = write_durably(&layout.pass, from, to);
		pass_close(&layout.pass);
	}
	free(buffers);
	return error;
}

/* --- the entries of a metadata job --- */

struct entry_layout {
	struct pass pass;
	enum meta_op make;
	bool may_make;
	bool renamed; /* an entry that has only its other name is there, too */
};

/* `reversed`: the operation takes the entry's other name. */
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

/* Makes an entry that was not found; one that somebody else has made meanwhile is there. */
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

static void say_entries_failed(const struct entry_layout *layout)
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

int layout_entries(struct thread_data *td, struct path **paths, uint32_t path_count,
		   const char *name, uint64_t first, uint64_t end, enum meta_op make)
{
	const struct entries_terms *terms = paths[0]->job.entries;
	const struct terms *eo = options_of(td);
	struct entry_layout layout = {
		.pass = {.td = td, .name = name, .writes = true, .tells = true, .goes_on = goes_on},
		.make = make,
		.may_make = terms->make,
		.renamed = !eo->meta_mix &&
			   (td_trim(td) || (td_write(td) && meta_takes_other(eo->meta_write))),
	};
	int error;

	layout.pass.depth = max_of(td->o.iodepth, (unsigned int)DEPTH);
	tell_begins(&layout, terms, end - first);
	error = pass_open(&layout.pass, paths, path_count);
	if (error)
		return error;
	error = pass_run(&layout.pass, look_up, first, end);
	if (error && error != -EINTR)
		say_entries_failed(&layout);
	pass_close(&layout.pass);
	return error;
}
