/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fio/job_terms.h"
#include "fio/job.h"
#include "fio/job_log.h"
#include "nfs/entries.h"
#include "nfs/meta.h"
#include "nfs/meta_io.h"
#include "nfs/names.h"
#include "nfs/path_client.h"
#include "nfs/version.h"
#include "security.h"
#include "server.h"
#include "wire/rpcsec_gss.h"
#include "world.h"

static const uint64_t TICK = 100 * MSEC;

struct sim_job sim_job;

/* An I/O as fio has it. */
static struct {
	struct io_u io_u;
	bool busy;
	uint64_t begun;
	/* When the oldest I/O began that this one waits for, or it itself; and the losses of
	 * connections before that. */
	uint64_t waits_since;
	uint64_t losses;
} ios[DEPTH_MAX];

static struct path *paths[PATHS_MAX];
static char file_names[SERVER_FILES_MAX][8] = {"file", "file1", "file2", "file3"};
static struct fio_file files[SERVER_FILES_MAX];

struct io_u *job_io(uint32_t number)
{
	return &ios[number].io_u;
}

const char *job_file(uint32_t number)
{
	return file_names[number];
}

void job_set_file(struct io_u *io_u, uint32_t file)
{
	files[file].file_name = file_names[file];
	files[file].fileno = (int)file;
	io_u->file = &files[file];
}

/* --- the engine's job, as its job_open() makes it --- */

static uint32_t count_conns(const struct job_terms *terms)
{
	return terms->clients ?: terms->path_count * terms->per_path;
}

static struct spread spread(const struct job_terms *terms)
{
	return (struct spread){
		.policy = (enum spread_policy)world_random(SPREAD_STRIPE + 1),
		.step = 1,
		.count = count_conns(terms),
		.stripe_size = PIECE_MIN + world_random(2 * IO_MAX),
		.load = sim_job.engine.load,
	};
}

static void fill_td(struct thread_data *td, const struct job_terms *terms)
{
	static struct terms options;

	if (!terms->nfs4)
		world_random(2); /* seeds that are kept count it */
	td->error = td->first_error = 0;
	td->terminate = false;
	td->eo = &options;
	td->o.iodepth = terms->depth;
	td->o.nr_files = terms->files;
	td->o.disable_clat = td->o.disable_slat = td->o.disable_bw = 1;
	td->io_ops_data = &sim_job.engine;
}

static void allocate(struct job *job, uint32_t depth, uint32_t count)
{
	job->ios = calloc(count, sizeof(*job->ios));
	job->commit_ios = calloc(count, sizeof(*job->commit_ios));
	job->metas = calloc(count, sizeof(*job->metas));
	job->requests = calloc(depth + 1, sizeof(*job->requests));
	job->writes = calloc(SERVER_FILES_MAX, sizeof(*job->writes));
	job->fresh = calloc(depth, sizeof(*job->fresh));
	job->done = calloc(depth, sizeof(*job->done));
	job->done_size = depth;
	for (int op = 0; op < IO_OPS; op++)
		TAILQ_INIT(&job->pending[op]);
	TAILQ_INIT(&job->syncs);
	TAILQ_INIT(&job->shared);
	TAILQ_INIT(&job->idle);
	for (uint32_t i = 0; i < count; i++) {
		job->ios[i].commit = &job->commit_ios[i];
		job->ios[i].meta = &job->metas[i];
		TAILQ_INSERT_TAIL(&job->idle, &job->ios[i], link);
	}
}

static void free_engine(struct job *job)
{
	hold_free(&job->hold);
	spread_load_free(job->load);
	free(job->ios);
	free(job->commit_ios);
	free(job->metas);
	free(job->requests);
	free(job->writes);
	free(job->fresh);
	free(job->done);
}

static void fill_engine(const struct job_terms *terms)
{
	static struct meta_job meta; /* metadata.c has what it is for */
	struct job *job = &sim_job.engine;
	/* Pieces wait for each other where there are fewer. */
	uint32_t pieces = terms->punctual || terms->scenario ? JOB_PIECES_MAX : 2;
	uint32_t count = terms->depth * pieces + terms->path_count;

	*job = (struct job){
		.td = &sim_job.td,
		.used = paths,
		.stable = IO_UNSTABLE,
		.discard_min = terms->discards ? 1 : UINT32_MAX,
	};
	job->meta = terms->metadata ? &meta : NULL;
	allocate(job, terms->depth, count);
	job->group.job = (struct conn_job){
		.io_count = count,
		.file_count = terms->files,
		.clients = terms->clients,
		.client_depth = terms->client_depth,
		.clock.read = world.clock.read,
		.writes = true,
		.failover = terms->failover,
		.log = job_log,
	};
	job->group.path_count = terms->path_count;
	job->load = spread_load_new(count_conns(terms));
	for (enum io_op op = IO_READ; op <= IO_WRITE; op++) {
		job->spread[op] = spread(terms);
		job->io_max[op] = PIECE_MIN + (uint32_t)world_random(2 * IO_MAX);
	}
	job->one_spread =
		terms->clients && job->spread[IO_READ].policy == job->spread[IO_WRITE].policy;
	job->fresh_max = 1 + (uint32_t)world_random(terms->depth);
	if (terms->hold && !hold_init(&job->hold, terms->hold))
		job->group.job.hold = &job->hold;
	else if (!terms->metadata && !world_random(4))
		job->stable = IO_FILE_SYNC;
	if (terms->scenario)
		scenario_fill_job(job, terms->scenario);
}

/* An OPEN of a name may stay, where what follows it in its compound was put off (metadata). */
static bool leaves_nothing(const struct job_terms *terms)
{
	return terms->clients && !terms->metadata && !terms->scenario;
}

/* --- its paths, one for each address, and what the workload has of them --- */

static void *nfs4_state; /* of all paths */

static bool never_stops(void)
{
	return false;
}

static enum path_sec sec_of(const struct job_terms *terms)
{
	static const enum path_sec secs[] = {
		[GSS_SERVICE_NONE] = SEC_KRB5,
		[GSS_SERVICE_INTEGRITY] = SEC_KRB5I,
		[GSS_SERVICE_PRIVACY] = SEC_KRB5P,
	};

	return terms->service ? secs[terms->service] : SEC_SYS;
}

static struct path *new_path(uint32_t number, const struct job_terms *terms)
{
	struct path *path = calloc(1, sizeof(*path));
	struct sockaddr_in *remote = (void *)&path->config.remote;
	char label[16];

	snprintf(label, sizeof(label), "path %u", number);
	path->config.label = strdup(label);
	path->config.export = strdup("/");
	path->config.nfs_port = 1 + number;
	path->config.timing = terms->timing;
	path->config.setup_time = 10 * SEC;
	path->config.terms.version = terms->nfs4;
	path->config.terms.trunking = terms->trunks;
	path->config.terms.security = sec_of(terms);
	path->config.terms.client_name = terms->clients ? strdup("%d") : NULL;
	path->config.rsize = path->config.wsize = 64 << 10;
	path->config.remote_length = sizeof(*remote);
	remote->sin_family = AF_INET;
	path->job = (struct path_job){
		.file_count = terms->files,
		.failover = terms->failover,
		.clients = terms->clients,
		.stop = never_stops,
		.log = job_log,
		.state = &nfs4_state,
		.clock = world.clock.read,
	};
	path->version = terms->nfs4 ? &nfs_version_4 : &nfs_version_3;
	path->directory = -1;
	path->files = calloc(terms->files, sizeof(*path->files));
	for (uint32_t i = 0; i < terms->files; i++)
		path->files[i].name = strdup(job_file(i));
	return path;
}

/* NFSv3's names are not simulated: the handle is known. */
static int open_file(struct path *path, uint32_t number)
{
	struct path_file *file = &path->files[number];
	struct nfs_handle *handle;

	if (path->version == &nfs_version_3) {
		handle = file->state = malloc(sizeof(*handle));
		*handle = (struct nfs_handle){.length = 4, .bytes = SERVER_HANDLE};
		handle->bytes[3] += number;
		return 0;
	}
	return path->version->open_file(path->names, number, file->name, true, &file->state);
}

/* In the engine's place, for group_open_file(): paths have all files open. */
int __wrap_path_open_file(struct path *path, uint32_t number, const char *name, bool writes)
{
	return 0;
}

/* NFSv3's is known, as the file is. */
static int find_directory(void *context, const char *name, bool make, struct nfs_handle *found)
{
	struct path *path = context;

	if (path->version != &nfs_version_3)
		return names_directory(path->names, name, make, found);
	*found = (struct nfs_handle){.length = 3, .bytes = "dir"};
	return 0;
}

/* The directory, which the workload metadata.c works on. */
static int open_directory(struct path *path)
{
	const struct entries_terms terms = {
		.count = NAMESPACE_ENTRIES, .per_directory = 1, .run = 1};

	return entries_open(&path->files[0].entries, &terms, path->version->handle_max, "dir",
			    find_directory, path);
}

static int open_path(struct path *path, const struct job_terms *terms)
{
	int error = 0;

	if (path->version != &nfs_version_3)
		error = path->version->open_names(&path->names, path);
	if (error)
		return error;
	if (terms->metadata)
		return open_directory(path);
	for (uint32_t i = 0; i < terms->files && !error; i++)
		error = open_file(path, i);
	return error;
}

/* While nothing fails; false: one does not open. All are closed in either case. */
static bool open_paths(const struct job_terms *terms)
{
	int error = 0;

	nfs4_state = NULL;
	for (uint32_t i = 0; i < terms->path_count; i++)
		paths[i] = new_path(i, terms);
	for (uint32_t i = 0; !error && i < terms->path_count; i++)
		error = open_path(paths[i], terms);
	return !error;
}

/* --- all of it --- */

/* Each client of a job that is many opens the job's files, and closes them. */
static bool open_for_clients(struct group *group)
{
	bool opens = true;

	for (uint32_t i = 0; opens && group->job.clients && i < sim_job.terms.files; i++)
		opens = !group_open_file(group, i, job_file(i));
	return opens;
}

static void close_for_clients(const struct group *group)
{
	for (uint32_t i = 0; group->conns && i < group->job.clients; i++)
		for (uint32_t file = 0; file < sim_job.terms.files; file++)
			group->conns[i]->ops->close_file(group->conns[i], file);
}

/* While the clock creeps: each of many clients reads it. */
static uint64_t moment_of(const struct job_terms *terms)
{
	return MSEC / (terms->clients ?: 1);
}

bool job_set_up(const struct server_terms *server_terms)
{
	const struct job_terms *terms = &sim_job.terms;
	struct group *group = &sim_job.engine.group;
	bool opens;

	memset(ios, 0, sizeof(ios));
	sim_job.tick = TICK;
	network_begin();
	server_begin(server_terms, terms->clients);
	server_divide(terms->files, terms->scenario ? terms->scenario->size : 0);
	fill_td(&sim_job.td, terms);
	fill_engine(terms);
	world.creeps = true;
	opens = open_paths(terms);
	world.moment = moment_of(terms);
	opens = opens &&
		!group_open(group, paths, terms->path_count, terms->per_path, never_stops) &&
		open_for_clients(group);
	world.moment = MSEC;
	if (opens && group->job.alive != group->job.conn_count)
		world_violated("a path whose server is well is given up before it is connected");
	for (uint32_t i = 0; i < terms->path_count; i++) {
		if (terms->clients)
			path_rest(paths[i]);
		paths[i]->at_work = true;
	}
	world.creeps = false;
	return opens;
}

void job_tear_down(void)
{
	world.creeps = true;
	world.moment = moment_of(&sim_job.terms);
	close_for_clients(&sim_job.engine.group);
	group_close(&sim_job.engine.group);
	for (uint32_t i = 0; i < sim_job.terms.path_count; i++)
		path_close(paths[i]);
	world.creeps = false;
	if (leaves_nothing(&sim_job.terms) && *server4_keeps())
		world_violated("the server keeps %s of a job that has ended", server4_keeps());
	free_engine(&sim_job.engine);
	security_end();
	world_end();
	if (!network_end())
		world_violated("a connection was never closed");
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
	bool syncs = ddir_sync(ios[number].io_u.ddir), waits = syncs || sim_job.terms.clients;

	ios[number].waits_since = world.clock.now;
	ios[number].losses = losses();
	for (uint32_t i = 0; i < sim_job.terms.depth && waits; i++) {
		uint64_t since = syncs ? ios[i].waits_since : ios[i].begun;

		if (!ios[i].busy || since >= ios[number].waits_since)
			continue;
		ios[number].waits_since = since;
		ios[number].losses = ios[i].losses;
	}
}

void job_begin(uint32_t number)
{
	struct io_u *io_u = job_io(number);

	ios[number].busy = true;
	ios[number].begun = world.clock.now;
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

	while (number < sim_job.terms.depth && ios[number].busy)
		number++;
	if (number < sim_job.terms.depth && sim_job.workload->choose(number, job_io(number)))
		job_begin(number);
}

uint32_t job_outstanding(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sim_job.terms.depth; i++)
		count += ios[i].busy;
	return count;
}

/*
 * Nothing is outstanding for longer than `soft` allows, which with failover is a matter of the last
 * path alone; a sync waits for writes first. `hard` ends after all has healed.
 */
static void check_time(uint64_t begun, const struct io_u *io_u)
{
	const struct job_terms *terms = &sim_job.terms;
	uint64_t most = limit_soft() * (ddir_sync(io_u->ddir) ? 2 : 1) + 30 * SEC;
	uint64_t took = world.clock.now - begun;

	if (terms->soft && terms->punctual && !terms->failover && took > most)
		world_violated("a soft %s took %.1f s", io_ddir_name(io_u->ddir),
			       (double)took / SEC);
}

static void take_one(struct io_u *io_u)
{
	uint32_t number = io_u->index;

	if (!ios[number].busy) {
		world_violated("an I/O has completed twice");
		return;
	}
	ios[number].busy = false;
	sim_job.ended++;
	check_time(ios[number].begun, io_u);
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
	uint64_t since = ios[number].waits_since, healed = sim_job.healed_at;
	uint64_t unanswered = healed > since ? healed - since : 0;
	uint64_t wait = limit_copy(unanswered, losses() - ios[number].losses);

	return wait + limit_copy(0, 0) + LIMIT_DELAY + LIMIT_CONNECT;
}

static void check_alive(void)
{
	for (uint32_t i = 0; i < sim_job.terms.depth; i++) {
		uint64_t since = max_of(ios[i].begun, sim_job.healed_at);

		if (ios[i].busy && world.clock.now > since + most_after(i))
			world_violated("a %s has not ended within %.1f s after all has healed",
				       io_ddir_name(ios[i].io_u.ddir), (double)most_after(i) / SEC);
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
	kdc_heal();
}

void job_set_timeo(uint64_t timeo)
{
	sim_job.terms.timing.timeo = timeo;
	sim_job.tick = max_of(TICK, timeo / 50);
	for (uint32_t i = 0; i < sim_job.terms.path_count; i++)
		paths[i]->config.timing.timeo = timeo;
}

/* An address is out of reach for a while, now and then. */
static void cut_one(void *context)
{
	uint32_t address = (uint32_t)(uintptr_t)context;

	network_cut(address, false);
}

static void cut_by_chance(uint64_t in)
{
	uint32_t address = (uint32_t)world_random(sim_job.terms.path_count);

	if (!world_chance(in))
		return;
	world.failures[FAILED_UNREACHED]++;
	network_cut(address, true);
	world_plan(world_random(20 * SEC), cut_one, NULL, (void *)(uintptr_t)address);
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
	if (!*world.violation)
		sim_job.workload->settle();
	ending_run();
	nclients_return();
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

static struct job_terms job_terms(const struct server_fails *fails)
{
	struct job_terms terms = {
		.nfs4 = world_random(2),
		.soft = !world_random(3),
		.depth = 1 + (uint32_t)world_random(DEPTH_MAX),
		.path_count = 1 + (uint32_t)world_random(PATHS_MAX),
		.per_path = 1 + (uint32_t)world_random(2),
		.files = 1,
		.hold = world_random(3) ? 0 : IO_MAX + world_random(16 * IO_MAX),
		.full = fails->full_in,
	};

	terms.metadata = !world_random(3);
	terms.hold = terms.metadata ? 0 : terms.hold;
	terms.timing = (struct rpc_timing){
		.timeo = (1 + world_random(100)) * 100 * MSEC,
		.retrans = (unsigned int)world_random(4),
		.soft = terms.soft,
	};
	terms.trunks = terms.nfs4 && world_random(2);
	terms.failover = terms.path_count > 1 && world_random(2);
	terms.punctual = !fails->delay_in && !fails->short_in && !terms.nfs4 && !terms.hold &&
			 !terms.metadata;
	return terms;
}

/* Some jobs are many clients, as the options allow it; seeds that are kept for something are one.
 */
static void choose_clients(struct job_terms *terms, uint64_t seed)
{
	if (terms->failover || terms->service || terms->depth == 1 ||
	    (seed % 5 != 1 && seed % 5 != 3))
		return;
	terms->clients = max_of(1 + (uint32_t)world_apart(SERVER_CLIENTS_MAX), terms->path_count);
	terms->client_depth = max_of(terms->depth / terms->clients, 1u);
	if (world_apart(2))
		terms->client_depth = 1 + (uint32_t)world_apart(terms->depth);
	terms->timing.reconnect = world_apart(2) ? RECONNECT_JITTER : RECONNECT_BACKOFF;
	terms->trunks = terms->punctual = false;
}

static void tell_terms(uint64_t seed, const struct job_terms *terms)
{
	world_tell("seed %llu: %s, %u files, NFSv%s, %u paths of %u connections, %u clients, "
		   "depth %u, %s%s%s%s%s%s, security %u",
		   (unsigned long long)seed, terms->metadata ? "metadata" : "data", terms->files,
		   terms->nfs4 ? "4.1" : "3", terms->path_count, terms->per_path, terms->clients,
		   terms->depth, terms->soft ? "soft" : "hard", terms->failover ? ", failover" : "",
		   terms->hold ? ", a hold" : "", sim_job.engine.stable ? ", FILE_SYNC" : "",
		   terms->trunks ? ", one session" : "", terms->discards ? ", discarding" : "",
		   terms->service);
}

uint64_t job_run(uint64_t seed, uint32_t count, bool trace)
{
	struct network_terms network;
	struct server_terms terms = {0};
	struct server_fails fails;
	struct kdc_terms kdc_terms;
	uint64_t cut_in;

	world_begin(seed, trace);
	network = (struct network_terms){1 + world_random(50 * MSEC), rarely(2000), 0};
	choose_server(&terms, &fails);
	cut_in = rarely(2000);
	sim_job.terms = job_terms(&fails);
	security_choose(seed, &terms, &fails, &kdc_terms);
	sim_job.terms.service = terms.gss.service;
	sim_job.terms.changes = fails.change_in;
	/* Seeds that are kept for something have one file, and no fragments. */
	if (!sim_job.terms.metadata && (seed % 7 == 0 || seed % 7 == 2))
		sim_job.terms.files = 2 + 2 * (seed / 7 % 2);
	if (seed % 11 == 3 || seed % 11 == 4)
		fails.fragments = 64 + world_apart(2000);
	/* As the options allow it; one in five, of seeds that are kept for nothing else. */
	sim_job.terms.discards = !sim_job.terms.metadata &&
				 sim_job.terms.service <= GSS_SERVICE_NONE && (seed + 5) % 10 < 2;
	choose_clients(&sim_job.terms, seed);
	security_begin(&kdc_terms);
	sim_job.workload = sim_job.terms.metadata ? &metadata_workload : &data_workload;
	sim_job.ended = sim_job.healed_at = 0;
	sim_job.workload->begin();
	if (!job_set_up(&terms))
		world_violated("the job does not open");
	tell_terms(seed, &sim_job.terms);
	network_fail(&network);
	server.fails = fails;
	kdc.terms = kdc_terms;
	if (!*world.violation)
		run_ios(count, cut_in);
	job_tear_down();
	return sim_job.ended;
}
