/* SPDX-License-Identifier: GPL-2.0-only */
#include "layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn/group.h"
#include "engine_options.h"
#include "deadline.h"
#include "say.h"
#include "util.h"

enum {
	DEPTH = 16,	 /* blocks under way … */
	BLOCK = 1 << 20, /* … of at most so many bytes */
	ALIGNMENT = 4096,
};

struct layout {
	struct thread_data *td;
	struct group group;
	struct conn_io ios[DEPTH];
	struct io_list idle;
	const char *name;
	uint64_t next, end; /* bytes still to be handed out */
	uint32_t turn;	    /* the connection whose turn it is */
	int error;	    /* the first, positive */
};

static uint32_t block_size(const struct layout *layout)
{
	uint32_t size = BLOCK;

	for (uint32_t i = 0; i < layout->group.job.conn_count; i++) {
		const struct conn *conn = layout->group.conns[i];

		if (!conn->path->unusable)
			size = min_of(size, conn->ops->io_max(conn, IO_WRITE));
	}
	return size;
}

static void submit_block(struct layout *layout, struct conn_io *io, uint32_t size)
{
	uint32_t length = (uint32_t)min_of((uint64_t)size, layout->end - layout->next);

	fill_io_buffer(layout->td, io->buffer, length, length);
	io->op = IO_WRITE;
	io->stable = IO_UNSTABLE;
	io->file = 0;
	io->offset = layout->next;
	io->length = length;
	io->done = 0;
	io->status = NULL;
	layout->next += length;
	group_submit(&layout->group, layout->turn++ % layout->group.job.conn_count, io);
}

static void take_finished(struct layout *layout)
{
	struct conn_io *io;

	while ((io = io_list_take(&layout->group.job.finished))) {
		if (io->error && !layout->error)
			layout->error = io->error;
		io_list_add(&layout->idle, io);
	}
}

/* Lets what is under way finish; gives up where the run is stopped. */
static void drain(struct layout *layout)
{
	while (layout->group.job.outstanding) {
		group_flush(&layout->group);
		group_reap(&layout->group, true);
		if (deadline_told())
			group_abort(&layout->group, EINTR);
		take_finished(layout);
	}
}

static void write_blocks(struct layout *layout)
{
	uint32_t size = block_size(layout);

	while (layout->next < layout->end && !layout->error) {
		struct conn_io *io;

		while (layout->next < layout->end && (io = io_list_take(&layout->idle)))
			submit_block(layout, io, size);
		group_flush(&layout->group);
		group_reap(&layout->group, true);
		take_finished(layout);
		if (deadline_told())
			layout->error = EINTR;
	}
	drain(layout);
}

/* One COMMIT on each path that owes one. */
static void commit_paths(struct layout *layout)
{
	struct group *group = &layout->group;

	for (uint32_t i = 0; i < group->path_count && !layout->error; i++) {
		struct conn_io *io;

		if (!ledger_owes(&group->paths[i]->files[0].ledger))
			continue;
		if (!layout->idle.first)
			drain(layout);
		io = io_list_take(&layout->idle);
		io->op = IO_COMMIT;
		io->data_only = false;
		io->ledger = &group->paths[i]->files[0].ledger;
		io->length = 0;
		group_submit(group, i, io);
	}
	drain(layout);
	for (uint32_t i = 0; i < group->path_count; i++)
		if (ledger_take_lost(&group->paths[i]->files[0].ledger) && !layout->error)
			layout->error = EIO;
}

static void prepare(struct layout *layout, uint8_t *buffers)
{
	for (uint32_t i = 0; i < DEPTH; i++) {
		layout->ios[i].buffer = buffers + (size_t)i * BLOCK;
		io_list_add(&layout->idle, &layout->ios[i]);
	}
	layout->group.job.io_count = DEPTH;
	layout->group.job.file_count = 1;
	layout->group.job.writes = true;
	layout->group.job.failover = ((const struct engine_options *)layout->td->eo)->failover;
	layout->group.job.log = say;
}

static int run(struct layout *layout, struct path **paths, uint32_t path_count)
{
	int error = group_open(&layout->group, paths, path_count, 1, deadline_passed);

	if (error)
		return error;
	error = group_open_file(&layout->group, 0, layout->name);
	if (!error) {
		write_blocks(layout);
		commit_paths(layout);
		error = -layout->error;
		if (error && error != -EINTR)
			say("laying out \"%s\": %s after %llu bytes", layout->name,
			    strerror(layout->error), (unsigned long long)layout->next);
		group_close_file(&layout->group, 0);
	}
	group_close(&layout->group);
	return error;
}

int layout_write(struct thread_data *td, struct path **paths, uint32_t path_count, const char *name,
		 uint64_t from, uint64_t to)
{
	struct layout layout = {.td = td, .name = name, .next = from, .end = to};
	void *buffers;
	int error;

	if (posix_memalign(&buffers, ALIGNMENT, (size_t)DEPTH * BLOCK))
		return -ENOMEM;
	prepare(&layout, buffers);
	error = run(&layout, paths, path_count);
	free(buffers);
	return error;
}
