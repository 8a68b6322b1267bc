/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * data.c - reads, writes and syncs of some files: what is read is what was written, what a sync
 * that succeeds covers is durable, at its newest value, and what may be lost was reported by one
 * that failed. With a hold nothing is lost, but by a server that restarts again and again.
 */
#include <errno.h>
#include <string.h>

#include "job.h"
#include "world.h"

enum {
	BLOCK = 512, /* bytes */
	BLOCKS = SERVER_FILE / BLOCK,
	IO_BLOCKS_MAX = 8,
	ROUNDS_MAX = 16, /* syncs.c's */
	UNREAD = 0xff,	 /* bytes of a buffer before a READ, which no stamp has */
};

/* What is known of a block. */
struct block {
	uint64_t stamp;	    /* what was written last, and is done; 0: never */
	uint64_t order;	    /* of that write among all I/Os that were begun */
	uint64_t reports;   /* of losses, before it began */
	uint64_t ended;	    /* I/Os that had, when it did */
	bool unknown;	    /* it may hold what was written earlier: that was reported */
	unsigned int users; /* I/Os under way on it */
	bool writing;
};

/* What is known of an I/O: as of when it began. */
struct data_io {
	uint8_t data[IO_BLOCKS_MAX * BLOCK];
	uint64_t stamp, order, reports, ended;
	uint64_t crashes, rewritten;
};

static struct {
	struct block blocks[BLOCKS]; /* of all files, as they lie at the server */
	struct data_io ios[DEPTH_MAX];
	uint64_t stamp, order;
	uint64_t reports[SERVER_FILES_MAX]; /* failed syncs: what was not durable may be lost */
	uint64_t crashes;		    /* of the server, before the replay */
} data;

static void begin(void)
{
	memset(&data, 0, sizeof(data));
}

/* --- stamps --- */

/* Each word of a block says which block it is, and by which write. */
static uint64_t word_of(uint32_t block, uint64_t stamp)
{
	return stamp ? stamp << 8 | block : 0;
}

static void fill(uint8_t *bytes, uint32_t block, uint64_t stamp)
{
	const uint64_t word = word_of(block, stamp);

	for (uint32_t at = 0; at < BLOCK; at += sizeof(word))
		memcpy(bytes + at, &word, sizeof(word));
}

static bool holds(const uint8_t *bytes, uint32_t block, uint64_t stamp)
{
	uint8_t wanted[BLOCK];

	fill(wanted, block, stamp);
	return !memcmp(bytes, wanted, BLOCK);
}

/* --- what is begun --- */

static bool is_free(uint32_t first, uint32_t count, bool to_write)
{
	for (uint32_t i = first; i < first + count; i++)
		if (data.blocks[i].writing || (to_write && data.blocks[i].users))
			return false;
	return true;
}

/* Bytes that were held. */
static uint64_t rewritten(void)
{
	uint64_t bytes = 0;

	for_each_conn (&sim_job.engine.group, conn)
		bytes += conn->counters.rewritten_bytes;
	return bytes;
}

/* How many blocks a file has: all have as many. */
static uint32_t file_blocks(void)
{
	return BLOCKS / sim_job.terms.files;
}

/* The I/O is on the file that has that block, from there on. */
static void note_begun(struct data_io *one, struct io_u *io_u, uint32_t block)
{
	job_set_file(io_u, block / file_blocks());
	io_u->offset = (uint64_t)(block % file_blocks()) * BLOCK;
	one->stamp = 0;
	one->order = ++data.order;
	one->reports = data.reports[io_u->file->fileno];
	one->ended = sim_job.ended;
	one->crashes = world.failures[FAILED_CRASH];
	one->rewritten = rewritten();
}

static uint32_t first_of(const struct io_u *io_u)
{
	return (server_place((uint32_t)io_u->file->fileno) + (uint32_t)io_u->offset) / BLOCK;
}

static bool choose_transfer(struct data_io *one, struct io_u *io_u, enum fio_ddir ddir)
{
	uint32_t count = 1 + (uint32_t)world_random(IO_BLOCKS_MAX);
	uint32_t first = (uint32_t)world_random(BLOCKS - count + 1);

	count = min_of(count, file_blocks() - first % file_blocks());
	if (!is_free(first, count, ddir == DDIR_WRITE))
		return false;
	note_begun(one, io_u, first);
	io_u->ddir = ddir;
	io_u->xfer_buflen = count * BLOCK;
	io_u->xfer_buf = one->data;
	if (ddir == DDIR_WRITE)
		one->stamp = ++data.stamp;
	memset(one->data, UNREAD, sizeof(one->data));
	for (uint32_t i = 0; i < count; i++) {
		data.blocks[first + i].users++;
		data.blocks[first + i].writing = ddir == DDIR_WRITE;
		if (ddir == DDIR_WRITE)
			fill(one->data + i * BLOCK, first + i, one->stamp);
	}
	return true;
}

static bool choose_sync(struct data_io *one, struct io_u *io_u, uint32_t file)
{
	note_begun(one, io_u, server_place(file) / BLOCK);
	io_u->ddir = world_random(2) ? DDIR_SYNC : DDIR_DATASYNC;
	io_u->xfer_buflen = 0;
	return true;
}

static bool choose(uint32_t number, struct io_u *io_u)
{
	struct data_io *one = &data.ios[number];
	uint64_t kind = world_random(12);

	if (!kind)
		return choose_sync(one, io_u, (uint32_t)(data.order % sim_job.terms.files));
	return choose_transfer(one, io_u, kind <= 5 ? DDIR_READ : DDIR_WRITE);
}

/* --- what has ended --- */

/* While held data is written again, older data may stand for newer. */
static bool is_replayed(const struct data_io *one)
{
	return replay_active(&sim_job.engine) || one->rewritten != rewritten();
}

static void check_read(const struct data_io *one, const struct io_u *io_u)
{
	uint32_t first = first_of(io_u);
	bool discards = sim_job.discards;

	for (size_t i = 0; discards && i < sizeof(one->data); i++)
		if (one->data[i] != UNREAD)
			world_violated("what is discarded was put into the job's buffer");
	for (uint32_t i = 0; i < io_u->xfer_buflen / BLOCK; i++) {
		struct block *block = &data.blocks[first + i];

		block->users--;
		if (discards || io_u->error || block->unknown || block->ended > one->ended ||
		    one->crashes != world.failures[FAILED_CRASH] || is_replayed(one))
			continue;
		if (!holds(one->data + i * BLOCK, first + i, block->stamp) &&
		    holds(server.memory + (first + i) * BLOCK, first + i, block->stamp))
			world_violated("block %u was read wrongly: not as write %llu left it",
				       first + i, (unsigned long long)block->stamp);
	}
}

static void check_write(const struct data_io *one, const struct io_u *io_u)
{
	uint32_t first = first_of(io_u);
	bool durable = sim_job.engine.stable != IO_UNSTABLE && !io_u->error;

	for (uint32_t i = 0; i < io_u->xfer_buflen / BLOCK; i++) {
		struct block *block = &data.blocks[first + i];

		block->users--;
		block->writing = false;
		block->unknown = io_u->error;
		block->stamp = one->stamp;
		block->order = one->order;
		block->reports = one->reports;
		block->ended = sim_job.ended;
		if (durable && !holds(server.disk + (first + i) * BLOCK, first + i, one->stamp))
			world_violated("write %llu is done, and not durable, as it was to be",
				       (unsigned long long)one->stamp);
	}
}

/*
 * A sync waits for the writes before it, and makes them durable. What an earlier COMMIT covers that
 * is under way, that one's sync tells.
 */
static void check_durable(uint64_t order, const struct io_u *io_u)
{
	uint32_t first = first_of(io_u), end = first + file_blocks();

	if (sim_job.engine.commits)
		return;
	for (uint32_t i = first; i < end; i++) {
		struct block *block = &data.blocks[i];

		if (!block->stamp || block->unknown || block->writing || block->order > order ||
		    holds(server.disk + i * BLOCK, i, block->stamp))
			continue;
		if (data.reports[io_u->file->fileno] > block->reports)
			block->unknown = true;
		else
			world_violated("write %llu of block %u was synced: it is not durable, and "
				       "no loss was reported",
				       (unsigned long long)block->stamp, i);
	}
}

/* True where what is held may be given up: such a server does not let it be made durable. */
static bool may_break(int error)
{
	if (sim_job.td.terminate)
		return true;
	if (error == EIO)
		return sim_job.changes || world.failures[FAILED_CRASH] - data.crashes >= ROUNDS_MAX;
	return (error == ETIMEDOUT && sim_job.terms.soft) || (error == ENOSPC && sim_job.full);
}

static void check_hold(void)
{
	const struct hold *hold = &sim_job.engine.hold;
	const struct replay *replay = &sim_job.engine.replay;
	uint64_t bytes = 0;

	if (replay->broken && !may_break(replay->broken))
		world_violated("what is held was given up: %s", strerror(replay->broken));
	if (!replay->rounds && !replay->broken)
		data.crashes = world.failures[FAILED_CRASH];
	for_each_extent (hold, extent)
		bytes += extent->length;
	if (bytes > hold->size)
		world_violated("%llu bytes are held, of %llu", (unsigned long long)bytes,
			       (unsigned long long)hold->size);
}

/* A sync may report a loss: a COMMIT ends with `soft` as any other call does. */
static bool may_lose(void)
{
	const struct job *job = &sim_job.engine;

	if (sim_job.terms.soft || sim_job.changes || job->replay.broken)
		return true;
	return !job->group.job.hold && world.failures[FAILED_CRASH];
}

static void check_error(const struct io_u *io_u)
{
	int error = (int)io_u->error;

	if (!error || sim_job.td.terminate || (error == ETIMEDOUT && sim_job.terms.soft) ||
	    (error == EIO && sim_job.changes) || (error == ENOSPC && sim_job.full) ||
	    error == sim_job.engine.replay.broken ||
	    (error == EIO && ddir_sync(io_u->ddir) && may_lose()))
		return;
	world_violated("an I/O failed: %s", strerror(error));
}

static void ended(uint32_t number, const struct io_u *io_u)
{
	const struct data_io *one = &data.ios[number];

	world_tell("job: %s %llu@%llu of %s stamp %llu: %s", io_ddir_name(io_u->ddir),
		   io_u->xfer_buflen, io_u->offset, io_u->file->file_name,
		   (unsigned long long)one->stamp, strerror((int)io_u->error));
	check_error(io_u);
	if (sim_job.engine.group.job.hold)
		check_hold();
	if (ddir_sync(io_u->ddir)) {
		data.reports[io_u->file->fileno] += io_u->error != 0;
		if (!io_u->error)
			check_durable(one->order, io_u);
		return;
	}
	if (!io_u->error && io_u->resid)
		world_violated("%llu of %llu bytes were not moved", io_u->resid, io_u->xfer_buflen);
	if (io_u->ddir == DDIR_READ)
		check_read(one, io_u);
	else
		check_write(one, io_u);
}

/* `soft` may need more than one try. */
static void settle_file(uint32_t file)
{
	enum { TRIES = 200 };
	struct io_u *io_u = &sim_job.ios[0].io_u;

	for (int i = 0; i < TRIES && !*world.violation; i++) {
		choose_sync(&data.ios[0], io_u, file);
		job_begin(0);
		job_finish();
		if (!io_u->error)
			return;
	}
	world_violated("no sync succeeds, though all has healed");
}

/* At the end all is made durable. */
static void settle(void)
{
	for (uint32_t i = 0; i < sim_job.terms.files; i++)
		settle_file(i);
	if (sim_job.engine.hold.first != sim_job.engine.hold.end)
		world_violated("something is held when all is durable");
}

const struct workload data_workload = {begin, choose, ended, settle};
