/* SPDX-License-Identifier: GPL-2.0-only */
/* setup.c - a simulated job's beginning and end: the engine's job, as its job_open() makes it, and
 * its paths. */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fio/job_log.h"
#include "fio/job_terms.h"
#include "nfs/entries.h"
#include "nfs/meta_call.h"
#include "nfs/names.h"
#include "nfs/version.h"
#include "world.h"

static struct path *paths[PATHS_MAX];
static char file_names[SERVER_FILES_MAX][8] = {"file", "file1", "file2", "file3"};
static struct fio_file files[SERVER_FILES_MAX];

void job_set_file(struct io_u *io_u, uint32_t file)
{
	files[file].file_name = file_names[file];
	files[file].fileno = (int)file;
	io_u->file = &files[file];
}

/* --- the engine's job, as its job_open() makes it --- */

static uint32_t count_conns(const struct scenario *terms)
{
	return terms->nclients ?: terms->paths * terms->nconnect;
}

static struct spread spread(const struct scenario *terms)
{
	uint64_t policy = terms->decide ? terms->spread : world_random(SPREAD_STRIPE + 1);

	return (struct spread){
		.policy = (enum spread_policy)policy,
		.step = 1,
		.count = count_conns(terms),
		.stripe_size = terms->stripe ?: PIECE_MIN + world_random(2 * IO_MAX),
		.load = sim_job.engine.load,
	};
}

static void fill_td(struct thread_data *td, const struct scenario *terms)
{
	static struct terms options;

	if (terms->version == 3)
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

static void fill_engine(const struct scenario *terms)
{
	static struct meta_job meta; /* metadata.c has what it is for */
	struct job *job = &sim_job.engine;
	/* Pieces wait for each other where there are fewer. */
	uint32_t pieces = sim_job.punctual || terms->decide ? JOB_PIECES_MAX : 2;
	uint32_t count = terms->depth * pieces + terms->paths;

	*job = (struct job){
		.td = &sim_job.td,
		.used = paths,
		.stable = (enum io_stable)terms->stable,
		.discard_min = sim_job.discards ? 1 : UINT32_MAX,
	};
	job->meta = sim_job.metadata ? &meta : NULL;
	allocate(job, terms->depth, count);
	job->group.job = (struct conn_job){
		.io_count = count,
		.file_count = terms->files,
		.clients = terms->nclients,
		.client_depth = sim_job.client_depth,
		.client_start = terms->client_start,
		.clock.read = world.clock.read,
		.writes = true,
		.failover = terms->failover,
		.log = job_log,
	};
	job->group.path_count = terms->paths;
	job->load = spread_load_new(count_conns(terms));
	for (enum io_op op = IO_READ; op <= IO_WRITE; op++) {
		job->spread[op] = spread(terms);
		job->io_max[op] = (op == IO_READ ? terms->rsize : terms->wsize)
					  ?: PIECE_MIN + (uint32_t)world_random(2 * IO_MAX);
	}
	job->one_spread =
		terms->nclients && job->spread[IO_READ].policy == job->spread[IO_WRITE].policy;
	job->fresh_max = terms->decide ? terms->depth : 1 + (uint32_t)world_random(terms->depth);
	if (terms->hold && !hold_init(&job->hold, terms->hold))
		job->group.job.hold = &job->hold;
	else if (!terms->decide && !sim_job.metadata && !world_random(4))
		job->stable = IO_FILE_SYNC;
}

/* An OPEN of a name may stay, where what follows it in its compound was put off (metadata). */
static bool leaves_nothing(const struct scenario *terms)
{
	return terms->nclients && !sim_job.metadata && !terms->decide;
}

/* --- its paths, one for each address, and what the workload has of them --- */

static void *nfs4_state; /* of all paths */

static bool never_stops(void)
{
	return false;
}

static struct path *new_path(uint32_t number, const struct scenario *terms)
{
	struct path *path = calloc(1, sizeof(*path));
	struct sockaddr_in *remote = (void *)&path->config.remote;
	char label[16];

	snprintf(label, sizeof(label), "path %u", number);
	path->config.label = strdup(label);
	path->config.export = strdup("/");
	path->config.nfs_port = 1 + number;
	path->config.timing = sim_job.timing;
	path->config.setup_time = 10 * SEC;
	path->config.terms.version = terms->version == 4;
	path->config.terms.trunking = terms->trunks;
	path->config.terms.security = terms->service; /* numbered alike */
	path->config.terms.client_name = terms->nclients ? strdup("%d") : NULL;
	path->config.rsize = path->config.wsize = 64 << 10;
	path->config.remote_length = sizeof(*remote);
	remote->sin_family = AF_INET;
	path->job = (struct path_job){
		.file_count = terms->files,
		.failover = terms->failover,
		.clients = terms->nclients,
		.stop = never_stops,
		.log = job_log,
		.state = &nfs4_state,
		.clock = world.clock.read,
	};
	path->version = terms->version == 4 ? &nfs_version_4 : &nfs_version_3;
	path->directory = -1;
	path->files = calloc(terms->files, sizeof(*path->files));
	for (uint32_t i = 0; i < terms->files; i++)
		path->files[i].name = strdup(file_names[i]);
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

static int open_path(struct path *path, const struct scenario *terms)
{
	int error = 0;

	if (path->version != &nfs_version_3)
		error = path->version->open_names(&path->names, path);
	if (error)
		return error;
	if (sim_job.metadata)
		return open_directory(path);
	for (uint32_t i = 0; i < terms->files && !error; i++)
		error = open_file(path, i);
	return error;
}

/* While nothing fails; false: one does not open. All are closed in either case. */
static bool open_paths(const struct scenario *terms)
{
	int error = 0;

	nfs4_state = NULL;
	for (uint32_t i = 0; i < terms->paths; i++)
		paths[i] = new_path(i, terms);
	for (uint32_t i = 0; !error && i < terms->paths; i++)
		error = open_path(paths[i], terms);
	return !error;
}

/* --- all of it --- */

/* Each client of a job that is many opens the job's files, and closes them. */
static bool open_for_clients(struct group *group)
{
	bool opens = true;

	for (uint32_t i = 0; opens && group->job.clients && i < sim_job.terms.files; i++)
		opens = !group_open_file(group, i, file_names[i]);
	return opens;
}

static void close_for_clients(const struct group *group)
{
	for (uint32_t i = 0; group->conns && i < group->job.clients; i++)
		for (uint32_t file = 0; file < sim_job.terms.files; file++)
			group->conns[i]->ops->close_file(group->conns[i], file);
}

/* While the clock creeps: each of many clients reads it. */
static uint64_t moment_of(const struct scenario *terms)
{
	return MSEC / (terms->nclients ?: 1);
}

bool job_set_up(const struct server_terms *server_terms)
{
	const struct scenario *terms = &sim_job.terms;
	struct group *group = &sim_job.engine.group;
	bool opens;

	memset(sim_job.ios, 0, sizeof(sim_job.ios));
	sim_job.ended = sim_job.healed_at = 0;
	sim_job.tick = JOB_TICK;
	network_begin();
	server_begin(server_terms, terms);
	fill_td(&sim_job.td, terms);
	fill_engine(terms);
	world.creeps = true;
	opens = open_paths(terms);
	world.moment = moment_of(terms);
	opens = opens && !group_open(group, paths, terms->paths, terms->nconnect, never_stops) &&
		open_for_clients(group);
	world.moment = MSEC;
	if (!opens)
		world_violated("the job does not open");
	if (opens && group->job.alive != group->job.conn_count)
		world_violated("a path whose server is well is given up before it is connected");
	for (uint32_t i = 0; i < terms->paths; i++) {
		if (terms->nclients)
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
	for (uint32_t i = 0; i < sim_job.terms.paths; i++)
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
