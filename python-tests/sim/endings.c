/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include "network.h"
#include "world.h"

/* --- how long calls may wait --- */

uint64_t limit_soft(void)
{
	const struct rpc_timing *timing = &sim_job.terms.timing;

	return timing->timeo * (timing->retrans + 1);
}

uint64_t limit_copy(uint64_t unanswered, uint64_t losses)
{
	static const uint64_t longest = 600 * SEC;
	uint64_t timeo = sim_job.terms.timing.timeo, wait = timeo, passed = 0;

	while (passed + wait <= unanswered && wait < longest) {
		passed += wait;
		wait += timeo;
	}
	/* A connection is left after timeo where its session or context is not made: one more copy
	 * each time. And over NFSv4.1's a call is sent once, until the other limit ends that. */
	if (sim_job.terms.nfs4 || sim_job.terms.service)
		wait = unanswered + timeo;
	if (sim_job.terms.nfs4 && wait < limit_soft())
		wait = limit_soft();
	wait += losses * timeo;
	return wait < longest ? wait : longest;
}

/* --- what goes on --- */

static void begin_all(void)
{
	for (uint32_t i = 0; i < sim_job.terms.depth; i++)
		job_begin_any();
}

static void pass(uint64_t time)
{
	uint64_t until = world.clock.now + time;

	while (world.clock.now < until && job_outstanding() && !*world.violation)
		job_step();
}

/* --- what never comes back --- */

static void lose_for_good(void)
{
	switch (world_apart(3)) {
	case 0: server.fails.lose_call_in = 1; break; /* connects, and does not answer */
	case 1: network_listen(false); break;
	default:
		for (uint32_t i = 0; i < sim_job.terms.path_count; i++)
			network_cut(i, true);
	}
}

/*
 * Each call has its time. An I/O may take several in turn: a sync the COMMITs behind its writes, a
 * WRITE that waits for room the COMMIT before it, names a LOOKUP, and segments may wait for others.
 */
static uint64_t soft_limit(void)
{
	const struct job_terms *terms = &sim_job.terms;
	uint64_t turns = terms->punctual ? 2 : 3 + JOB_PIECES_MAX / 2;

	if (terms->failover) /* each path may be the last */
		turns *= terms->path_count;
	if (terms->clients) /* one may have all of them, of which some wait for the others */
		turns += terms->depth * JOB_PIECES_MAX / terms->client_depth;
	return turns * (limit_soft() + LIMIT_CONNECT);
}

/* soft: all fail in their time. hard: none ends until the job is told to. */
static void gone(void)
{
	uint64_t since;

	world_tell("ending: all is lost for good");
	lose_for_good();
	begin_all();
	if (sim_job.terms.soft) {
		pass(soft_limit());
		nclients_check_causes();
		if (job_outstanding())
			world_violated("%u soft I/Os wait for what never comes back",
				       job_outstanding());
		return;
	}
	pass(2 * limit_soft() + LIMIT_CONNECT);
	nclients_check_causes();
	sim_job.td.terminate = true;
	world.creeps = true; /* the engine waits by itself */
	since = world.clock.now;
	while (job_outstanding() && !*world.violation) {
		job_step();
		if (world.clock.now > since + SEC)
			world_violated("%u I/Os go on when the job is told to end",
				       job_outstanding());
	}
	world.creeps = false;
}

/*
 * One path is left, to which all goes: nothing fails, even where calls are soft. A dead path shows
 * by some seconds of silence.
 */
static void one_is_left(void)
{
	const bool soft = sim_job.terms.soft;

	if (sim_job.engine.replay.broken) /* the job has failed: it writes no more */
		return;
	world_tell("ending: one path is left");
	for (uint32_t i = 1; i < sim_job.terms.path_count; i++)
		network_cut(i, true);
	sim_job.terms.soft = false; /* the workload's: an I/O that fails is a violation */
	begin_all();
	pass(3 * LIMIT_CONNECT);
	if (job_outstanding())
		world_violated("%u I/Os wait for paths that are dead", job_outstanding());
	sim_job.terms.soft = soft;
}

/* --- what comes back --- */

/* Calls go out when they are due: no call falls behind a window. */
static bool is_plain(void)
{
	const struct job_terms *terms = &sim_job.terms;

	return !terms->service && !terms->failover;
}

/* All is well again: what is outstanding ends within `most`, if the job is plain. */
static void come_back(uint64_t most)
{
	uint64_t until = world.clock.now + most + 2 * sim_job.tick + SEC;

	job_heal();
	if (is_plain()) {
		pass(until - world.clock.now);
		if (job_outstanding() && world.clock.now >= until)
			world_violated("%u I/Os have not ended within %.1f s after all has healed",
				       job_outstanding(), (double)most / SEC);
	}
	job_finish();
}

/*
 * Nothing is answered, for up to twenty times timeo, up to 600 s each. Each call then waits for
 * the answer to its latest copy; calls after it, if there are any, are answered at once.
 */
static void away(void)
{
	const struct job_terms *terms = &sim_job.terms;
	uint64_t since = world.clock.now;

	world_tell("ending: a long silence");
	/* set-up forgives such steps of time, and clients take none */
	if (is_plain() && !terms->nfs4 && !terms->clients && world_apart(2))
		job_set_timeo((1 + world_apart(600)) * SEC);
	server.fails.lose_call_in = 1;
	begin_all();
	pass(world_apart(20 * terms->timing.timeo));
	come_back(limit_copy(world.clock.now - since, 0) +
		  (terms->nfs4 || terms->clients ? LIMIT_CONNECT : 0));
}

/*
 * Asked to come later for so long that the waits have grown: each I/O, or the OPEN that all of them
 * wait for, as the server has forgotten the client.
 */
static void put_off(void)
{
	const struct job_terms *terms = &sim_job.terms;
	bool setup = terms->nfs4 && !terms->metadata && world_apart(2);

	world_tell("ending: the server asks to wait%s", setup ? ", before I/O" : "");
	if (setup)
		clients_forget(&server_clients);
	server.fails.delay_in = 1;
	sim_job.terms.punctual = false; /* soft: to be asked to wait is no silence */
	begin_all();
	pass(20 * SEC + world_apart(40 * SEC));
	come_back(setup ? LIMIT_SETUP_DELAY : LIMIT_DELAY);
}

void ending_run(void)
{
	static void (*const endings[])(void) = {gone, away, away, put_off, one_is_left};
	uint64_t ending;

	if (*world.violation || world_apart(4))
		return;
	ending = world_apart(ARRAY_SIZE(endings) - !sim_job.terms.failover);
	sim_job.healed_at = 0;
	endings[ending]();
	job_heal();
}
