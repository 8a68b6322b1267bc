/* SPDX-License-Identifier: GPL-2.0-only */
#include "group/path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "nfs/entries.h"
#include "nfs/names.h"
#include "nfs/nfs3.h"
#include "nfs/path_client.h"
#include "nfs/version.h"

/* --- files below a directory: errors are negative errnos --- */

/* Lets no name lead out of the directory, neither by ".." nor by a symbolic link. */
static int open_beneath(int directory, const char *name, int flags, uint64_t resolve)
{
	struct open_how how = {
		.flags = (unsigned int)(flags | O_CLOEXEC),
		.mode = flags & O_CREAT ? FILE_MODE : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
	};
	long fd = syscall(SYS_openat2, directory, name, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

int directory_open_file(int directory, const char *name, int flags)
{
	return open_beneath(directory, name, flags, 0);
}

int directory_enter(int directory, const char *name, bool across)
{
	return open_beneath(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW,
			    across ? 0 : RESOLVE_NO_XDEV);
}

/* Sets *size for a regular file; -EISDIR or -EINVAL for anything else. */
static int directory_size(int directory, const char *name, uint64_t *size)
{
	struct stat status;
	int fd = directory_open_file(directory, name, O_PATH);
	int error = 0;

	if (fd < 0)
		return fd;
	if (fstat(fd, &status))
		error = -errno;
	else if (!S_ISREG(status.st_mode))
		error = S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL;
	else
		*size = (uint64_t)status.st_size;
	close(fd);
	return error;
}

/* Calls `action` with the parent directory and the last component of a name of `length` bytes:
 * unlinkat(2) and mkdirat(2) have no RESOLVE_BENEATH. */
static int in_parent(int directory, const char *name, size_t length,
		     int (*action)(int parent, const char *last))
{
	char path[4096], *slash;
	int parent, error;

	if (length >= sizeof(path))
		return -ENAMETOOLONG;
	memcpy(path, name, length);
	path[length] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return action(directory, path);
	*slash = '\0';
	parent = directory_open_file(directory, path, O_PATH | O_DIRECTORY);
	if (parent < 0)
		return parent;
	error = action(parent, slash + 1);
	close(parent);
	return error;
}

/* An empty name, after a trailing slash, is the parent itself. */
static int make_directory(int parent, const char *name)
{
	return *name && mkdirat(parent, name, DIRECTORY_MODE) && errno != EEXIST ? -errno : 0;
}

static int make_parents(int directory, const char *name)
{
	int error = 0;

	for (const char *at = strchr(name, '/'); at && !error; at = strchr(at + 1, '/'))
		error = in_parent(directory, name, (size_t)(at - name), make_directory);
	return error;
}

static int touch(int directory, const char *name, bool *created)
{
	int fd = directory_open_file(directory, name, O_RDWR | O_CREAT | O_EXCL);

	*created = fd >= 0;
	if (fd == -EEXIST) /* also a dangling symbolic link, which is followed */
		fd = directory_open_file(directory, name, O_RDWR | O_CREAT);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* Creates an empty file and the directories above it. *created is false where the name exists: a
 * file stays as it is, and a symbolic link is followed. */
static int directory_create(int directory, const char *name, bool *created)
{
	int error = touch(directory, name, created);

	if (error != -ENOENT)
		return error;
	return make_parents(directory, name) ?: touch(directory, name, created);
}

static int remove_file(int parent, const char *name)
{
	return unlinkat(parent, name, 0) ? -errno : 0;
}

/* 0 also where there is no such file. */
static int directory_remove(int directory, const char *name)
{
	int error = in_parent(directory, name, strlen(name), remove_file);

	return error == -ENOENT ? 0 : error;
}

/* --- a path --- */

void path_config_free(struct path_config *config)
{
	free(config->label);
	free(config->dir);
	free(config->address);
	free(config->export);
	free(config->locals);
	terms_free(&config->terms);
	memset(config, 0, sizeof(*config));
}

void path_forget_troubles(struct path *path)
{
	path->unusable = path->alone = path->stall_logged = false;
	path->expiry_logged = path->refusal_logged = path->delay_logged = false;
	path->no_context[0] = '\0';
	path->dead = 0;
}

void path_rest(struct path *path)
{
	if (path->names && !path->version->teardown) /* NFSv4's teardown() needs the connection */
		names_rest(path->names);
	else if (path->names && path->job.clients)
		path->version->rest(path);
}

static int open_mount(struct path *path)
{
	int error;

	path->directory = open(path->config.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (path->directory >= 0)
		return 0;
	error = errno;
	path_say(path, "cannot open the mount: %s%s", strerror(error), errno_remedy(error));
	return -error;
}

/* Refuses a local address, among those of all connections, that is not this machine's. */
static int check_locals(const struct path *path)
{
	const struct path_config *config = &path->config;
	uint32_t count = config->terms.nclients ?: config->terms.nconnect;
	uint64_t most = config->local_count ? addresses_in(config->locals, config->local_count) : 0;

	for (uint32_t i = 0; i < count && i < most; i++) {
		const struct rpc_address address = path_address(path, config->rdma, i);
		char text[ADDRESS_TEXT];

		if (rpc_address_is_ours(&address.local))
			continue;
		path_say(path,
			 "localaddr=%s: %s is not this machine's: use addresses that are, "
			 "or make a prefix local that no other machine has (ip route add "
			 "local PREFIX/LENGTH dev lo)",
			 config->terms.localaddr, address_text(&address.local, text));
		return -EADDRNOTAVAIL;
	}
	return 0;
}

/* Sets an export's credentials and TLS terms, without a call to the server. 0 or -errno. */
static int set_security(struct path *path)
{
	static atomic_flag said = ATOMIC_FLAG_INIT; /* setup sets it, before jobs are forked */
	const struct path_config *config = &path->config;
	struct auth_sys_ids *ids = &path->ids;
	uint32_t groups = auth_sys_own_ids(ids);

	if (ids->uid != config->uid || ids->gid != config->gid ||
	    term_is_each(TERM(uid), &config->terms) || term_is_each(TERM(gid), &config->terms))
		ids->gid_count = 0; /* another user has other groups */
	else if (groups > AUTH_SYS_GIDS_MAX && !atomic_flag_test_and_set(&said))
		path_say(path,
			 "you have %u groups, of which the first %u are sent: AUTH_SYS "
			 "has room for no more",
			 groups, AUTH_SYS_GIDS_MAX);
	path_client_ids(path, path->job.first_client, ids);
	return path_tls_open(path);
}

/* Takes over config's strings and array; NULL: out of memory. */
static struct path *make_path(struct path_config *config, const struct path_job *job)
{
	struct path *path = calloc(1, sizeof(*path));

	if (!path) {
		path_config_free(config);
		return NULL;
	}
	path->config = *config;
	memset(config, 0, sizeof(*config));
	path->job = *job;
	path->version = path->config.terms.version ? &nfs_version_4 : &nfs_version_3;
	path->directory = -1;
	path->files = calloc(job->file_count, sizeof(*path->files));
	if (path->files)
		return path;
	path_close(path);
	return NULL;
}

int path_open(struct path **out, struct path_config *config, const struct path_job *job)
{
	struct path *path = make_path(config, job);
	int error;

	if (!path)
		return -ENOMEM;
	path->create_verifier = nfs3_create_verifier((uint64_t)path_random() << 24 ^ path_random());
	if (path->config.dir)
		error = open_mount(path);
	else
		error = check_locals(path) ?: set_security(path) ?: path_names_ready(path);
	if (error) {
		path_close(path);
		return error;
	}
	*out = path;
	return 0;
}

int path_flavors(struct path_config *config, const struct path_job *job, struct flavors *flavors)
{
	struct path *path = make_path(config, job);
	int error;

	if (!path)
		return -ENOMEM;
	error = set_security(path) ?: path->version->flavors(&path->names, path, flavors);
	path_close(path);
	return error;
}

void path_close(struct path *path)
{
	if (!path)
		return;
	for (uint32_t i = 0; path->files && i < path->job.file_count; i++)
		path_close_file(path, i);
	if (path->state) /* after the files: a reconnect would reopen files that lost their state */
		path->version->teardown(path);
	free(path->files);
	path_close_names(path);
	path_tls_close(path);
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

/* The reason for the last failure, in the server's words, or "". */
static const char *error_words(const struct path *path)
{
	return path->names ? path->names->error : "";
}

/* The remedy for a failed call. NFSv3 has no status of its own for a call that needs TLS. */
static const char *name_remedy(const struct path *path, int error)
{
	const struct path_config *config = &path->config;
	bool may_want_tls =
		config->terms.xprtsec == XPRTSEC_NONE && !config->rdma && !config->terms.version;

	return may_want_tls && error == -EACCES && path->names &&
			       path->names->answer == ANSWER_STATUS
		       ? ": may this user do that, over this export? An export that requires TLS "
			 "answers the same: xprtsec=tls"
		       : errno_remedy(-error);
}

/* Logs why an operation on a name failed, if possible in the server's words. Returns `error`. */
static int name_failed(struct path *path, const char *what, const char *name, int error)
{
	const char *words = error_words(path);

	path_say(path, "cannot %s \"%s\": %s%s%s%s", what, name, strerror(-error),
		 *words ? ": " : "", words, name_remedy(path, error));
	return error;
}

int path_size(struct path *path, const char *name, uint64_t *size)
{
	struct question question = {.ask = names_size, .what = "find", .name = name, .size = size};
	int error = path->config.dir ? directory_size(path->directory, name, size)
				     : question_ask(path, &question);

	return error && error != -ENOENT ? name_failed(path, "find", name, error) : error;
}

int path_create(struct path *path, const char *name, bool *created)
{
	struct question question = {
		.ask = names_create, .what = "create", .name = name, .created = created};
	int error = path->config.dir ? directory_create(path->directory, name, created)
				     : question_ask(path, &question);

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
	struct question question = {.ask = names_remove, .what = "remove", .name = name};
	int error = path->config.dir ? directory_remove(path->directory, name)
				     : question_ask(path, &question);

	if (error)
		return name_failed(path, "remove", name, error);
	path_mark_removed(path, name);
	return 0;
}

int path_drop_cache(struct path *path, const char *name)
{
	int fd, error;

	if (!path->config.dir)
		return 0;
	fd = directory_open_file(path->directory, name, O_RDONLY);
	error = fd < 0 ? fd : -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (fd >= 0)
		close(fd);
	return error && error != -ENOENT ? name_failed(path, "drop the cache of", name, error) : 0;
}

/* --- directories of entries --- */

static int ask_directory(struct names *names, struct question *question)
{
	return names_directory(names, question->name, question->make, question->handle);
}

/* An entries_step. If the reply to a MKDIR is lost, the next call finds the directory. */
static int step(void *context, const char *name, bool make, struct nfs_handle *found)
{
	struct question question = {
		.ask = ask_directory,
		.what = "open the directory",
		.name = name,
		.make = make,
		.handle = found,
	};

	return question_ask(context, &question);
}

/* Sets where the tree's LOOKUPs begin: in NFSv3 at the export, in NFSv4 at the server's root. */
static int find_root(struct path *path, struct entries *entries, const char *name)
{
	const char *export = path->config.terms.version ? path->config.export : "";

	if (asprintf(&entries->way, "%s/%s", export, name) < 0) {
		entries->way = NULL;
		return -ENOMEM;
	}
	return path->config.terms.version ? 0 : step(path, ".", false, &entries->root);
}

/* Opens the tree below directory `name`. */
static int find_entries(struct path *path, struct path_file *file, const char *name)
{
	const struct entries_terms *terms = path->job.entries;
	int error;

	path->at_work = true; /* set early: opening many directories takes long */
	error = entries_open(&file->entries, terms, path->version->handle_max, name, step, path)
			?: find_root(path, file->entries, name);
	path->read_max = path->write_max = PATH_IO_MAX; /* not used by metadata */
	return error ? name_failed(path, "open the directory", name, error) : 0;
}

static int ask_limits(struct names *names, struct question *question)
{
	return names_limits(names, names->path->version->handle(*question->file), question->limits);
}

static int find_limits(struct path *path, struct question *file)
{
	struct meta_limits limits = {0};
	struct question question = {
		.ask = ask_limits,
		.what = "find limits of",
		.name = file->name,
		.file = file->file,
		.limits = &limits,
	};
	int error = question_ask(path, &question);

	if (error) {
		path_say(path, "the server does not report its transfer sizes: %s",
			 error_words(path));
		return error;
	}
	if (!limits.read_max || !limits.write_max)
		path_say(path,
			 "the server offers READs of %llu bytes and WRITEs of %llu: 0 counts "
			 "as no limit, as in Linux; rsize= and wsize= set one",
			 (unsigned long long)limits.read_max, (unsigned long long)limits.write_max);
	path->read_max = min_of(path->config.rsize, limits.read_max ?: UINT32_MAX);
	path->write_max = min_of(path->config.wsize, limits.write_max ?: UINT32_MAX);
	return 0;
}

static int ask_open(struct names *names, struct question *question)
{
	return names->path->version->open_file(names, question->number, question->name,
					       question->writes, question->file);
}

static int find_file(struct path *path, uint32_t number, const char *name, bool writes)
{
	struct question question = {
		.ask = ask_open,
		.what = "open",
		.name = name,
		.number = number,
		.writes = writes,
		.file = &path->files[number].state,
	};
	int error = question_ask(path, &question);

	if (error)
		return name_failed(path, "open", name, error);
	error = path->read_max ? 0 : find_limits(path, &question);
	path->at_work = path->at_work || !error;
	return error;
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
		error = find_file(path, number, name, writes);
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
		path->version->close_file(path->names, file->state);
	memset(file, 0, sizeof(*file));
}

bool path_same_file(const struct path *path, uint32_t a, uint32_t b)
{
	const void *one = path->files[a].state, *other = path->files[b].state;

	return one && other &&
	       nfs_handle_same(path->version->handle(one), path->version->handle(other));
}
