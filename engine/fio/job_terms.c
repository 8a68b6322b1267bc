/* SPDX-License-Identifier: GPL-2.0-only */
#include "job_terms.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "deadline.h"
#include "job_log.h"
#include "meta_job.h"
#include "open_loop.h"
#include "optgroup.h"
#include "pool/spread.h"
#include "wire/credentials.h"

struct fio_option engine_option_table[TERMS_MAX];

static const enum fio_opt_type types[] = {
	[TERM_NUMBER] = FIO_OPT_INT,	   [TERM_SIZE] = FIO_OPT_INT,
	[TERM_BYTES] = FIO_OPT_STR_VAL,	   [TERM_CHOICE] = FIO_OPT_STR,
	[TERM_SWITCH] = FIO_OPT_BOOL,	   [TERM_FLAG] = FIO_OPT_STR_SET,
	[TERM_TEXT] = FIO_OPT_STR_STORE,   [TERM_ADDRESSES] = FIO_OPT_STR_STORE,
	[TERM_GONE] = FIO_OPT_UNSUPPORTED,
};

static void make(struct fio_option *option, const struct term *term)
{
	*option = (struct fio_option){
		.name = term->word,
		.lname = term->word, /* fio requires an lname; only gfio shows it */
		.alias = term->alias,
		.type = types[term->kind],
		.help = term->help,
		.def = term->preset,
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_NFS,
	};
	if (term->kind != TERM_GONE)
		option->off1 = (unsigned int)term->at;
	if (term->kind == TERM_FLAG)
		option->neg =
			!term->least; /* hard clears soft: the later one counts, as in nfs(5) */
	if (term->kind == TERM_NUMBER)
		option->minval = term->preset ? (int)term->least : 0;
	option->maxval = term->most;
	for (int i = 0; term->values[i].word; i++)
		option->posval[i] = (struct value_pair){
			.ival = term->values[i].word,
			.oval = term->values[i].value,
			.help = term->values[i].help,
		};
}

__attribute__((constructor)) static void make_all(void)
{
	struct fio_option *option = engine_option_table;

	for_each_term (term)
		if (term->help)
			make(option++, term);
}

static const unsigned long long BLOCK_MAX = 1ull << 30; /* a request counts its bytes in 32 bits */

/* With trim_percentage= and trim_backlog= fio trims some of the blocks that it wrote, before it
 * verifies them, whatever rw= says; fio 3.33 aborts when an engine refuses such a trim. */
static bool trims_as_it_verifies(const struct thread_data *td)
{
	const struct thread_options *o = &td->o;

	return td_write(td) && o->verify && o->do_verify && o->trim_percentage && o->trim_backlog;
}

/* The value that a word of the command line gives --sec, or "". `awaited`: it follows --sec. */
static const char *value_of_sec(const char *word, bool awaited)
{
	static const char option[] = "-sec="; /* the word may begin with a second dash */
	const char *name = word[0] == '-' ? word + (word[1] == '-') : "";

	if (awaited)
		return word;
	return strncmp(name, option, strlen(option)) != 0 ? "" : name + strlen(option);
}

/* Refuses --sec=krb5: before fio knows the engine's options, it takes --sec for its own --section,
 * without a message, and the job would run without Kerberos. */
static int check_command_line(void)
{
	static const char mistaken[] = "krb5";
	FILE *words = fopen("/proc/self/cmdline", "re");
	bool awaited = false;
	char *word = NULL;
	size_t size = 0;
	int error = 0;

	while (words && !error && getdelim(&word, &size, '\0', words) > 0) {
		const char *value = value_of_sec(word, awaited);

		awaited = !strcmp(word, "-sec") || !strcmp(word, "--sec");
		if (strncmp(value, mistaken, strlen(mistaken)) != 0)
			continue;
		job_log("fio takes --sec=%s for its own --section, not for Kerberos: write "
			"--security=%s after --ioengine, or --section=%s if you mean a section",
			value, value, value);
		error = -EINVAL;
	}
	free(word);
	if (words)
		fclose(words);
	return error;
}

/* Refuses negative numbers: fio takes them where the least is 0, and makes them of large ones. */
static int check_numbers(const struct terms *terms)
{
	for_each_term (term) {
		long long number = 0;

		if (term->kind == TERM_BYTES)
			number = (long long)*term_bytes(term, terms);
		else if (term->kind == TERM_NUMBER || term->kind == TERM_SIZE)
			number = (int)*term_number(term, terms);
		if (number >= 0)
			continue;
		job_log("%s=%lld is negative, or was too large for fio: give a number in the "
			"option's range",
			term->word, number);
		return -EINVAL;
	}
	return 0;
}

static int check_clients(const struct thread_data *td)
{
	enum { BESIDE = 64 }; /* files that fio and the engine have open besides */
	enum { NUMBER = 10 }; /* digits of a client's number */
	const struct terms *eo = options_of(td);
	const char *name = eo->client_name ?: "";
	const struct refusal refusals[] = {
		{(eo->client_depth || eo->client_start || eo->client_files) && !eo->nclients,
		 "client_depth=, client_files= and client_start= are for many clients: give "
		 "nclients= too, or leave them out"},
		{eo->client_files && td->o.nr_files < eo->nclients,
		 "client_files=own needs a file for each client: give nrfiles= as nclients=, or "
		 "more"},
		{strlen(name) > AUTH_SYS_MACHINE_MAX - NUMBER,
		 "client_name= is longer than 54 characters: give a shorter one"},
		{eo->nclients > 1 && *name && !strstr(name, "%d"),
		 "client_name= would be the name of all clients: put %d into it, for their "
		 "numbers"},
		{eo->nclients && eo->nconnect > 1,
		 "nclients= and nconnect=: each client has one connection: leave nconnect= out"},
		{eo->nclients && eo->trunking,
		 "nclients= and trunking=session: each client has a session of its own: leave "
		 "trunking= out"},
		{eo->nclients && eo->failover,
		 "nclients= and failover=1: no client does another's I/O: leave failover= out"},
	};
	uint64_t needed = eo->nclients * (td->o.use_thread ? td->o.numjobs : 1ull) + BESIDE;
	struct rlimit limit;

	if (job_refuse("", refusals, ARRAY_SIZE(refusals)))
		return -EINVAL;
	if (!eo->nclients || getrlimit(RLIMIT_NOFILE, &limit) || needed <= limit.rlim_cur)
		return 0;
	job_log("nclients=%u needs %llu open files, and a process may open %llu: raise ulimit -n",
		eo->nclients, (unsigned long long)needed, (unsigned long long)limit.rlim_cur);
	return -EMFILE;
}

int terms_check(struct thread_data *td)
{
	const struct terms *eo = options_of(td);
	const char *required = eo->require_version;
	unsigned long long block = max_of(td->o.max_bs[DDIR_READ], td->o.max_bs[DDIR_WRITE]);
	const struct refusal unsupported[] = {
		{td->o.fill_device,
		 "fill_device is not supported: give the bytes to write by size="},
		{td->o.read_iolog_chunked,
		 "read_iolog_chunked is not supported: fio would find some files and larger "
		 "blocks only while the job runs: leave it out"},
		{eo->failover && eo->reconnect > RECONNECT_BACKOFF,
		 "reconnect=jitter, or linux, and failover=1: in such a pause a path is given up: "
		 "leave reconnect= out"},
		{td->o.pre_read, "pre_read is not supported: fio would read local files: let "
				 "an earlier job read the pool's, and set stonewall in this one"},
		{eo->discard && td->o.verify,
		 "discard=1 drops the data that verify= checks: leave one of them out"},
	};

	if (required && strcmp(required, NFSMULTI_VERSION)) {
		job_log("require_version=%s, and the engine on this host is %s: install the same "
			"on every host",
			required, NFSMULTI_VERSION);
		return -EINVAL;
	}
	if (!eo->metadata && (td_trim(td) || trims_as_it_verifies(td))) {
		job_log("%s%s: NFSv3 and NFSv4.1 have no operation that trims, and NFSv4.2's "
			"DEALLOCATE is not used here: use reads and writes",
			td_trim(td) ? "rw=" : "",
			td_trim(td) ? ddir_str(td->o.td_ddir) : "trim_percentage");
		return -EOPNOTSUPP;
	}
	if (job_refuse("", unsupported, ARRAY_SIZE(unsupported)))
		return -EOPNOTSUPP;
	if (block > BLOCK_MAX) {
		job_log("bs of %llu bytes: one block may have at most %llu", block, BLOCK_MAX);
		return -EINVAL;
	}
	return check_command_line() ?: check_numbers(eo) ?: check_clients(td)
					       ?: open_loop_check(td) ?: metadata_check(td);
}

static bool same_paths(const struct pool *a, const struct pool *b)
{
	bool same = a->count == b->count;

	for (unsigned int i = 0; same && i < a->count; i++)
		same = !strcmp(a->paths[i].label, b->paths[i].label);
	return same;
}

/* Without pool=, every file of the job must lie in the same pool. */
static int pool_of_files(struct thread_data *td, struct pool *pool)
{
	int error;

	if (!td->files_index) {
		job_log("no pool: give pool=: the job has no file to find a pool by");
		return -ENOENT;
	}
	error = pool_find(NULL, td->files[0]->file_name, pool, NULL, job_log);
	if (error)
		return error;
	for (unsigned int i = 1; !error && i < td->o.nr_files; i++) {
		const char *file = td->files[i]->file_name;
		struct pool other;

		error = pool_find(NULL, file, &other, NULL, job_log);
		if (error)
			break;
		if (!same_paths(pool, &other)) {
			job_log("\"%s\" lies in another pool than the job's first file: give it a "
				"job of its own",
				file);
			error = -EINVAL;
		}
		pool_free(&other);
	}
	if (error)
		pool_free(pool);
	return error;
}

/* Why the clients of a path cannot have users of their own (uid=N+); NULL: they can. */
static const char *each_refusal(const struct terms *eo, const struct terms *path)
{
	const struct terms terms = terms_over(path, eo);

	if (!eo->nclients)
		return "is for many clients: give nclients= too, or leave '+' out";
	if (terms.security != SEC_SYS)
		return "is for AUTH_SYS, since with Kerberos all clients are one principal: use "
		       "sec=sys, or leave '+' out";
	return NULL;
}

static int check_each(const struct terms *eo, const struct pool *pool)
{
	for (unsigned int i = 0; i < pool->count; i++) {
		const struct terms *path = &pool->paths[i].terms;
		const char *refusal = each_refusal(eo, path);

		for_each_term (term) {
			if (!refusal || !term_is_each(term, path))
				continue;
			job_log("%s: %s=%u+ %s", pool->paths[i].label, term->word,
				*term_number(term, path), refusal);
			return -EINVAL;
		}
	}
	return 0;
}

/* Fills in the pool that pool= or else the job's files give, and resolves it. 0 or -errno. */
static int find_pool(struct thread_data *td, struct pool *pool)
{
	const struct terms *eo = options_of(td);
	struct pool_error err;
	int error =
		eo->pool ? pool_find(eo->pool, NULL, pool, NULL, job_log) : pool_of_files(td, pool);

	if (error)
		return error;
	for (unsigned int i = 0; i < pool->count; i++) /* pool_resolve() needs the family */
		if (!term_given(TERM(proto), &pool->paths[i].terms))
			pool->paths[i].terms.proto = eo->proto;
	error = pool_resolve(pool, pool_getaddrinfo, &err);
	if (error)
		job_log("pool: %s", err.reason);
	error = error ?: check_each(eo, pool) ?: path_config_check(eo, pool, job_log);
	if (error)
		pool_free(pool);
	return error;
}

int terms_name(struct fio_file *f, const struct pool *pool, const char **name)
{
	struct pool_error err;
	int error = pool_relative_name(pool, f->file_name, name, &err);

	if (error)
		job_log("filename \"%s\": %s", f->file_name, err.reason);
	return error;
}

/* Fills in the terms of a path, for path_open() to take over. 0 or a negative errno. */
static int find_terms(struct thread_data *td, const struct pool_path *path,
		      struct path_config *config)
{
	const struct terms *eo = options_of(td);
	const struct term *term = TERM(version);
	const struct term_value *version = term_value(term, eo->version);

	if (path->kind == PATH_NFS && !term_given(term, &path->terms) &&
	    term_refuses(term, version)) {
		job_log("%s=%s%s", term->word, version->word, term->refusal);
		return -EPROTONOSUPPORT;
	}
	return path_config_make(config, path, eo, job_log);
}

uint32_t terms_job_number(const struct thread_data *td)
{
	return (uint32_t)td->thread_number - 1;
}

uint32_t terms_path_of_job(const struct thread_data *td, uint32_t count)
{
	const struct terms *eo = td->eo;

	return (terms_job_number(td) + eo->first_path) % count;
}

enum io_stable terms_stable(struct thread_data *td)
{
	/* sync=1 and sync=sync are O_SYNC, sync=dsync is O_DSYNC: open(2) */
	if ((td->o.sync_io & O_SYNC) == O_SYNC)
		return IO_FILE_SYNC;
	if (td->o.sync_io & O_DSYNC)
		return max_of(options_of(td)->stable, (unsigned int)IO_DATA_SYNC);
	return options_of(td)->stable;
}

/* --- the paths of a job's pool --- */

int pool_paths_init(struct pool_paths *paths, struct thread_data *td, uint32_t file_count)
{
	int error = find_pool(td, &paths->pool);

	if (error)
		return error;
	paths->file_count = file_count;
	metadata_terms(td, &paths->entries);
	paths->open = calloc(paths->pool.count, sizeof(*paths->open));
	if (paths->open)
		return 0;
	pool_free(&paths->pool);
	return -ENOMEM;
}

void pool_paths_close(struct pool_paths *paths)
{
	if (!paths->open)
		return;
	for (unsigned int i = 0; i < paths->pool.count; i++)
		path_close(paths->open[i].path);
	free(paths->open);
	paths->open = NULL;
	pool_free(&paths->pool);
}

/* Returns path `number` of the pool, opened if necessary; or NULL and *error, which is logged. */
static struct path *get(struct pool_paths *paths, struct thread_data *td, uint32_t number,
			int *error)
{
	const struct terms *eo = td->eo;
	const struct path_job job = {
		.file_count = paths->file_count,
		.entries = eo->metadata ? &paths->entries : NULL,
		.failover = eo->failover && paths->pool.count > 1,
		.clients = paths->clients,
		.first_client = terms_job_number(td) * max_of(eo->nclients, 1u),
		.stop = deadline_passed,
		.over = deadline_over,
		.log = job_log,
		.state = &paths->state,
	};
	struct opened_path *opened = &paths->open[number];
	struct path_config config;

	*error = opened->failed;
	if (opened->path || *error)
		return opened->path;
	*error = find_terms(td, &paths->pool.paths[number], &config);
	if (!*error)
		*error = path_open(&opened->path, &config, &job);
	opened->failed = *error;
	return opened->path;
}

uint32_t pool_paths_all(struct pool_paths *paths, struct thread_data *td, struct path **all,
			uint32_t max, int *error)
{
	const struct terms *eo = td->eo;
	uint32_t count = min(paths->pool.count, max), found = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct path *path = get(paths, td, i, error);

		if (path)
			all[found++] = path;
		else if (!eo->failover || *error == -EINTR)
			return 0;
	}
	if (found)
		*error = 0;
	return found;
}

struct path *pool_paths_own(struct pool_paths *paths, struct thread_data *td, int *error)
{
	const struct terms *eo = td->eo;
	uint32_t count = paths->pool.count, own = terms_path_of_job(td, count);
	struct path *path = get(paths, td, own, error);

	for (uint32_t i = 1; !path && eo->failover && *error != -EINTR && i < count; i++)
		path = get(paths, td, (own + i) % count, error);
	return path;
}

/* --- the files that this run of fio has made --- */

enum { FILES_MAX = 65536 };

/* Memory shared with the processes of jobs: mapped before the first fork, and never unmapped, since
 * a thread that fio has left behind may read it until the process ends. NULL: out of memory. */
static struct {
	_Atomic uint32_t count;
	_Atomic uint64_t hashes[FILES_MAX];
} * own;

__attribute__((constructor)) static void share_own(void)
{
	void *memory =
		mmap(NULL, sizeof(*own), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	own = memory == MAP_FAILED ? NULL : memory;
}

/* Continues an FNV-1a hash with a text and its NUL. */
static uint64_t mix(uint64_t hash, const char *text)
{
	do
		hash = (hash ^ (uint8_t)*text) * 0x100000001b3ull;
	while (*text++);
	return hash;
}

static uint64_t hash_of(const struct pool *pool, const char *name)
{
	return mix(mix(0xcbf29ce484222325ull, pool->paths[0].label), name);
}

void own_file_add(const struct pool *pool, const char *name)
{
	uint32_t place = own ? atomic_fetch_add(&own->count, 1) : FILES_MAX;

	if (place < FILES_MAX)
		own->hashes[place] = hash_of(pool, name);
}

bool own_file(const struct pool *pool, const char *name)
{
	uint32_t count = own ? min_of(own->count, (uint32_t)FILES_MAX) : 0;
	uint64_t hash = hash_of(pool, name);

	for (uint32_t i = 0; i < count; i++)
		if (own->hashes[i] == hash)
			return true;
	return false;
}
