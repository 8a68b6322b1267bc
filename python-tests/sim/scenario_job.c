/* SPDX-License-Identifier: GPL-2.0-only */
#include "scenario_job.h"

#include <string.h>

#include "fio/job_io.h"
#include "network.h"
#include "security.h"
#include "tls_server.h"
#include "world.h"

enum { BLOCK_MAX = 4096 };

static struct {
	const struct scenario *scenario;
	struct scenario_result *result;
	uint32_t next, unsynced; /* blocks */
	uint32_t syncs;		 /* two fsyncs, then two fdatasyncs, by turns */
	bool stops;		 /* an I/O has failed */
	uint8_t data[DEPTH_MAX][BLOCK_MAX];
} job;

/* Each word of a file says where it stands. */
static void fill(uint8_t *bytes, uint64_t offset, uint64_t length)
{
	for (uint64_t at = 0; at < length; at += sizeof(at)) {
		uint64_t word = offset + at + 1;

		memcpy(bytes + at, &word, sizeof(word));
	}
}

static bool choose(uint32_t number, struct io_u *io_u)
{
	const struct scenario *scenario = job.scenario;

	if (job.stops)
		return false;
	io_u->offset = io_u->xfer_buflen = 0;
	if (scenario->fsync && job.unsynced == scenario->fsync) {
		io_u->ddir = job.syncs / 2 % 2 ? DDIR_DATASYNC : DDIR_SYNC;
		if (job.syncs++ % 2)
			job.unsynced = 0;
		return true;
	}
	if (job.next == scenario->blocks)
		return false;
	io_u->ddir = scenario->reads ? DDIR_READ : DDIR_WRITE;
	io_u->offset = (uint64_t)job.next++ * scenario->block;
	io_u->xfer_buf = job.data[number];
	io_u->xfer_buflen = scenario->block;
	job.unsynced++;
	if (!scenario->reads)
		fill(job.data[number], io_u->offset, scenario->block);
	return true;
}

static void ended(uint32_t number, const struct io_u *io_u)
{
	uint8_t wanted[BLOCK_MAX];

	if (io_u->error) {
		job.result->error = job.result->error ?: (int)io_u->error;
		job.stops = !job.scenario->goes_on;
	} else if (io_u->ddir == DDIR_READ) {
		fill(wanted, io_u->offset, io_u->xfer_buflen);
		job.result->sound &= !memcmp(wanted, job.data[number], io_u->xfer_buflen);
	}
}

static const struct workload workload = {.choose = choose, .ended = ended};

void scenario_fill_job(struct job *engine, const struct scenario *scenario)
{
	for (enum io_op op = IO_READ; op <= IO_WRITE; op++) {
		struct spread *spread = &engine->spread[op];

		spread->policy = (enum spread_policy)scenario->spread;
		spread->stripe_size = 2 * scenario->block;
		engine->io_max[op] = BLOCK_MAX;
	}
	engine->fresh_max = scenario->depth;
	engine->stable = (enum io_stable)scenario->stable;
}

bool scenario_job_begin(const struct scenario *scenario)
{
	const struct server_terms well = {
		.nfs4 = {.binds = scenario->binds,
			 .spans = true,
			 .uncached = scenario->uncached,
			 .slots = scenario->slots},
	};
	const struct network_terms quick = {.latency = MSEC / 10};
	const struct security_terms security = {0};
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
		.hold = scenario->hold,
		.timing = {.timeo = scenario->timeo * 100 * MSEC,
			   .retrans = scenario->retrans,
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
	clock_read(&sim_job.engine.group.job.clock);
	return opens;
}

static void count(void)
{
	const struct group *group = &sim_job.engine.group;

	for (uint32_t i = 0; i < group->job.conn_count; i++) {
		const struct counters *counters = &group->conns[i]->counters;

		job.result->reconnects += (uint32_t)counters->reconnects;
		job.result->retransmissions += (uint32_t)counters->retransmissions;
		job.result->rewritten += counters->rewritten_bytes;
	}
}

void scenario_job_run(struct scenario_result *result)
{
	uint64_t bytes = (uint64_t)job.scenario->blocks * job.scenario->block;
	uint8_t wanted[SERVER_FILE];
	int error;

	job.result = result;
	result->sound = true;
	do {
		for (uint32_t i = 0; i < job.scenario->depth; i++)
			job_begin_any();
		job_step();
	} while (job_outstanding() || (!job.stops && job.next < job.scenario->blocks));
	world.creeps = true;
	error = job_sync_file(&sim_job.engine, 0);
	world.creeps = false;
	result->error = result->error ?: -error;
	count();
	fill(wanted, 0, bytes);
	result->durable = !memcmp(wanted, server.disk, bytes);
}
