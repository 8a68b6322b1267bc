/* SPDX-License-Identifier: GPL-2.0-only */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"
#include "scenario_job.h"
#include "server.h"
#include "world.h"

enum { CALLS_MAX = 4096, LINES_MAX = 256, LINE = 300, VERSIONS = 2, PROCEDURES = 80 };

/* Of the world's time: then all is well, and soon the job is left where it waits. */
static const uint64_t HEALS = 600 * SEC, ENDS = 1200 * SEC;

static struct {
	const struct scenario *terms;
	const struct scenario *scenario; /* the same, while I/O is under way; else NULL */
	uint64_t begun_at;
	struct scenario_call calls[CALLS_MAX];
	uint32_t call_count, line_count, nth[VERSIONS][PROCEDURES];
	char lines[LINES_MAX][LINE];
} run;

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
	return kept;
}

void scenario_answered(struct scenario_call *call)
{
	if (call)
		call->answered = world.clock.now - run.begun_at;
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

/* --- the run --- */

/* Even a hard job ends once all is well: what would wait for ever is told, and no test hangs. */
static void give_up(void *context)
{
	world_violated("the job has not ended within 600 s");
	run.scenario = NULL;
	server_heal();
	network_heal();
	network_listen(true);
}

static void run_job(void *context)
{
	struct scenario_result *result = context;

	if (scenario_job_begin(run.terms)) {
		run.scenario = run.terms;
		run.begun_at = world.clock.now;
		world_plan(HEALS, give_up, NULL, NULL);
		scenario_job_run(result);
		result->took = world.clock.now - run.begun_at;
		run.scenario = NULL;
	}
	server_heal();
	network_heal();
	network_listen(true);
	job_tear_down();
	result->keeps = server4_keeps();
}

void scenario_run(const struct scenario *scenario, struct scenario_result *result)
{
	const char *refused = scenario_job_refusal(scenario);

	memset(&run.nth, 0, sizeof(run.nth));
	run.call_count = run.line_count = 0;
	run.terms = scenario;
	*result = (struct scenario_result){.keeps = ""};
	world_begin(1, scenario->trace);
	if (refused) {
		world_violated("no such scenario: %s", refused);
	} else if (!world_run(run_job, result, ENDS)) {
		world_violated("the engine waits for ever");
		run.scenario = NULL;
		world_end();
		scenario_job_abandon();
	}
	result->calls = run.call_count;
	result->lines = run.line_count;
	result->lost = lost_bytes();
	result->violation = world.violation;
}
