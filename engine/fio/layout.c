/* SPDX-License-Identifier: GPL-2.0-only */
#include "setup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "job_terms.h"
#include "job_log.h"
#include "group/group.h"
#include "nfs/meta_call.h"

enum {
	DEPTH = 16,	 /* blocks under way at once; the minimum for entries */
	BLOCK = 1 << 20, /* bytes of a block, at most */
	ALIGNMENT = 4096,
	DEPTH_MAX = 1024,
};

/*
 * A pass works on one file, over all given paths at once, with one connection on each. A piece's
 * number is an offset in bytes, an entry's number or, for COMMITs, a path's. An idle I/O belongs to
 * the pass, an I/O in a callback to the callback, and a submitted one to a connection
 * (connection.h). No callback may block.
 */
struct pass {
	/* Set before pass_open(); all other members are zero then. */
	struct thread_data *td;
	const char *name; /* the file's; outlives the pass */
	uint32_t depth;	  /* I/Os under way at once; more than DEPTH_MAX means DEPTH_MAX */
	bool writes;
	uint8_t *buffers; /* of layout_write(): BLOCK bytes for each I/O */
	bool tells;	  /* pieces are entries: every 10 seconds the progress is logged */
	/* Called when an I/O has its result. True: it submitted the I/O again for the same piece.
	 * False: the piece is done, or has failed if io->error is set. NULL: always false. */
	bool (*goes_on)(struct pass *pass, struct conn_io *io);

	struct group group;
	struct pass_io {
		struct conn_io io;
		struct meta_io meta;
		struct commit_io commit;
	} * ios;
	uint64_t first, end; /* the pieces of this pass_run() */
	uint64_t next;	     /* the first piece that was not begun */
	int error;	     /* the first error, a positive errno */
	const char *status;  /* that error in the server's words, or NULL */
	const char *label;   /* the path that failed */
	uint64_t failed_at;  /* the offset of the I/O that failed */

	struct io_list idle;
	uint32_t block_size;	/* of layout_write(): bytes */
	uint32_t turn;		/* counts I/Os: each goes to the next connection */
	uint64_t done;		/* pieces */
	uint64_t told, told_at; /* `done` and the time at the last progress line */
};

static const uint64_t TELL_EVERY = 10 * SEC;

static int allocate_ios(struct pass *pass)
{
	uint32_t count = pass->group.job.io_count;

	pass->ios = calloc(count, sizeof(*pass->ios));
	if (!pass->ios)
		return -ENOMEM;
	TAILQ_INIT(&pass->idle);
	for (uint32_t i = 0; i < count; i++) {
		struct pass_io *one = &pass->ios[i];

		one->io.meta = &one->meta;
		one->io.commit = &one->commit;
		TAILQ_INSERT_TAIL(&pass->idle, &one->io, link);
	}
	return 0;
}

/*
 * Connects, and opens the file. Waits for the server, until deadline_passed(). 0, or a negative
 * errno with the reason logged and nothing left open. The paths stay the caller's.
 */
static int pass_open(struct pass *pass, struct path **paths, uint32_t path_count)
{
	struct group *group = &pass->group;
	int error;

	group->job = (struct conn_job){
		.io_count = min_of(pass->depth, (uint32_t)DEPTH_MAX),
		.file_count = 1,
		.writes = pass->writes,
		.failover = options_of(pass->td)->failover,
		.log = job_log,
	};
	error = allocate_ios(pass);
	if (error)
		return error;
	error = group_open(group, paths, path_count, 1, deadline_passed);
	if (!error && (error = group_open_file(group, 0, pass->name)))
		group_close(group);
	if (error)
		free(pass->ios);
	return error;
}

static void pass_close(struct pass *pass)
{
	group_close_file(&pass->group, 0);
	group_close(&pass->group);
	free(pass->ios);
}

/* Submits an I/O to the next connection in turn. */
static void pass_submit(struct pass *pass, struct conn_io *io)
{
	group_submit(&pass->group, pass->turn++ % pass->group.job.conn_count, io);
}

static void take_finished(struct pass *pass)
{
	struct conn_io *io;

	while ((io = io_list_take(&pass->group.job.finished))) {
		if (pass->goes_on && pass->goes_on(pass, io))
			continue;
		if (io->error && !pass->error) {
			pass->error = io->error;
			pass->status = io->status;
			pass->label = io->conn->path->config.label;
			pass->failed_at = io->offset;
		}
		pass->done++;
		TAILQ_INSERT_TAIL(&pass->idle, io, link);
	}
}

static void tell_progress(struct pass *pass)
{
	uint64_t now = pass->group.job.clock.now, span = now - pass->told_at;

	if (!pass->tells || now < pass->told_at + TELL_EVERY)
		return;
	job_log("entries of \"%s\": %" PRIu64 " %% done, %.0f entries/s", pass->name,
		100 * pass->done / (pass->end - pass->first),
		(double)(pass->done - pass->told) * (double)SEC / (double)span);
	pass->told = pass->done;
	pass->told_at = now;
}

static bool more(const struct pass *pass)
{
	return pass->next < pass->end && !pass->error;
}

/* Begins piece `number`: sets all of `io` and submits it. Returns the next number, or `end`. */
typedef uint64_t pass_piece(struct pass *pass, struct conn_io *io, uint64_t number);

/*
 * Works through the pieces from `first` to before `end`, and waits until all are done. After an
 * error no further piece begins. When the job is told to end, the pieces under way are aborted. 0
 * or a negative errno, for the caller to log; -EINTR: the job was told to end before any error.
 */
static int pass_run(struct pass *pass, pass_piece *begin, uint64_t first, uint64_t end)
{
	struct group *group = &pass->group;
	struct conn_io *io;

	pass->first = pass->next = first;
	pass->end = end;
	pass->done = pass->told = 0;
	pass->told_at = clock_now();
	while (more(pass) || group->job.outstanding) {
		while (more(pass) && (io = io_list_take(&pass->idle)))
			pass->next = begin(pass, io, pass->next);
		clock_read(&group->job.clock);
		group_flush(group);
		group_reap(group, true);
		if (deadline_told()) {
			pass->error = pass->error ?: EINTR;
			group_abort(group, EINTR);
		}
		take_finished(pass);
		tell_progress(pass);
	}
	return -pass->error;
}

static uint64_t write_block(struct pass *pass, struct conn_io *io, uint64_t offset)
{
	uint32_t length = (uint32_t)min_of((uint64_t)pass->block_size, pass->end - offset);

	*io = (struct conn_io){
		.op = IO_WRITE,
		.stable = IO_UNSTABLE,
		.offset = offset,
		.length = length,
		.buffer = pass->buffers +
			  (size_t)(container_of(io, struct pass_io, io) - pass->ios) * BLOCK,
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

/* The first path from `path` on with a COMMIT due, or path_count. */
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
	struct pass pass = {.td = td, .name = name, .depth = DEPTH, .writes = true};
	void *buffers;
	int error;

	if (posix_memalign(&buffers, ALIGNMENT, (size_t)DEPTH * BLOCK))
		return -ENOMEM;
	pass.buffers = buffers;
	error = pass_open(&pass, paths, path_count);
	if (!error) {
		pass.block_size = min_of(group_io_max(&pass.group, IO_WRITE), (uint32_t)BLOCK);
		error = write_durably(&pass, from, to);
		pass_close(&pass);
	}
	free(buffers);
	return error;
}

struct entry_layout {
	struct pass pass;
	enum meta_op make;
	bool may_make;
	bool renamed; /* an entry that has only its other name counts as found */
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

/* Looks up a missing entry's other name, then makes the entry. EEXIST: another client made it. */
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
	struct pass *pass = &layout.pass;
	int error;

	pass->depth = max_of(td->o.iodepth, (unsigned int)DEPTH);
	tell_begins(&layout, terms, end - first);
	error = pass_open(pass, paths, path_count);
	if (error)
		return error;
	error = pass_run(pass, look_up, first, end);
	if (error == -ENOENT && !terms->make)
		job_log("\"%s\" lacks entry %" PRIu64 " of %" PRIu64
			": %s: --readonly or allow_file_create=0 forbids making it",
			name, pass->failed_at, end, strerror(ENOENT));
	else if (error && error != -EINTR)
		job_log("laying out entries of \"%s\": %s%s%s at entry %" PRIu64 " of %" PRIu64,
			name, strerror(-error), pass->status ? ": " : "", pass->status ?: "",
			pass->failed_at, end);
	pass_close(pass);
	return error;
}

/* --- meta_verify=1: are all entries there --- */

/* Which names of an entry were found. */
enum { FIRST_NAME = 1 << 0, OTHER_NAME = 1 << 1, AGAIN = 1 << 2 };

struct verification {
	struct pass pass;
	const struct entries *entries; /* of one path: names are the same on all */
	uint8_t *found;		       /* by entry */
	bool two_names;		       /* an entry may have both names */
};

/* The entries in the directory that holds `entry`: from *begin to before *end. */
static void range_of(const struct verification *all, uint64_t entry, uint64_t *begin, uint64_t *end)
{
	const struct entries_terms *terms = &all->entries->terms;
	uint64_t count = terms->depth ? terms->per_directory : terms->count;

	*begin = entry / count * count;
	*end = min_of(*begin + count, terms->count);
}

/* meta_io's listed(), for entry io->offset's directory. `name` NULL: the listing begins anew. */
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
	*io = (struct conn_io){.op = IO_META, .meta = io->meta, .offset = entry, .owner = all};
	pass_submit(pass, io);
	range_of(all, entry, &begin, &end);
	return end;
}

static bool is_twice(const struct verification *all, uint8_t found)
{
	return found & AGAIN || (found == (FIRST_NAME | OTHER_NAME) && !all->two_names);
}

static int judge(const struct verification *all)
{
	const struct pass *pass = &all->pass;
	uint64_t missing = 0, first_missing = 0, twice = 0, first_twice = 0;

	for (uint64_t i = pass->first; i < pass->end; i++)
		if (!all->found[i] && !missing++)
			first_missing = i;
		else if (is_twice(all, all->found[i]) && !twice++)
			first_twice = i;
	if (missing)
		job_log("meta_verify=1: \"%s\": %" PRIu64 " entries, of which %" PRIu64
			" missing: entry %" PRIu64 " is the first",
			pass->name, pass->end - pass->first, missing, first_missing);
	if (twice)
		job_log("meta_verify=1: \"%s\": %" PRIu64 " entries, of which %" PRIu64
			" duplicate: entry %" PRIu64 " is the first",
			pass->name, pass->end - pass->first, twice, first_twice);
	return missing ? -ENOENT : twice ? -EEXIST : 0;
}

static int list_and_judge(struct verification *all, uint64_t first, uint64_t end)
{
	struct pass *pass = &all->pass;
	int error;

	for (uint32_t i = 0; !all->entries && i < pass->group.path_count; i++)
		all->entries = pass->group.paths[i]->files[0].entries; /* a path may have none */
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
