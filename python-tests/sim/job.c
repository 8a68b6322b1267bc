/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include <string.h>

#include "client/client.h"
#include "group/connection.h"
#include "wire/rpcsec_gss.h"
#include "world.h"

struct sim_job sim_job;

/*
 * --- how long its terms let a call wait: nfs(5)'s rules, stated apart from the engine's timers.h;
 * upper bounds, in nanoseconds ---
 */

/* A call that was asked to come later, by NFS3ERR_JUKEBOX or NFS4ERR_DELAY, waits no longer. */
static const uint64_t LIMIT_DELAY = 5 * SEC;
/* The same, where all calls wait for it. */
static const uint64_t LIMIT_SETUP_DELAY = SEC;

/* Until a connection is there again, and a session: the terms do not say it. */
static const uint64_t LIMIT_CONNECT = 10 * SEC;

/* "retrans": a soft call fails when timeo, and as much again for each retransmission, is over. */
static uint64_t limit_soft(void)
{
	const struct rpc_timing *timing = &sim_job.timing;

	return timing->timeo * (timing->retrans + 1);
}

/*
 * "timeo": each copy of a call is waited for by timeo longer than the one before it, at most 600 s.
 * The wait for the latest copy of a call that has had no answer for `unanswered`, while connections
 * were lost so often: each of them may have cost a copy.
 */
static uint64_t limit_copy(uint64_t unanswered, uint64_t losses)
{
	static const uint64_t longest = 600 * SEC;
	uint64_t timeo = sim_job.timing.timeo, wait = timeo, passed = 0;

	while (passed + wait <= unanswered && wait < longest) {
		passed += wait;
		wait += timeo;
	}
	/* A connection is left after timeo where its session or context is not made: one more copy
	 * each time. And over NFSv4.1's a call is sent once, until the other limit ends that. */
	if (sim_job.terms.version == 4 || sim_job.terms.service)
		wait = unanswered + timeo;
	if (sim_job.terms.version == 4 && wait < limit_soft())
		wait = limit_soft();
	wait += losses * timeo;
	return wait < longest ? wait : longest;
}

/* --- I/Os --- */

static uint64_t losses(void)
{
	return world.failures[FAILED_RESET] + world.failures[FAILED_UNREACHED];
}

/* A sync waits for all I/Os that are outstanding, and for those that they wait for. One of many
 * clients sends so many I/Os at once: further ones wait for these. */
static void note_waits(uint32_t number)
{
	bool syncs = ddir_sync(sim_job.ios[number].io_u.ddir),
	     waits = syncs || sim_job.terms.nclients;

	sim_job.ios[number].waits_since = world.clock.now;
	sim_job.ios[number].losses = losses();
	for (uint32_t i = 0; i < sim_job.terms.depth && waits; i++) {
		uint64_t since = syncs ? sim_job.ios[i].waits_since : sim_job.ios[i].begun;

		if (!sim_job.ios[i].busy || since >= sim_job.ios[number].waits_since)
			continue;
		sim_job.ios[number].waits_since = since;
		sim_job.ios[number].losses = sim_job.ios[i].losses;
	}
}

void job_begin(uint32_t number)
{
	struct io_u *io_u = &sim_job.ios[number].io_u;

	sim_job.ios[number].busy = true;
	sim_job.ios[number].begun = world.clock.now;
	note_waits(number);
	io_u->index = number;
	io_u->error = 0;
	io_u->resid = 0;
	if (job_queue(&sim_job.td, io_u) != FIO_Q_QUEUED)
		world_violated("an I/O is not queued");
	job_commit(&sim_job.td);
}

void job_begin_any(void)
{
	uint32_t number = 0;

	while (number < sim_job.terms.depth && sim_job.ios[number].busy)
		number++;
	if (number < sim_job.terms.depth &&
	    sim_job.workload->choose(number, &sim_job.ios[number].io_u))
		job_begin(number);
}

uint32_t job_outstanding(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sim_job.terms.depth; i++)
		count += sim_job.ios[i].busy;
	return count;
}

/*
 * Nothing is outstanding for longer than `soft` allows, which with failover is a matter of the last
 * path alone; a sync waits for writes first. `hard` ends after all has healed.
 */
static void check_time(uint64_t begun, const struct io_u *io_u)
{
	const struct scenario *terms = &sim_job.terms;
	uint64_t most = limit_soft() * (ddir_sync(io_u->ddir) ? 2 : 1) + 30 * SEC;
	uint64_t took = world.clock.now - begun;

	if (terms->soft && sim_job.punctual && !terms->failover && took > most)
		world_violated("a soft %s took %.1f s", io_ddir_name(io_u->ddir),
			       (double)took / SEC);
}

static void take_one(struct io_u *io_u)
{
	uint32_t number = io_u->index;

	if (!sim_job.ios[number].busy) {
		world_violated("an I/O has completed twice");
		return;
	}
	sim_job.ios[number].busy = false;
	sim_job.ended++;
	check_time(sim_job.ios[number].begun, io_u);
	sim_job.workload->ended(number, io_u);
}

/* --- the run --- */

/* The next event; the engine waits no longer than a tick, and for its clients' deadlines. */
static uint64_t next_step(void)
{
	const struct group *group = &sim_job.engine.group;
	uint64_t next = min_of(world_next(), world.clock.now + sim_job.tick);

	return group->due ? min_of(next, max_of(group->next_due, world.clock.now)) : next;
}

void job_step(void)
{
	int ended = job_getevents(&sim_job.td, sim_job.td.terminate, DEPTH_MAX, NULL);

	for (int i = 0; i < ended; i++)
		take_one(job_event(&sim_job.td, i));
	if (ended <= 0 && !network_is_read())
		world_pass(next_step());
	clock_read(&sim_job.engine.group.job.clock);
}

/* What an I/O may take from when all has healed, or it began. */
static uint64_t most_after(uint32_t number)
{
	uint64_t since = sim_job.ios[number].waits_since, healed = sim_job.healed_at;
	uint64_t unanswered = healed > since ? healed - since : 0;
	uint64_t wait = limit_copy(unanswered, losses() - sim_job.ios[number].losses);

	return wait + limit_copy(0, 0) + LIMIT_DELAY + LIMIT_CONNECT;
}

static void check_alive(void)
{
	for (uint32_t i = 0; i < sim_job.terms.depth; i++) {
		uint64_t since = max_of(sim_job.ios[i].begun, sim_job.healed_at);

		if (sim_job.ios[i].busy && world.clock.now > since + most_after(i))
			world_violated("a %s has not ended within %.1f s after all has healed",
				       io_ddir_name(sim_job.ios[i].io_u.ddir),
				       (double)most_after(i) / SEC);
	}
}

void job_finish(void)
{
	while (job_outstanding() && !*world.violation) {
		job_step();
		check_alive();
	}
}

void job_heal(void)
{
	sim_job.healed_at = world.clock.now;
	network_heal();
	network_listen(true);
	server_heal();
}

static void set_timeo(uint64_t timeo)
{
	sim_job.timing.timeo = timeo;
	sim_job.tick = max_of(JOB_TICK, timeo / 50);
	for (uint32_t i = 0; i < sim_job.terms.paths; i++)
		sim_job.engine.used[i]->config.timing.timeo = timeo;
}

/*
 * --- the clients of a job that is many: whatever has failed, each is there again once all has
 * healed, and was served where it had I/O, or its errors are told of. Where there are none, these
 * do nothing ---
 */

static const struct rpc_client *clients[SERVER_CLIENTS_MAX]; /* those that there are, by number */

void job_note_client(uint32_t own, const struct rpc_client *rpc)
{
	clients[own - 1] = rpc;
}

/* All is lost: a client whose connection is says so, and what to do. */
static void check_causes(void)
{
	for (uint32_t i = 0; i < sim_job.terms.nclients; i++) {
		const struct conn *conn = sim_job.engine.group.conns[i];
		char why[CONN_TROUBLE] = "";

		conn->ops->trouble(conn, why);
		if (!clients[i]->link.up && strncmp(why, "connection lost (", 17) != 0 &&
		    strncmp(why, "refused (", 9) != 0)
			world_violated("client %u is lost, and told of as: %s", 1 + i, why);
	}
}

/* It can send I/O at once, and waits for nothing. */
static bool is_there(const struct rpc_client *rpc)
{
	return rpc->prepared && !rpc->setup && TAILQ_EMPTY(&rpc->sent) &&
	       TAILQ_EMPTY(&rpc->waiting) && TAILQ_EMPTY(&rpc->delayed);
}

static bool are_there(void)
{
	for (uint32_t i = 0; i < sim_job.terms.nclients; i++)
		if (!is_there(clients[i]))
			return false;
	return true;
}

/* What the end of a run tells of the client, by these counters (stats/counters.h). */
static void check_told(const struct conn *conn)
{
	const struct counters *counters = &conn->counters;
	uint64_t served = counters->read_ops + counters->write_ops + counters->meta_ops;
	uint32_t moves = server.moves[1 + conn->number];

	if (moves && !served && !counters->errors)
		world_violated("client %u, of %u calls, is told of as one without I/O",
			       1 + conn->number, moves);
	if (!counters->outages.up || (!counters->errors && !outages_over(&counters->outages)))
		world_violated("client %u is there, and told of as lost", 1 + conn->number);
}

/* All has healed, and no I/O is left: goes on until each client is there. */
static void return_clients(void)
{
	/* A call that nobody waits for, such as a renewal, may be sent again after 600 s. */
	uint64_t until = world.clock.now + 600 * SEC + LIMIT_CONNECT;
	bool aborted = sim_job.td.terminate;

	sim_job.td.terminate = false;
	while (!are_there() && !*world.violation) {
		job_step();
		if (world.clock.now > until)
			world_violated("a client is not there, though all has healed");
	}
	for (uint32_t i = 0; i < sim_job.terms.nclients && !aborted; i++)
		check_told(sim_job.engine.group.conns[i]);
}

/* --- endings: what goes on --- */

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

/* --- endings: what never comes back --- */

static void lose_for_good(void)
{
	switch (world_apart(3)) {
	case 0: server.fails.lose_call_in = 1; break; /* connects, and does not answer */
	case 1: network_listen(false); break;
	default:
		for (uint32_t i = 0; i < sim_job.terms.paths; i++)
			network_cut(i, UINT64_MAX);
	}
}

/*
 * Each call has its time. An I/O may take several in turn: a sync the COMMITs behind its writes, a
 * WRITE that waits for room the COMMIT before it, names a LOOKUP, and segments may wait for others.
 */
static uint64_t soft_limit(void)
{
	const struct scenario *terms = &sim_job.terms;
	uint64_t turns = sim_job.punctual ? 2 : 3 + JOB_PIECES_MAX / 2;

	if (terms->failover) /* each path may be the last */
		turns *= terms->paths;
	if (terms->nclients) /* one may have all of them, of which some wait for the others */
		turns += terms->depth * JOB_PIECES_MAX / sim_job.client_depth;
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
		check_causes();
		if (job_outstanding())
			world_violated("%u soft I/Os wait for what never comes back",
				       job_outstanding());
		return;
	}
	pass(2 * limit_soft() + LIMIT_CONNECT);
	check_causes();
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
	for (uint32_t i = 1; i < sim_job.terms.paths; i++)
		network_cut(i, UINT64_MAX);
	sim_job.terms.soft = false; /* the workload's: an I/O that fails is a violation */
	begin_all();
	pass(3 * LIMIT_CONNECT);
	if (job_outstanding())
		world_violated("%u I/Os wait for paths that are dead", job_outstanding());
	sim_job.terms.soft = soft;
}

/* --- endings: what comes back --- */

/* Calls go out when they are due: no call falls behind a window. */
static bool is_plain(void)
{
	const struct scenario *terms = &sim_job.terms;

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
	const struct scenario *terms = &sim_job.terms;
	uint64_t since = world.clock.now;

	world_tell("ending: a long silence");
	/* set-up forgives such steps of time, and clients take none */
	if (is_plain() && terms->version == 3 && !terms->nclients && world_apart(2))
		set_timeo((1 + world_apart(600)) * SEC);
	server.fails.lose_call_in = 1;
	begin_all();
	pass(world_apart(20 * sim_job.timing.timeo));
	come_back(limit_copy(world.clock.now - since, 0) +
		  (terms->version == 4 || terms->nclients ? LIMIT_CONNECT : 0));
}

/*
 * Asked to come later for so long that the waits have grown: each I/O, or the OPEN that all of them
 * wait for, as the server has forgotten the client.
 */
static void put_off(void)
{
	const struct scenario *terms = &sim_job.terms;
	bool setup = terms->version == 4 && !sim_job.metadata && world_apart(2);

	world_tell("ending: the server asks to wait%s", setup ? ", before I/O" : "");
	if (setup)
		clients_forget(&server_clients);
	server.fails.delay_in = 1;
	sim_job.punctual = false; /* soft: to be asked to wait is no silence */
	begin_all();
	pass(20 * SEC + world_apart(40 * SEC));
	come_back(setup ? LIMIT_SETUP_DELAY : LIMIT_DELAY);
}

/* One job in some ends so. All is healed afterwards. */
static void run_ending(void)
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

/* --- a seed's job --- */

/* An address is out of reach for a while, now and then. */
static void cut_by_chance(uint64_t in)
{
	uint32_t address = (uint32_t)world_random(sim_job.terms.paths);

	if (!world_chance(in))
		return;
	world.failures[FAILED_UNREACHED]++;
	network_cut(address, world_random(20 * SEC));
}

static void run_ios(uint32_t count, uint64_t cut_in)
{
	uint64_t ends = world.clock.now + 3600 * SEC;

	while (sim_job.ended < count && world.clock.now < ends && !*world.violation) {
		cut_by_chance(cut_in);
		for (uint64_t i = world_random(sim_job.terms.depth); i; i--)
			job_begin_any();
		job_step();
	}
	job_heal();
	job_finish();
	if (!*world.violation && sim_job.workload->settle)
		sim_job.workload->settle();
	run_ending();
	return_clients();
}

static uint64_t rarely(uint64_t most)
{
	return world_random(2) ? 0 : 10 + world_random(most);
}

static void choose_server(struct server_terms *terms, struct server_fails *fails)
{
	*fails = (struct server_fails){
		.crash_in = rarely(500),
		.lose_call_in = rarely(300),
		.lose_reply_in = rarely(300),
		.delay_in = rarely(100),
		.short_in = rarely(30),
		.full_in = rarely(200),
	};
	terms->eager_in = rarely(20);
	fails->service = world_random(100 * MSEC);
	fails->down = 1 + world_random(10 * SEC);
	fails->forget_session_in = rarely(1000);
	fails->forget_client_in = rarely(1000);
	fails->forget_open_in = rarely(500);
	fails->resize_in = rarely(100);
	fails->busy_in = rarely(100);
	terms->nfs4.closes_apart = !world_random(4);
	terms->nfs4.clients.binds = world_random(2);
	terms->nfs4.clients.spans = world_random(4);
}

static void choose_job(const struct server_fails *fails)
{
	struct scenario *terms = &sim_job.terms;

	sim_job = (struct sim_job){.terms.files = 1};
	terms->version = world_random(2) ? 4 : 3;
	terms->soft = !world_random(3);
	terms->depth = 1 + (uint32_t)world_random(DEPTH_MAX);
	terms->paths = 1 + (uint32_t)world_random(PATHS_MAX);
	terms->nconnect = 1 + (uint32_t)world_random(2);
	terms->hold = world_random(3) ? 0 : IO_MAX + (uint32_t)world_random(16 * IO_MAX);
	sim_job.metadata = !world_random(3);
	terms->hold = sim_job.metadata ? 0 : terms->hold;
	sim_job.timing = (struct rpc_timing){
		.timeo = (1 + world_random(100)) * 100 * MSEC,
		.retrans = (unsigned int)world_random(4),
		.soft = terms->soft,
	};
	terms->trunks = terms->version == 4 && world_random(2);
	terms->failover = terms->paths > 1 && world_random(2);
	sim_job.full = fails->full_in;
	sim_job.punctual = !fails->delay_in && !fails->short_in && terms->version == 3 &&
			   !terms->hold && !sim_job.metadata;
}

/* Some jobs are many clients, as the options allow it; seeds that are kept for something are one.
 */
static void choose_clients(uint64_t seed)
{
	struct scenario *terms = &sim_job.terms;

	if (terms->failover || terms->service || terms->depth == 1 ||
	    (seed % 5 != 1 && seed % 5 != 3))
		return;
	terms->nclients = max_of(1 + (uint32_t)world_apart(SERVER_CLIENTS_MAX), terms->paths);
	sim_job.client_depth = max_of(terms->depth / terms->nclients, 1u);
	if (world_apart(2))
		sim_job.client_depth = 1 + (uint32_t)world_apart(terms->depth);
	sim_job.timing.reconnect = world_apart(2) ? RECONNECT_JITTER : RECONNECT_BACKOFF;
	terms->trunks = sim_job.punctual = false;
}

static void tell_terms(uint64_t seed, const struct scenario *terms)
{
	world_tell("seed %llu: %s, %u files, NFSv%s, %u paths of %u connections, %u clients, "
		   "depth %u, %s%s%s%s%s%s, security %u",
		   (unsigned long long)seed, sim_job.metadata ? "metadata" : "data", terms->files,
		   terms->version == 4 ? "4.1" : "3", terms->paths, terms->nconnect,
		   terms->nclients, terms->depth, terms->soft ? "soft" : "hard",
		   terms->failover ? ", failover" : "", terms->hold ? ", a hold" : "",
		   sim_job.engine.stable ? ", FILE_SYNC" : "", terms->trunks ? ", one session" : "",
		   sim_job.discards ? ", discarding" : "", terms->service);
}

uint64_t job_run(uint64_t seed, uint32_t count, bool trace)
{
	struct network_terms network;
	struct server_terms terms = {0};
	struct server_fails fails;
	uint64_t cut_in;

	world_begin(seed, trace);
	network = (struct network_terms){1 + world_random(50 * MSEC), rarely(2000), 0};
	choose_server(&terms, &fails);
	cut_in = rarely(2000);
	choose_job(&fails);
	security_choose(seed, &terms.gss, &fails);
	sim_job.terms.service = terms.gss.service;
	sim_job.changes = fails.change_in;
	/* Seeds that are kept for something have one file, and no fragments. */
	if (!sim_job.metadata && (seed % 7 == 0 || seed % 7 == 2))
		sim_job.terms.files = 2 + 2 * (seed / 7 % 2);
	if (seed % 11 == 3 || seed % 11 == 4)
		fails.fragments = 64 + world_apart(2000);
	/* As the options allow it; one in five, of seeds that are kept for nothing else. */
	sim_job.discards = !sim_job.metadata && sim_job.terms.service <= GSS_SERVICE_NONE &&
			   (seed + 5) % 10 < 2;
	choose_clients(seed);
	sim_job.workload = sim_job.metadata ? &metadata_workload : &data_workload;
	sim_job.workload->begin();
	job_set_up(&terms);
	tell_terms(seed, &sim_job.terms);
	network_fail(&network);
	server.fails = fails;
	if (!*world.violation)
		run_ios(count, cut_in);
	job_tear_down();
	return sim_job.ended;
}
