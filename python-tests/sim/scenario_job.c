/* SPDX-License-Identifier: GPL-2.0-only */
#include "scenario_job.h"

#include <string.h>
#include <unistd.h>

#include "fio/job.h"
#include "network.h"
#include "security.h"
#include "tls_server.h"
#include "world.h"

enum { BLOCK_MAX = 4096 };

static struct {
	const struct scenario *scenario;
	struct scenario_result *result;
	uint32_t next;			     /* block */
	uint32_t unsynced[SERVER_FILES_MAX]; /* blocks of each file */
	uint32_t syncs;			     /* two fsyncs, then two fdatasyncs, by turns */
	bool stops;			     /* an I/O has failed */
	uint8_t data[DEPTH_MAX][BLOCK_MAX];
} job;

/* Each word at the server says where it stands. */
static void fill(uint8_t *bytes, uint64_t place, uint64_t length)
{
	for (uint64_t at = 0; at < length; at++) {
		uint64_t word = (place + at) / sizeof(word) + 1;

		bytes[at] = word >> 8 * ((place + at) % sizeof(word));
	}
}

static uint64_t place_of(const struct io_u *io_u)
{
	return server_place((uint32_t)io_u->file->fileno) + io_u->offset;
}

/* The file that is to be synced now; SERVER_FILES_MAX: none. */
static uint32_t due(void)
{
	uint32_t file = 0;

	while (file < SERVER_FILES_MAX &&
	       (!job.scenario->fsync || job.unsynced[file] < job.scenario->fsync))
		file++;
	return file;
}

static bool choose(uint32_t number, struct io_u *io_u)
{
	const struct scenario *scenario = job.scenario;
	uint32_t file = due();

	if (job.stops)
		return false;
	io_u->offset = io_u->xfer_buflen = 0;
	if (file < SERVER_FILES_MAX) {
		job_set_file(io_u, file);
		io_u->ddir = job.syncs / 2 % 2 ? DDIR_DATASYNC : DDIR_SYNC;
		if (job.syncs++ % 2)
			job.unsynced[file] = 0;
		return true;
	}
	if (job.next == scenario->blocks)
		return false;
	file = job.next % scenario->files;
	job_set_file(io_u, file);
	io_u->ddir = scenario->reads ? DDIR_READ : DDIR_WRITE;
	io_u->offset = (uint64_t)(job.next++ / scenario->files) * scenario->block;
	io_u->xfer_buf = job.data[number];
	io_u->xfer_buflen = scenario->block;
	job.unsynced[file]++;
	if (!scenario->reads)
		fill(job.data[number], place_of(io_u), scenario->block);
	return true;
}

static void ended(uint32_t number, const struct io_u *io_u)
{
	uint64_t moved = io_u->xfer_buflen - io_u->resid;
	uint8_t wanted[BLOCK_MAX];

	if (io_u->error) {
		job.result->error = job.result->error ?: (int)io_u->error;
		job.stops = !job.scenario->goes_on;
		return;
	}
	job.result->moved += moved;
	if (io_u->ddir != DDIR_READ)
		return;
	fill(wanted, place_of(io_u), moved);
	job.result->sound &= !memcmp(wanted, job.data[number], moved);
}

static const struct workload workload = {.choose = choose, .ended = ended};

void scenario_fill_job(struct job *engine, const struct scenario *scenario)
{
	for (enum io_op op = IO_READ; op <= IO_WRITE; op++) {
		struct spread *spread = &engine->spread[op];

		spread->policy = (enum spread_policy)scenario->spread;
		spread->stripe_size = scenario->stripe ?: 2 * scenario->block;
		engine->io_max[op] =
			(op == IO_READ ? scenario->rsize : scenario->wsize) ?: scenario->block;
	}
	engine->group.job.clients = scenario->nclients;
	engine->group.job.client_depth = scenario->depth / (scenario->nclients ?: scenario->depth);
	engine->group.job.client_start = scenario->client_start;
	engine->fresh_max = scenario->depth;
	engine->stable = (enum io_stable)scenario->stable;
}

const char *scenario_job_refusal(const struct scenario *terms)
{
	if (terms->version != 3 && terms->version != 4)
		return "version is 3 or 4";
	if (!terms->depth || terms->depth > DEPTH_MAX)
		return "depth is 1 to 32";
	if (!terms->paths || terms->paths > PATHS_MAX || !terms->nconnect || terms->nconnect > 16)
		return "paths is 1 to 3, nconnect 1 to 16";
	if (terms->nclients &&
	    (terms->version == 4 || terms->nclients != terms->paths * terms->nconnect))
		return "nclients is paths * nconnect, with NFSv3";
	if (!terms->timeo || terms->slots > 64)
		return "timeo is at least 1, slots 64 at most";
	if (terms->spread > SPREAD_STRIPE || terms->stable > IO_FILE_SYNC)
		return "spread is of enum spread_policy, stable of enum io_stable";
	if (!terms->files || terms->files > SERVER_FILES_MAX || terms->blocks % terms->files)
		return "files is 1 to 4, and blocks a multiple of it";
	if (!terms->block || terms->block > BLOCK_MAX)
		return "block is 1 to 4096";
	if ((uint64_t)terms->blocks * terms->block > SERVER_FILE ||
	    terms->size > SERVER_FILE / terms->files)
		return "blocks and size are 32 KiB of all files at most";
	return NULL;
}

bool scenario_job_begin(const struct scenario *scenario)
{
	const uint32_t tls = scenario->tls ? (1u << scenario->paths) - 1 : 0;
	const struct server_terms well = {
		.gss = {.service = scenario->service, .window = 128},
		.nfs4 = {.clients = {.binds = scenario->binds,
				     .spans = true,
				     .uncached = scenario->uncached,
				     .slots = scenario->slots}},
	};
	const struct network_terms quick = {.latency = MSEC / 10, .window = scenario->window};
	const struct security_terms security = {.tls.paths = tls};
	bool opens;

	memset(&job, 0, sizeof(job));
	job.scenario = scenario;
	sim_job.terms = (struct job_terms){
		.nfs4 = scenario->version == 4,
		.soft = scenario->soft,
		.failover = scenario->failover,
		.trunks = scenario->trunks,
		.depth = scenario->depth,
		.path_count = scenario->paths,
		.per_path = scenario->nconnect,
		.files = scenario->files,
		.hold = scenario->hold,
		.service = scenario->service,
		.tls = tls,
		.timing = {.timeo = scenario->timeo * 100 * MSEC,
			   .retrans = scenario->retrans,
			   .jitter = scenario->jitter,
			   .soft = scenario->soft},
		.scenario = scenario,
	};
	sim_job.workload = &workload;
	sim_job.ended = sim_job.healed_at = 0;
	tls_server_begin(&security.tls);
	security_begin(&security.kdc);
	opens = job_set_up(&well);
	if (!opens)
		world_violated("the job does not open");
	network_fail(&quick);
	if (scenario->reads) {
		fill(server.memory, 0, SERVER_FILE);
		fill(server.disk, 0, SERVER_FILE);
	}
	if (scenario->nclients)
		sim_job.tick = MSEC; /* clients have deadlines, which group.c waits for */
	clock_read(&sim_job.engine.group.job.clock);
	return opens;
}

static void count(void)
{
	const struct group *group = &sim_job.engine.group;
	uint64_t first = group->conns[0]->counters.outages.begun;

	for (uint32_t i = 0; i < group->job.conn_count; i++) {
		const struct counters *counters = &group->conns[i]->counters;

		job.result->began = max_of(job.result->began, counters->outages.begun - first);

		job.result->reconnects += (uint32_t)counters->reconnects;
		job.result->retransmissions += (uint32_t)counters->retransmissions;
		job.result->rewritten += counters->rewritten_bytes;
		job.result->rtts += (uint32_t)group->conns[i]->latency.rtt.count;
	}
}

static bool is_durable(void)
{
	uint32_t bytes = job.scenario->blocks / job.scenario->files * job.scenario->block;
	uint8_t wanted[SERVER_FILE];
	bool durable = true;

	for (uint32_t file = 0; file < job.scenario->files; file++) {
		uint32_t place = server_place(file);

		fill(wanted, place, bytes);
		durable &= !memcmp(wanted, server.disk + place, bytes);
	}
	return durable;
}

void scenario_job_run(struct scenario_result *result)
{
	job.result = result;
	result->sound = true;
	do {
		for (uint32_t i = 0; i < job.scenario->depth; i++)
			job_begin_any();
		job_step();
	} while (job_outstanding() || (!job.stops && job.next < job.scenario->blocks));
	world.creeps = true;
	for (uint32_t file = 0; file < job.scenario->files; file++) {
		int error = job_sync_file(&sim_job.engine, file);

		result->error = result->error ?: -error;
	}
	world.creeps = false;
	count();
	result->unheard = network_asked_unheard();
	result->durable = is_durable();
}

void scenario_job_abandon(void)
{
	close(sim_job.engine.group.epoll_fd);
	network_abandon();
}
