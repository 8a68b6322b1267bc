/* SPDX-License-Identifier: GPL-2.0-only */
#include "layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "group/commit_io.h"
#include "pass.h"
#include "job_log.h"
#include "util.h"

enum {
	DEPTH = 16,	 /* blocks under way at once */
	BLOCK = 1 << 20, /* bytes of a block, at most */
	ALIGNMENT = 4096,
};

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

/* True where a server lost what it had not committed. */
static bool lost(const struct pass *pass)
{
	for (uint32_t i = 0; i < pass->group.path_count; i++)
		if (ledger_of(pass, i)->lost)
			return true;
	return false;
}

static void say_failed(const struct pass *pass, const char *what)
{
	job_log("%s: laying out \"%s\": %s at %llu: %s%s%s%s", pass->label, pass->name, what,
		(unsigned long long)pass->failed_at, strerror(pass->error),
		pass->status ? ": " : "", pass->status ?: "",
		failure_remedy(IO_WRITE, pass->error));
}

static int write_durably(struct pass *pass, uint64_t from, uint64_t to)
{
	const char *what = "WRITE";
	int error = pass_run(pass, write_block, from, to);

	if (!error) {
		what = "COMMIT";
		error = pass_run(pass, commit_path, next_owing(pass, 0), pass->group.path_count);
	}
	if (error && error != -EINTR)
		say_failed(pass, what);
	if (error || !lost(pass))
		return error;
	job_log("laying out \"%s\": the server did not keep what it had not committed: did it "
		"restart?",
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
