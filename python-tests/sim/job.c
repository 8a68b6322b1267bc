/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "group/commit_io.h"
#include "group/group.h"
#include "nfs/handle.h"
#include "nfs/names.h"
#include "nfs/version.h"
#include "server.h"
#include "world.h"

enum {
	BLOCK = 512, /* bytes */
	BLOCKS = SERVER_FILE / BLOCK,
	IO_BLOCKS_MAX = 8,
	DEPTH_MAX = 32,
	PATHS_MAX = 3,
};

static const uint64_t TICK = 100 * MSEC;

/* What is known of a block. */
struct block {
	uint64_t stamp;	    /* what was written last, and is done; 0: never */
	uint32_t path;	    /* over this path */
	uint64_t lost;	    /* what that path's ledger had reported lost before */
	uint64_t number;    /* of the write among all I/Os that are done */
	bool unknown;	    /* it may hold what was written earlier: that was reported */
	bool durable;	    /* as the server says */
	unsigned int users; /* I/Os under way on it */
	bool writing;
};

struct job_io {
	struct conn_io io;
	struct commit_io commit;
	uint8_t data[IO_BLOCKS_MAX * BLOCK];
	uint64_t stamp, submitted, begun; /* when; and the number of I/Os that were done then */
	uint64_t crashes;		  /* of the server, before it */
	uint64_t lost[PATHS_MAX];	  /* lost_of() each path, before it */
	bool busy;
};

static struct {
	struct group group;
	struct path *paths[PATHS_MAX];
	struct nfs_version version; /* NFSv3, without names */
	void *state;		    /* NFSv4's */
	bool nfs4;
	struct block blocks[BLOCKS];
	uint64_t lost[PATHS_MAX]; /* bytes that each path's ledger has reported lost */
	struct job_io ios[DEPTH_MAX];
	uint64_t stamp, done, healed_at;
	uint32_t depth, path_count, outstanding;
	bool soft, full, stable;
	bool punctual; /* no I/O takes several calls, each of which has its time */
} job;

/* --- the engine's surroundings --- */

static void log_line(const char *format, ...)
{
	char line[300];
	va_list values;

	va_start(values, format);
	vsnprintf(line, sizeof(line), format, values);
	va_end(values);
	world_tell("engine: %s", line);
}

static bool never(void)
{
	return false;
}

static struct path *new_path(uint32_t number, const struct rpc_timing *timing, bool failover)
{
	static struct nfs_handle handle = {.length = 4, .bytes = SERVER_HANDLE};
	struct path *path = calloc(1, sizeof(*path));
	struct sockaddr_in *remote = (void *)&path->config.remote;
	char label[16];

	snprintf(label, sizeof(label), "path %u", number);
	path->config.label = strdup(label);
	path->config.nfs_port = 1 + number;
	path->config.timing = *timing;
	path->config.setup_time = 10 * SEC;
	remote->sin_family = AF_INET;
	path->config.remote_length = sizeof(*remote);
	path->job = (struct path_job){
		.file_count = 1, .failover = failover, .stop = never, .log = log_line};
	path->job.state = &job.state;
	path->job.clock = world.clock.read;
	path->version = job.nfs4 ? &nfs_version_4 : &job.version;
	path->config.minor = job.nfs4;
	path->config.export = strdup("/");
	path->config.rsize = path->config.wsize = 64 << 10;
	auth_sys_init(&path->credentials, &path->ids);
	path->directory = -1;
	path->files = calloc(1, sizeof(*path->files));
	path->files[0] = (struct path_file){.name = "file", .state = job.nfs4 ? NULL : &handle};
	return path;
}

/* NFSv4.1: finds the export, and opens the file. Nothing fails yet. */
static int open_file(struct path *path)
{
	return path->version->names->open(&path->names, path)
		       ?: path->version->open_file(path->names, 0, "file", true,
						   &path->files[0].state);
}

static void free_path(struct path *path)
{
	if (job.nfs4 && path->files[0].state)
		path->version->close_file(path->names, path->files[0].state);
	if (path->state)
		path->version->teardown(path);
	path_close_names(path);
	free(path->config.export);
	free(path->config.label);
	free(path->files);
	free(path);
}

/* --- stamps --- */

/* Each word of a block says which block it is, and by which write. */
static uint64_t word_of(uint32_t block, uint64_t stamp)
{
	return stamp ? stamp << 8 | block : 0;
}

static void fill(uint8_t *data, uint32_t block, uint64_t stamp)
{
	const uint64_t word = word_of(block, stamp);

	for (uint32_t at = 0; at < BLOCK; at += sizeof(word))
		memcpy(data + at, &word, sizeof(word));
}

static bool holds(const uint8_t *data, uint32_t block, uint64_t stamp)
{
	uint8_t wanted[BLOCK];

	fill(wanted, block, stamp);
	return !memcmp(data, wanted, BLOCK);
}

/* --- submitting --- */

/* Bytes that are reported lost; with failover the parts of a write may be owed by several paths. */
static uint64_t lost_of(uint32_t path)
{
	uint64_t lost = 0;

	for (uint32_t i = 0; i < job.path_count; i++)
		if (job.group.job.failover || i == path)
			lost += job.lost[i];
	return lost;
}

static bool is_free(uint32_t first, uint32_t count, bool to_write)
{
	for (uint32_t i = first; i < first + count; i++)
		if (job.blocks[i].writing || (to_write && job.blocks[i].users))
			return false;
	return true;
}

static struct job_io *idle_io(void)
{
	for (uint32_t i = 0; i < job.depth; i++)
		if (!job.ios[i].busy)
			return &job.ios[i];
	return NULL;
}

static void submit(struct job_io *one, uint32_t connection)
{
	one->busy = true;
	one->submitted = world.clock.now;
	one->begun = job.done;
	one->crashes = world.failures[FAILED_CRASH];
	for (uint32_t i = 0; i < job.path_count; i++)
		one->lost[i] = lost_of(i);
	job.outstanding++;
	group_submit(&job.group, connection, &one->io);
}

static void submit_transfer(struct job_io *one, enum io_op op)
{
	uint32_t count = 1 + (uint32_t)world_random(IO_BLOCKS_MAX);
	uint32_t first = (uint32_t)world_random(BLOCKS - count + 1);

	if (!is_free(first, count, op == IO_WRITE))
		return;
	one->io = (struct conn_io){
		.op = op,
		.stable = job.stable ? IO_FILE_SYNC : IO_UNSTABLE,
		.offset = (uint64_t)first * BLOCK,
		.length = count * BLOCK,
		.buffer = one->data,
		.owner = one,
	};
	one->stamp = op == IO_WRITE ? ++job.stamp : 0;
	memset(one->data, 0xff, sizeof(one->data));
	for (uint32_t i = 0; i < count; i++) {
		job.blocks[first + i].users++;
		job.blocks[first + i].writing = op == IO_WRITE;
		if (op == IO_WRITE)
			fill(one->data + i * BLOCK, first + i, one->stamp);
	}
	submit(one, (uint32_t)world_random(job.group.job.conn_count));
}

static void submit_commit(struct job_io *one, uint32_t path)
{
	one->commit = (struct commit_io){.ledger = &job.paths[path]->files[0].ledger};
	one->io = (struct conn_io){.op = IO_COMMIT, .owner = one, .commit = &one->commit};
	submit(one, path);
}

static void submit_any(void)
{
	struct job_io *one = idle_io();

	if (!one)
		return;
	switch (world_random(12)) {
	case 0: submit_commit(one, (uint32_t)world_random(job.path_count)); break;
	case 1:
	case 2:
	case 3:
	case 4:
	case 5: submit_transfer(one, IO_READ); break;
	default: submit_transfer(one, IO_WRITE); break;
	}
}

/* --- what completes --- */

static uint32_t number_of(const struct path *path)
{
	return path->config.nfs_port - 1;
}

static void take_losses(void)
{
	for (uint32_t i = 0; i < job.path_count; i++)
		job.lost[i] += ledger_take_lost(&job.paths[i]->files[0].ledger);
}

static bool is_allowed(int error)
{
	return !error || (error == ETIMEDOUT && job.soft) || (error == ENOSPC && job.full);
}

/*
 * Nothing is outstanding for longer than `soft` allows, which with failover is a matter of the last
 * path alone; `hard` ends after all has healed.
 */
static void check_time(const struct job_io *one)
{
	const struct rpc_timing *timing = &job.paths[0]->config.timing;
	uint64_t took = world.clock.now - one->submitted;

	if (job.soft && job.punctual && !job.group.job.failover &&
	    took > timer_major(timing) + 30 * SEC)
		world_violated("a soft %u took %.1f s", one->io.op, (double)took / SEC);
	if (job.healed_at && world.clock.now > job.healed_at + 1300 * SEC)
		world_violated("an I/O took %.1f s after all had healed",
			       (double)(world.clock.now - job.healed_at) / SEC);
}

static void check_read(const struct job_io *one)
{
	uint32_t first = (uint32_t)(one->io.offset / BLOCK), count = one->io.length / BLOCK;

	for (uint32_t i = 0; i < count; i++) {
		struct block *block = &job.blocks[first + i];

		block->users--;
		if (one->io.error)
			continue;
		if (block->unknown || one->crashes != world.failures[FAILED_CRASH] ||
		    block->number > one->begun)
			continue;
		if (!holds(one->data + i * BLOCK, first + i, block->stamp) &&
		    holds(server.memory + (first + i) * BLOCK, first + i, block->stamp))
			world_violated("block %u was read wrongly: not as write %llu left it",
				       first + i, (unsigned long long)block->stamp);
	}
	if (!one->io.error && one->io.done != one->io.length)
		world_violated("a READ of %u bytes ended after %u", one->io.length, one->io.done);
}

static void check_write(const struct job_io *one)
{
	uint32_t first = (uint32_t)(one->io.offset / BLOCK), count = one->io.length / BLOCK;
	uint32_t path = number_of(one->io.conn->path);

	for (uint32_t i = 0; i < count; i++) {
		struct block *block = &job.blocks[first + i];

		block->users--;
		block->writing = false;
		block->unknown = one->io.error;
		block->stamp = one->stamp;
		block->path = path;
		block->lost = one->lost[path];
		block->number = job.done;
		block->durable = false;
		if (!one->io.error && job.stable &&
		    !holds(server.disk + (first + i) * BLOCK, first + i, one->stamp))
			world_violated("write %llu is done, and not durable, as it was to be",
				       (unsigned long long)one->stamp);
	}
	if (!one->io.error && one->io.done != one->io.length)
		world_violated("a WRITE of %u bytes ended after %u", one->io.length, one->io.done);
}

/* A COMMIT of the ledger was answered by a request to wait: it goes out again. */
static bool is_put_off(const struct ledger *ledger)
{
	for (uint32_t i = 0; i < job.depth; i++) {
		const struct job_io *one = &job.ios[i];

		if (one->busy && one->io.op == IO_COMMIT && one->commit.ledger == ledger &&
		    one->io.sent && !one->commit.covered.number)
			return true;
	}
	return false;
}

/*
 * What was written over the COMMIT's path, and was done before it was submitted, is durable, or was
 * reported lost.
 */
static void check_commit(const struct job_io *one)
{
	if (one->io.error || one->commit.ledger->committing || is_put_off(one->commit.ledger))
		return; /* what an earlier one covers, that one's answer tells */
	for (uint32_t i = 0; i < BLOCKS; i++) {
		struct block *block = &job.blocks[i];
		uint32_t path = block->path;

		if (!block->stamp || block->unknown || block->durable || block->writing ||
		    &job.paths[path]->files[0].ledger != one->commit.ledger ||
		    block->number > one->begun)
			continue;
		if (holds(server.disk + i * BLOCK, i, block->stamp))
			block->durable = true;
		else if (lost_of(path) > block->lost)
			block->unknown = true;
		else if (!job.group.job.failover) /* else a part may be another path's to report */
			world_violated(
				"write %llu of block %u was committed: it is not durable, and no "
				"loss was reported",
				(unsigned long long)block->stamp, i);
	}
}

static void take_finished(void)
{
	struct conn_io *io;

	while ((io = io_list_take(&job.group.job.finished))) {
		struct job_io *one = io->owner;

		if (!one->busy) {
			world_violated("an I/O has completed twice");
			return;
		}
		one->busy = false;
		job.outstanding--;
		job.done++;
		take_losses();
		world_tell("job: %s %u@%llu stamp %llu: %u, %s",
			   (const char *[]){"READ", "WRITE", "COMMIT", "META"}[io->op], io->length,
			   (unsigned long long)io->offset, (unsigned long long)one->stamp, io->done,
			   strerror(io->error));
		if (!is_allowed(io->error))
			world_violated("an I/O failed: %s", strerror(io->error));
		check_time(one);
		switch (io->op) {
		case IO_READ: check_read(one); break;
		case IO_WRITE: check_write(one); break;
		default: check_commit(one); break;
		}
	}
}

/* --- the run --- */

/* One round: what there is to do now, or else time passes to what happens next. */
static void step(void)
{
	uint64_t done = job.done;

	group_flush(&job.group);
	group_reap(&job.group, false);
	take_finished();
	if (job.done == done && !network_is_readable())
		world_pass(min_of(world_next(), world.clock.now + TICK));
	clock_read(&job.group.job.clock);
}

/* An address is out of reach for a while, now and then. */
static void cut_one(void *context)
{
	uint32_t address = (uint32_t)(uintptr_t)context;

	network_cut(address, false);
}

static void cut_by_chance(uint64_t in)
{
	uint32_t address = (uint32_t)world_random(job.path_count);

	if (!world_chance(in))
		return;
	world.failures[FAILED_UNREACHED]++;
	network_cut(address, true);
	world_plan(world_random(20 * SEC), cut_one, NULL, (void *)(uintptr_t)address);
}

static bool is_committed(void)
{
	for (uint32_t i = 0; i < job.path_count; i++)
		if (job.ios[i].io.error)
			return false;
	return true;
}

/* At the end all is committed over each path: `soft` may need more than one try. */
static void settle(void)
{
	enum { ROUNDS = 200 };
	bool committed = false;

	for (int round = 0; round < ROUNDS && !committed && !*world.violation; round++) {
		for (uint32_t i = 0; i < job.path_count; i++)
			submit_commit(&job.ios[i], i);
		while (job.outstanding && !*world.violation)
			step();
		committed = is_committed();
	}
	if (!committed)
		world_violated("no COMMIT succeeds, though all has healed");
	for (uint32_t i = 0; i < BLOCKS; i++) {
		const struct block *block = &job.blocks[i];

		if (block->stamp && !block->unknown && !block->durable &&
		    !holds(server.disk + i * BLOCK, i, block->stamp) &&
		    lost_of(block->path) <= block->lost)
			world_violated(
				"write %llu of block %u was never made durable, nor reported lost",
				(unsigned long long)block->stamp, i);
	}
}

static void run_ios(uint32_t ios, uint64_t cut_in)
{
	uint64_t ends = world.clock.now + 3600 * SEC;

	while (job.done < ios && world.clock.now < ends && !*world.violation) {
		cut_by_chance(cut_in);
		for (uint64_t i = world_random(job.depth); i; i--)
			submit_any();
		step();
	}
	job.healed_at = world.clock.now;
	network_heal();
	server_heal();
	while (job.outstanding && !*world.violation) {
		step();
		if (world.clock.now > job.healed_at + 1300 * SEC)
			world_violated("%u I/Os have not ended long after all has healed",
				       job.outstanding);
	}
}

static uint64_t rarely(uint64_t most)
{
	return world_random(2) ? 0 : 10 + world_random(most);
}

static struct server_terms server_terms(void)
{
	return (struct server_terms){
		.crash_in = rarely(500),
		.lose_call_in = rarely(300),
		.lose_reply_in = rarely(300),
		.delay_in = rarely(100),
		.short_in = rarely(30),
		.full_in = rarely(200),
		.eager_in = rarely(20),
		.service = world_random(100 * MSEC),
		.down = 1 + world_random(10 * SEC),
		.nfs4 =
			{
				.forget_session_in = rarely(1000),
				.forget_client_in = rarely(1000),
				.forget_open_in = rarely(500),
				.resize_in = rarely(100),
				.busy_in = rarely(100),
			},
	};
}

/* What the job is, and how its paths are used. */
static void choose(struct rpc_timing *timing, const struct server_terms *terms)
{
	*timing = (struct rpc_timing){
		.timeo = (1 + world_random(100)) * 100 * MSEC,
		.retrans = (unsigned int)world_random(4),
		.soft = !world_random(3),
	};
	job.nfs4 = world_random(2);
	job.path_count = 1 + (uint32_t)world_random(PATHS_MAX);
	job.depth = 1 + (uint32_t)world_random(DEPTH_MAX);
	job.depth = max_of(job.depth, job.path_count);
	job.soft = timing->soft;
	job.full = terms->full_in;
	job.punctual = !terms->delay_in && !terms->short_in && !job.nfs4;
	job.stable = !world_random(5);
	job.version = nfs_version_3;
	job.group.job = (struct conn_job){
		.io_count = job.depth,
		.file_count = 1,
		.clock.read = world.clock.read,
		.writes = true,
		.failover = job.path_count > 1 && world_random(2),
		.log = log_line,
	};
}

/* Opens paths, their file and the group, while nothing fails. */
static int open_all(const struct rpc_timing *timing)
{
	const struct network_terms quiet = {MSEC, 0};
	const struct server_terms well = {.down = 1};
	int error = 0;

	network_begin(&quiet, &server_network);
	server_begin(&well);
	world.creeps = true;
	for (uint32_t i = 0; i < job.path_count; i++)
		job.paths[i] = new_path(i, timing, job.group.job.failover);
	for (uint32_t i = 0; !error && i < job.path_count && job.nfs4; i++)
		error = open_file(job.paths[i]);
	if (!error)
		error = group_open(&job.group, job.paths, job.path_count,
				   1 + (uint32_t)world_random(2), never);
	world.creeps = false;
	for (uint32_t i = 0; i < job.path_count; i++)
		job.paths[i]->at_work = true;
	return error;
}

static void close_all(void)
{
	world.creeps = true;
	group_close(&job.group);
	for (uint32_t i = 0; i < job.path_count; i++)
		free_path(job.paths[i]);
	world.creeps = false;
}

uint64_t job_run(uint64_t seed, uint32_t ios, bool trace)
{
	struct network_terms network;
	struct server_terms terms;
	struct rpc_timing timing;
	uint64_t cut_in;

	memset(&job, 0, sizeof(job));
	world_begin(seed, trace);
	network = (struct network_terms){1 + world_random(50 * MSEC), rarely(2000)};
	terms = server_terms();
	cut_in = rarely(2000);
	choose(&timing, &terms);
	world_tell("seed %llu: NFSv%s, %u paths, depth %u, %s%s%s", (unsigned long long)seed,
		   job.nfs4 ? "4.1" : "3", job.path_count, job.depth, job.soft ? "soft" : "hard",
		   job.group.job.failover ? ", failover" : "", job.stable ? ", FILE_SYNC" : "");
	if (open_all(&timing))
		world_violated("the job does not open");
	network_fail(&network);
	server.terms = terms;
	if (!*world.violation)
		run_ios(ios, cut_in);
	if (!*world.violation)
		settle();
	close_all();
	world_end();
	if (!network_end())
		world_violated("a connection was never closed");
	return job.done;
}
