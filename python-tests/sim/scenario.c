/* SPDX-License-Identifier: GPL-2.0-only */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job.h"
#include "world.h"

enum { VERSIONS = 2, PROCEDURES = 80, BLOCK_MAX = 4096 };

/* Of the world's time: then all is well, and soon the job is left where it waits. */
static const uint64_t HEALS = 600 * SEC, ENDS = 1200 * SEC;

static struct {
	const struct scenario *terms;
	struct scenario_result *result;
	bool under_way; /* its I/O is */
	uint64_t begun_at;
	uint32_t nth[VERSIONS][PROCEDURES], refused; /* xid */

	/* Its I/Os: from its first block to its last, then a sync, as at close. */
	uint32_t next;			     /* block */
	uint32_t unsynced[SERVER_FILES_MAX]; /* blocks of each file */
	uint32_t syncs;			     /* two fsyncs, then two fdatasyncs, by turns */
	bool stops;			     /* an I/O has failed */
	uint8_t data[DEPTH_MAX][BLOCK_MAX];
} run;

/* --- the server's calls --- */

static void act(enum scenario_act what, uint32_t address)
{
	switch (what) {
	case SCENARIO_NOTHING: break;
	case SCENARIO_REFUSE: network_listen(false); break;
	case SCENARIO_EXPIRE: clients_forget(&server_clients); break;
	case SCENARIO_REVOKE: clients_forget_opens(&server_clients); break;
	case SCENARIO_SESSIONS: clients_forget_sessions(&server_clients); break;
	case SCENARIO_REFUSE_ADDRESS: network_refuse(address); break;
	case SCENARIO_CONTEXTS: contexts_restart(); break;
	case SCENARIO_TICKETS: contexts_refuse(world.clock.now + 10 * SEC); break;
	}
}

struct scenario_call *scenario_received(const struct scenario_call *call,
					struct scenario_fate *fate)
{
	struct scenario_result *result = run.result;
	struct scenario_call *kept;

	if (!run.under_way)
		return NULL;
	if (result->calls == ARRAY_SIZE(result->log) || call->procedure >= PROCEDURES) {
		world_violated("the scenario's log has no room for call %u", result->calls);
		return NULL;
	}
	kept = &result->log[result->calls++];
	*kept = *call;
	kept->time = world.clock.now - run.begun_at;
	kept->nth = ++run.nth[call->version == 4][call->procedure];
	run.terms->decide(kept, fate);
	act(fate->act, call->address);
	if (fate->cut)
		network_cut(call->address, fate->cut);
	if (fate->forgets)
		server_forget();
	if (fate->refused)
		run.refused = call->xid;
	return kept;
}

bool scenario_refused(uint32_t xid)
{
	return run.under_way && run.refused == xid;
}

void scenario_answered(struct scenario_call *call)
{
	if (call)
		call->answered = world.clock.now - run.begun_at;
}

void scenario_connects(void)
{
	struct scenario_result *result = run.result;

	if (run.under_way && result->connects < ARRAY_SIZE(result->connected))
		result->connected[result->connects++] = world.clock.now - run.begun_at;
}

void scenario_said(const char *line)
{
	if (run.under_way)
		run.terms->say(line);
}

/* --- the job --- */

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
	       (!run.terms->fsync || run.unsynced[file] < run.terms->fsync))
		file++;
	return file;
}

static bool choose(uint32_t number, struct io_u *io_u)
{
	const struct scenario *scenario = run.terms;
	uint32_t file = due();

	if (run.stops)
		return false;
	io_u->offset = io_u->xfer_buflen = 0;
	if (file < SERVER_FILES_MAX) {
		job_set_file(io_u, file);
		io_u->ddir = run.syncs / 2 % 2 ? DDIR_DATASYNC : DDIR_SYNC;
		if (run.syncs++ % 2)
			run.unsynced[file] = 0;
		return true;
	}
	if (run.next == scenario->blocks)
		return false;
	file = run.next % scenario->files;
	job_set_file(io_u, file);
	io_u->ddir = scenario->reads ? DDIR_READ : DDIR_WRITE;
	io_u->offset = (uint64_t)(run.next++ / scenario->files) * scenario->block;
	io_u->xfer_buf = run.data[number];
	io_u->xfer_buflen = scenario->block;
	run.unsynced[file]++;
	if (!scenario->reads)
		fill(run.data[number], place_of(io_u), scenario->block);
	return true;
}

static void ended(uint32_t number, const struct io_u *io_u)
{
	uint64_t moved = io_u->xfer_buflen - io_u->resid;
	uint8_t wanted[BLOCK_MAX];

	if (io_u->error) {
		run.result->error = run.result->error ?: (int)io_u->error;
		run.stops = !run.terms->goes_on;
		return;
	}
	run.result->moved += moved;
	if (io_u->ddir != DDIR_READ)
		return;
	fill(wanted, place_of(io_u), moved);
	run.result->sound &= !memcmp(wanted, run.data[number], moved);
}

static const struct workload workload = {.choose = choose, .ended = ended};

/* The simulator has room for it, and it can do something. */
static bool is_possible(const struct scenario *terms)
{
	return (terms->version == 3 || terms->version == 4) && terms->timeo &&
	       terms->depth - 1 < DEPTH_MAX && terms->paths - 1 < PATHS_MAX &&
	       terms->nconnect - 1 < 16 && terms->slots <= 64 && terms->block - 1 < BLOCK_MAX &&
	       terms->files - 1 < SERVER_FILES_MAX && !(terms->blocks % terms->files) &&
	       (!terms->nclients ||
		(terms->nclients >= terms->paths && terms->nclients <= terms->depth)) &&
	       terms->spread <= SPREAD_STRIPE && terms->stable <= IO_FILE_SYNC &&
	       (uint64_t)terms->blocks * terms->block <= SERVER_FILE &&
	       terms->size <= SERVER_FILE / terms->files;
}

/* False: the job does not open. */
static bool set_up(const struct scenario *scenario)
{
	const struct server_terms server_terms = {
		.gss = {.service = scenario->service, .window = 128},
		.nfs4 = {.lease = scenario->lease,
			 .clients = {.binds = scenario->binds,
				     .spans = true,
				     .uncached = scenario->uncached,
				     .slots = scenario->slots}},
	};
	const struct network_terms quick = {.latency = MSEC / 10, .window = scenario->window};
	bool opens;

	sim_job = (struct sim_job){
		.terms = *scenario,
		.client_depth = scenario->nclients ? scenario->depth / scenario->nclients : 0,
		.timing = {.timeo = scenario->timeo * 100 * MSEC,
			   .retrans = scenario->retrans,
			   .reconnect = scenario->reconnect,
			   .soft = scenario->soft},
		.workload = &workload,
	};
	sim_job.terms.rsize = scenario->rsize ?: scenario->block;
	sim_job.terms.wsize = scenario->wsize ?: scenario->block;
	sim_job.terms.stripe = scenario->stripe ?: 2 * scenario->block;
	opens = job_set_up(&server_terms);
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
	uint64_t first = group->conns[0]->counters.outages.begun;

	for_each_conn (group, conn) {
		const struct counters *counters = &conn->counters;

		run.result->began = max_of(run.result->began, counters->outages.begun - first);
		run.result->reconnects += (uint32_t)counters->reconnects;
		run.result->retransmissions += (uint32_t)counters->retransmissions;
		run.result->rewritten += counters->rewritten_bytes;
		run.result->contexts += counters->security.count;
		run.result->making += counters->security.time;
		run.result->rtts += (uint32_t)conn->latency.rtt.count;
	}
}

static bool is_durable(void)
{
	uint32_t bytes = run.terms->blocks / run.terms->files * run.terms->block;
	uint8_t wanted[SERVER_FILE];
	bool durable = true;

	for (uint32_t file = 0; file < run.terms->files; file++) {
		uint32_t place = server_place(file);

		fill(wanted, place, bytes);
		durable &= !memcmp(wanted, server.disk + place, bytes);
	}
	return durable;
}

static void run_ios(struct scenario_result *result)
{
	result->sound = true;
	do {
		for (uint32_t i = 0; i < run.terms->depth; i++)
			job_begin_any();
		job_step();
	} while (job_outstanding() || (!run.stops && run.next < run.terms->blocks));
	world.creeps = true;
	for (uint32_t file = 0; file < run.terms->files; file++) {
		int error = job_sync_file(&sim_job.engine, file);

		result->error = result->error ?: -error;
	}
	world.creeps = false;
	count();
	result->unheard = network_asked_unheard();
	result->durable = is_durable();
}

/* --- the run --- */

/* Even a hard job ends once all is well: what would wait for ever is told, and no test hangs. */
static void give_up(void *context)
{
	world_violated("the job has not ended within 600 s");
	run.under_way = false;
	job_heal();
}

static void run_job(void *context)
{
	struct scenario_result *result = context;

	if (set_up(run.terms)) {
		run.under_way = true;
		run.begun_at = world.clock.now;
		world_plan(HEALS, give_up, NULL, NULL);
		run_ios(result);
		result->took = world.clock.now - run.begun_at;
		run.under_way = false;
	}
	job_heal();
	job_tear_down();
	result->keeps = server4_keeps();
}

void scenario_run(const struct scenario *scenario, struct scenario_result *result)
{
	memset(&run, 0, sizeof(run));
	run.terms = scenario;
	run.result = result;
	*result = (struct scenario_result){.keeps = ""};
	world_begin(1, scenario->trace);
	if (!is_possible(scenario)) {
		world_violated("the simulator has no room for such a job");
	} else if (!world_run(run_job, result, ENDS)) {
		world_violated("the engine waits for ever");
		run.under_way = false;
		world_end();
		close(sim_job.engine.group.epoll_fd);
		network_abandon();
	}
	result->violation = world.violation;
}
