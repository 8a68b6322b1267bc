/* SPDX-License-Identifier: GPL-2.0-only */
#include "conn/path.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conn/directory.h"
#include "conn/mount_meta.h"
#include "nfs/entries.h"
#include "session/protocol.h"
#include "session/timers.h"
#include "util.h"
#include "wait.h"

enum { SIZE_DEFAULT_MAX = 1 << 20 }; /* nfs(5): rsize and wsize, where the user names none */

void path_config_free(struct path_config *config)
{
	free(config->label);
	free(config->dir);
	free(config->address);
	free(config->export);
	free(config->locals);
	memset(config, 0, sizeof(*config));
}

/* --- the name-space session --- */

void path_forget_troubles(struct path *path)
{
	path->unusable = path->said_stopped = false;
	path->said_stale = path->said_delayed = false;
	path->dead = 0;
}

void path_close_names(struct path *path)
{
	if (path->names)
		path->protocol->names->close(path->names);
	path->names = NULL;
}

void path_rest(struct path *path)
{
	if (!path->protocol->leave)
		path_close_names(path);
}

/* Mounts again where the session was let go, or given up because the server did not answer. */
int path_names_ready(struct path *path)
{
	const struct names_ops *ops = path->protocol->names;

	if (path->names && ops->alive(path->names))
		return 0;
	path_close_names(path);
	return ops->open(&path->names, path);
}

/* --- opening --- */

static int open_mount(struct path *path)
{
	path->directory = directory_open(path->config.dir);
	if (path->directory >= 0)
		return 0;
	path->job.log("%s: cannot open the mount: %s", path->config.label,
		      strerror(-path->directory));
	return path->directory;
}

/* Said once, by the process that all jobs come from. */
static void say_groups(const struct path *path, uint32_t groups)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (groups > AUTH_SYS_GIDS_MAX && !atomic_flag_test_and_set(&said))
		path->job.log("%s: of your %u groups the first %u go to the server: AUTH_SYS has "
			      "room for no more",
			      path->config.label, groups, AUTH_SYS_GIDS_MAX);
}

static void set_credentials(struct path *path)
{
	const struct path_config *config = &path->config;
	struct auth_sys_ids *ids = &path->ids;
	uint32_t groups = auth_sys_own_ids(ids);

	if (ids->uid != config->uid || ids->gid != config->gid)
		ids->gid_count = 0; /* somebody else's groups */
	else
		say_groups(path, groups);
	ids->uid = config->uid;
	ids->gid = config->gid;
	auth_sys_init(&path->credentials, ids);
}

static int open_export(struct path *path)
{
	struct path_config *config = &path->config;
	int error;

	set_credentials(path);
	error = path_names_ready(path);
	if (!error && !config->nfs_port)
		config->nfs_port = path->protocol->names->nfs_port(path->names);
	return error;
}

/* nfs(5), rsize and wsize: the most that the path asks for, whatever the server offers. */
static uint32_t transfer_size(uint32_t chosen)
{
	return min_of(chosen ?: (uint32_t)SIZE_DEFAULT_MAX, (uint32_t)PATH_IO_MAX);
}

int path_open(struct path **out, struct path_config *config, const struct path_job *job)
{
	struct path *path = calloc(1, sizeof(*path));
	int error = -ENOMEM;

	if (!path) {
		path_config_free(config);
		return error;
	}
	path->config = *config;
	memset(config, 0, sizeof(*config));
	path->config.rsize = transfer_size(path->config.rsize);
	path->config.wsize = transfer_size(path->config.wsize);
	path->job = *job;
	path->protocol = path->config.minor ? &protocol_nfs4 : &protocol_nfs3;
	path->directory = -1;
	path->files = calloc(job->file_count, sizeof(*path->files));
	if (path->files)
		error = path->config.dir ? open_mount(path) : open_export(path);
	if (error) {
		path_close(path);
		return error;
	}
	*out = path;
	return 0;
}

void path_close(struct path *path)
{
	if (!path)
		return;
	for (uint32_t i = 0; path->files && i < path->job.file_count; i++)
		path_close_file(path, i);
	if (path->state) /* leaving looks at the files, where it has to connect anew */
		path->protocol->leave(path);
	free(path->files);
	path_close_names(path);
	if (path->directory >= 0)
		close(path->directory);
	path_config_free(&path->config);
	free(path);
}

bool path_all_mounts(struct path *const *paths, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!paths[i]->config.dir)
			return false;
	return true;
}

/* --- names --- */

/* Logs what went wrong with a name, in the server's words where there are some. */
static int name_failed(struct path *path, const char *what, const char *name, int error)
{
	const char *words = path->names ? path->protocol->names->error(path->names) : "";

	path->job.log("%s: cannot %s \"%s\": %s%s%s", path->config.label, what, name,
		      strerror(-error), *words ? ": " : "", words);
	return error;
}

int path_size(struct path *path, const char *name, uint64_t *size)
{
	int error;

	if (path->config.dir)
		error = directory_size(path->directory, name, size);
	else
		error = path_names_ready(path)
				?: path->protocol->names->size(path->names, name, size);
	return error && error != -ENOENT ? name_failed(path, "find", name, error) : error;
}

int path_create(struct path *path, const char *name, bool *created)
{
	int error;

	if (path->config.dir)
		error = directory_create(path->directory, name, created);
	else
		error = path_names_ready(path)
				?: path->protocol->names->create(path->names, name, created);
	return error ? name_failed(path, "create", name, error) : 0;
}

void path_mark_removed(struct path *path, const char *name)
{
	for (uint32_t i = 0; i < path->job.file_count; i++)
		if (path->files[i].name && !strcmp(path->files[i].name, name))
			path->files[i].removed = true;
}

int path_remove(struct path *path, const char *name)
{
	int error;

	if (path->config.dir)
		error = directory_remove(path->directory, name);
	else
		error = path_names_ready(path) ?: path->protocol->names->remove(path->names, name);
	if (!error || error == -ENOENT)
		path_mark_removed(path, name);
	return error && error != -ENOENT ? name_failed(path, "remove", name, error) : error;
}

int path_drop_cache(struct path *path, const char *name)
{
	int error = path->config.dir ? directory_drop_cache(path->directory, name) : 0;

	return error && error != -ENOENT ? name_failed(path, "drop the cache of", name, error) : 0;
}

/* --- directories of entries --- */

/*
 * True where the server may not have heard, or not answered: any other error is its answer. libnfs
 * says EINTR of a call that ends with its connection.
 */
static bool is_lost(const struct path *path, int error)
{
	switch (-error) {
	case EINTR:
	case ENOTCONN:
	case ECONNRESET:
	case ECONNREFUSED:
	case ECONNABORTED:
	case EPIPE:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH: return !path->job.stop();
	default: return false;
	}
}

/* For retries: they fail for the reason that was said already. */
__attribute__((format(printf, 1, 2))) static void say_nothing(const char *format, ...)
{
}

static int ask_once(struct path *path, const char *name, bool make, struct nfs_handle *found)
{
	return path_names_ready(path)
		       ?: path->protocol->open_directory(path->names, name, make, found);
}

/* It waits as calls do that the server puts off; the first time not at all. */
static int ask_again(struct path *path, uint32_t tries, const char *name, bool make,
		     struct nfs_handle *found)
{
	const struct path_job job = path->job;
	uint64_t pause = tries ? timer_delay(tries - 1) : 0;
	int error;

	path_close_names(path);
	path->job.log = say_nothing;
	error = wait_until(clock_now() + pause, job.stop) ?: ask_once(path, name, make, found);
	path->job.log = job.log;
	return error;
}

/*
 * entries_step. `hard`: a directory whose answer was lost is asked for again, over another
 * connection, until path_job's stop(); with failover for as long as one operation on names may
 * take. One that was made by a call whose answer was lost is found by the next.
 */
static int step(void *context, const char *name, bool make, struct nfs_handle *found)
{
	struct path *path = context;
	uint64_t begun = clock_now();
	uint32_t tries = 0;
	int error = ask_once(path, name, make, found);

	for (; !path->config.soft && is_lost(path, error); tries++) {
		if (path->job.failover && clock_now() - begun > path_names_timeout(path))
			break;
		if (tries == 1)
			path->job.log("%s: directory \"%s\": %s: still trying", path->config.label,
				      name, strerror(-error));
		error = ask_again(path, tries, name, make, found);
	}
	if (tries > 1 && !error)
		path->job.log("%s: directory \"%s\": opened", path->config.label, name);
	return error;
}

/* Where directories of the tree below `name` are looked up from again. NFSv4 needs no handle. */
static int find_root(struct path *path, struct entries *entries, const char *name)
{
	const char *export = path->config.minor ? path->config.export : "";

	if (asprintf(&entries->way, "%s/%s", export, name) < 0) {
		entries->way = NULL;
		return -ENOMEM;
	}
	return path->config.minor ? 0 : step(path, ".", false, &entries->root);
}

/* Opens the tree below directory `name`. */
static int find_entries(struct path *path, struct path_file *file, const char *name)
{
	const struct entries_terms *terms = path->job.entries;
	int error;

	if (path->config.dir)
		error = mount_meta_open(path->directory, name, terms, &file->entries);
	else
		error = entries_open(&file->entries, terms, path->protocol->handle_max, name, step,
				     path)
				?: find_root(path, file->entries, name);
	path->read_max = path->write_max = PATH_IO_MAX; /* which nothing asks for */
	return error ? name_failed(path, "open the directory", name, error) : 0;
}

/* --- files --- */

static int find_limits(struct path *path, const void *file)
{
	uint32_t read_max, write_max;
	int error = path->protocol->limits(path->names, file, &read_max, &write_max);

	if (error) {
		path->job.log("%s: the server does not report its transfer sizes: %s",
			      path->config.label, path->protocol->names->error(path->names));
		return error;
	}
	if (!read_max || !write_max) {
		path->job.log("%s: the server offers READs of %u bytes and WRITEs of %u: neither "
			      "may be 0",
			      path->config.label, read_max, write_max);
		return -EPROTO;
	}
	path->read_max = min_of(path->config.rsize, read_max);
	path->write_max = min_of(path->config.wsize, write_max);
	return 0;
}

static int find_file(struct path *path, struct path_file *file, const char *name, bool writes)
{
	int error = path_names_ready(path)
			    ?: path->protocol->open_file(path->names, name, writes, &file->state);

	if (error)
		return name_failed(path, "open", name, error);
	return path->read_max ? 0 : find_limits(path, file->state);
}

int path_open_file(struct path *path, uint32_t number, const char *name, bool writes)
{
	struct path_file *file = &path->files[number];
	int error = 0;

	path_close_file(path, number);
	if (path->job.entries)
		error = find_entries(path, file, name);
	else if (path->config.dir)
		path->read_max = path->write_max = PATH_IO_MAX;
	else
		error = find_file(path, file, name, writes);
	if (error) {
		path_close_file(path, number);
		return error;
	}
	file->name = strdup(name);
	return file->name ? 0 : -ENOMEM;
}

void path_close_file(struct path *path, uint32_t number)
{
	struct path_file *file = &path->files[number];

	free(file->name);
	entries_close(file->entries);
	if (file->state)
		path->protocol->close_file(path->names, file->state);
	memset(file, 0, sizeof(*file));
}

/* --- connections --- */

unsigned int path_port(const struct path *path, bool rdma)
{
	return rdma ? path->config.rdma_port : path->config.nfs_port;
}

struct rpc_address path_next_address(struct path *path, bool rdma)
{
	const struct path_config *config = &path->config;
	struct rpc_address address = {
		.remote = config->remote,
		.remote_length = config->remote_length,
		.reserved_port = !rdma, /* servers take RDMA from any: it needs privileges anyway */
	};

	rpc_set_port(&address.remote, (uint16_t)path_port(path, rdma));
	if (config->local_count)
		address.local = config->locals[path->connections++ % config->local_count];
	return address;
}
