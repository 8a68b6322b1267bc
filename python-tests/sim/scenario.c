/* SPDX-License-Identifier: GPL-2.0-only */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fio/job.h"
#include "job.h"
#include "network.h"
#include "security.h"
#include "world.h"

enum { CALLS_MAX = 4096, LINES_MAX = 256, LINE = 300, VERSIONS = 2, PROCEDURES = 80 };
enum { BLOCK_MAX = 4096 };

/* Of the world's time: then all is well, and soon the job is left where it waits. */
static const uint64_t HEALS = 600 * SEC, ENDS = 1200 * SEC;

static struct {
	const struct scenario *terms;
	const struct scenario *scenario; /* the same, while I/O is under way; else NULL */
	uint64_t begun_at;
	struct scenario_call calls[CALLS_MAX];
	uint32_t call_count, line_count, nth[VERSIONS][PROCEDURES];
	uint32_t refused; /* xid */
	char lines[LINES_MAX][LINE];
} run;

/* Its I/Os: from its first block to its last, then a sync, as at close. */
static struct {
	struct scenario_result *result;
	uint32_t next;			     /* block */
	uint32_t unsynced[SERVER_FILES_MAX]; /* blocks of each file */
	uint32_t syncs;			     /* two fsyncs, then two fdatasyncs, by turns */
	bool stops;			     /* an I/O has failed */
	uint8_t data[DEPTH_MAX][BLOCK_MAX];
} job;

const struct scenario_call *scenario_calls(void)
{
	return run.calls;
}

const char *scenario_line(uint32_t number)
{
	return run.lines[number];
}

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

static void restore(void *address)
{
	network_cut((uint32_t)(uintptr_t)address, false);
}

static void cut_off(uint32_t address, uint64_t time)
{
	network_cut(address, true);
	world_plan(time, restore, NULL, (void *)(uintptr_t)address);
}

struct scenario_call *scenario_received(const struct scenario_call *call,
					struct scenario_fate *fate)
{
	struct scenario_call *kept = &run.calls[run.call_count];

	if (!run.scenario)
		return NULL;
	if (run.call_count == CALLS_MAX || call->procedure >= PROCEDURES) {
		world_violated("the scenario's log has no room for call %u", run.call_count);
		return NULL;
	}
	run.call_count++;
	*kept = *call;
	kept->time = world.clock.now - run.begun_at;
	kept->nth = ++run.nth[call->version == 4][call->procedure];
	run.scenario->decide(run.scenario->context, kept, fate);
	act(fate->act, call->address);
	if (fate->cut)
		cut_off(call->address, fate->cut);
	if (fate->forgets)
		server_forget();
	if (fate->refused)
		run.refused = call->xid;
	return kept;
}

bool scenario_refused(uint32_t xid)
{
	return run.scenario && run.refused == xid;
}

void scenario_answered(struct scenario_call *call)
{
	if (call)
		call->answered = world.clock.now - run.begun_at;
}

void scenario_connects(void)
{
	struct scenario_result *result = job.result;

	if (run.scenario && result->connects < ARRAY_SIZE(result->connected))
		result->connected[result->connects++] = world.clock.now - run.begun_at;
}

/* --- the engine's lines --- */

void scenario_said(const char *line)
{
	if (run.scenario && run.line_count < LINES_MAX)
		snprintf(run.lines[run.line_count++], LINE, "%s", line);
}

/* Bytes that the lines report: "path 0: 4096 bytes of "f" may be lost". */
static uint64_t lost_bytes(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < run.line_count; i++) {
		const char *at = strstr(run.lines[i], " bytes of \"");

		if (!at || !strstr(at, "may be lost"))
			continue;
		while (at > run.lines[i] && at[-1] != ' ')
			at--;
		sum += strtoull(at, NULL, 10);
	}
	return sum;
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
	       (!run.terms->fsync || job.unsynced[file] < run.terms->fsync))
		file++;
	return file;
}

static bool choose(uint32_t number, struct io_u *io_u)
{
	const struct scenario *scenario = run.terms;
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
		job.stops = !run.terms->goes_on;
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
	engine->group.job.client_start = scenario->client_start;
	engine->fresh_max = scenario->depth;
	engine->stable = (enum io_stable)scenario->stable;
}

/* Why there is no such job, or NULL. */
static const char *refusal(const struct scenario *terms)
{
	if (terms->version != 3 && terms->version != 4)
		return "version is 3 or 4";
	if (!terms->depth || terms->depth > DEPTH_MAX)
		return "depth is 1 to 32";
	if (!terms->paths || terms->paths > PATHS_MAX || !terms->nconnect || terms->nconnect > 16)
		return "paths is 1 to 3, nconnect 1 to 16";
	if (terms->nclients && (terms->nclients < terms->paths || terms->nclients > terms->depth))
		return "nclients is paths to depth";
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

/* False: the job does not open. */
static bool set_up(const struct scenario *scenario)
{
	const struct server_terms well = {
		.gss = {.service = scenario->service, .window = 128},
		.nfs4 = {.lease = scenario->lease,
			 .clients = {.binds = scenario->binds,
				     .spans = true,
				     .uncached = scenario->uncached,
				     .slots = scenario->slots}},
	};
	const struct network_terms quick = {.latency = MSEC / 10, .window = scenario->window};
	const struct kdc_terms kdc_terms = {0};
	bool opens;

	memset(&job, 0, sizeof(job));
	sim_job.terms = (struct job_terms){
		.nfs4 = scenario->version == 4,
		.soft = scenario->soft,
		.failover = scenario->failover,
		.trunks = scenario->trunks,
		.depth = scenario->depth,
		.path_count = scenario->paths,
		.per_path = scenario->nconnect,
		.clients = scenario->nclients,
		.client_depth = scenario->nclients ? scenario->depth / scenario->nclients : 0,
		.files = scenario->files,
		.hold = scenario->hold,
		.service = scenario->service,
		.timing = {.timeo = scenario->timeo * 100 * MSEC,
			   .retrans = scenario->retrans,
			   .reconnect = scenario->reconnect,
			   .soft = scenario->soft},
		.scenario = scenario,
	};
	sim_job.workload = &workload;
	sim_job.ended = sim_job.healed_at = 0;
	security_begin(&kdc_terms);
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
	uint64_t first = group->conns[0]->counters.outages.begun;

	for (uint32_t i = 0; i < group->job.conn_count; i++) {
		const struct counters *counters = &group->conns[i]->counters;

		job.result->began = max_of(job.result->began, counters->outages.begun - first);
		job.result->reconnects += (uint32_t)counters->reconnects;
		job.result->retransmissions += (uint32_t)counters->retransmissions;
		job.result->rewritten += counters->rewritten_bytes;
		job.result->contexts += counters->security.count;
		job.result->making += counters->security.time;
		job.result->rtts += (uint32_t)group->conns[i]->latency.rtt.count;
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
	job.result = result;
	result->sound = true;
	do {
		for (uint32_t i = 0; i < run.terms->depth; i++)
			job_begin_any();
		job_step();
	} while (job_outstanding() || (!job.stops && job.next < run.terms->blocks));
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
	run.scenario = NULL;
	job_heal();
}

static void run_job(void *context)
{
	struct scenario_result *result = context;

	if (set_up(run.terms)) {
		run.scenario = run.terms;
		run.begun_at = world.clock.now;
		world_plan(HEALS, give_up, NULL, NULL);
		run_ios(result);
		result->took = world.clock.now - run.begun_at;
		run.scenario = NULL;
	}
	job_heal();
	job_tear_down();
	result->keeps = server4_keeps();
}

void scenario_run(const struct scenario *scenario, struct scenario_result *result)
{
	const char *refused = refusal(scenario);

	memset(&run.nth, 0, sizeof(run.nth));
	run.call_count = run.line_count = run.refused = 0;
	run.terms = scenario;
	*result = (struct scenario_result){.keeps = ""};
	world_begin(1, scenario->trace);
	if (refused) {
		world_violated("no such scenario: %s", refused);
	} else if (!world_run(run_job, result, ENDS)) {
		world_violated("the engine waits for ever");
		run.scenario = NULL;
		world_end();
		close(sim_job.engine.group.epoll_fd);
		network_abandon();
	}
	result->calls = run.call_count;
	result->lines = run.line_count;
	result->lost = lost_bytes();
	result->violation = world.violation;
}
