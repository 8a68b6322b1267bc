/* SPDX-License-Identifier: GPL-2.0-only */
#include "terms.h"

#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "metadata.h"
#include "pool/getaddrinfo.h"
#include "pool/spread.h"
#include "say.h"
#include "util.h"

static const unsigned long long BLOCK_MAX = 1ull << 30; /* a request counts its bytes in 32 bits */

/* fio trims some of what it has written before it verifies that, whatever rw= says; fio 3.33 aborts
 * when an engine refuses such a trim. */
static bool trims_as_it_verifies(const struct thread_data *td)
{
	const struct thread_options *o = &td->o;

	return td_write(td) && o->verify && o->do_verify && o->trim_percentage && o->trim_backlog;
}

int terms_check(struct thread_data *td)
{
	const char *required = options_of(td)->require_version;

	if (required && strcmp(required, NFSMULTI_VERSION)) {
		say("require_version=%s, and the engine on this host is %s: install the same on "
		    "every host",
		    required, NFSMULTI_VERSION);
		return -EINVAL;
	}
	if (!options_of(td)->metadata && (td_trim(td) || trims_as_it_verifies(td))) {
		say("%s%s trims: NFSv3 and NFSv4.1 have no operation that does, and NFSv4.2's "
		    "DEALLOCATE is not used here: use reads and writes",
		    td_trim(td) ? "rw=" : "",
		    td_trim(td) ? ddir_str(td->o.td_ddir) : "trim_percentage");
		return -EOPNOTSUPP;
	}
	if (td->o.fill_device) {
		say("fill_device is not supported: give the size that is to be written (size=)");
		return -EOPNOTSUPP;
	}
	if (td->o.read_iolog_chunked) {
		say("read_iolog_chunked is not supported: fio finds files and larger blocks in the "
		    "log while the job runs: leave it out");
		return -EOPNOTSUPP;
	}
	if (td->o.pre_read) {
		say("pre_read is not supported: fio reads local files for it: let a job before "
		    "this "
		    "one read them (stonewall)");
		return -EOPNOTSUPP;
	}
	if (max_of(td->o.max_bs[DDIR_READ], td->o.max_bs[DDIR_WRITE]) > BLOCK_MAX) {
		say("bs of %llu bytes: one block may have at most %llu",
		    max_of(td->o.max_bs[DDIR_READ], td->o.max_bs[DDIR_WRITE]), BLOCK_MAX);
		return -EINVAL;
	}
	return metadata_check(td);
}

/* --- the pool --- */

static void say_pool(const char *what, const char *text, const struct pool_error *err)
{
	if (err->column)
		say("%s: column %zu: %s, in \"%s\"", what, err->column, err->reason, text);
	else
		say("%s: %s", what, err->reason);
}

static const char *const environments[] = {"NFSMULTI_POOLS", "IOTRAP_MOUNT_POOLS"};

static int named_pool(const char *name, struct pool *pool)
{
	struct pool_error errs[ARRAY_SIZE(environments)] = {0};
	bool said = false;

	for (size_t i = 0; i < ARRAY_SIZE(environments); i++) {
		const char *text = getenv(environments[i]);
		int error = text ? pool_by_name(text, name, pool, &errs[i]) : -ENOENT;

		if (error && error != -ENOENT)
			say_pool(environments[i], text, &errs[i]);
		if (error != -ENOENT)
			return error;
	}
	for (size_t i = 0; i < ARRAY_SIZE(environments); i++) {
		if (!*errs[i].reason) /* not set */
			continue;
		say_pool(environments[i], name, &errs[i]); /* with the names it knows */
		said = true;
	}
	if (!said)
		say("pool=%s: neither NFSMULTI_POOLS nor IOTRAP_MOUNT_POOLS is set; a directory "
		    "begins with a slash, an export with nfs://",
		    name);
	return -ENOENT;
}

static int pool_of_file(const char *file, struct pool *pool)
{
	struct pool_error err;

	for (size_t i = 0; i < ARRAY_SIZE(environments); i++) {
		const char *text = getenv(environments[i]), *relative;
		int error = text ? pool_by_file(text, file, pool, &relative, &err) : -ENOENT;

		if (error && error != -ENOENT)
			say_pool(environments[i], text, &err);
		if (error != -ENOENT)
			return error;
	}
	say("no pool: give pool=, or a file below a mount that NFSMULTI_POOLS or "
	    "IOTRAP_MOUNT_POOLS names (\"%s\" is not)",
	    file);
	return -ENOENT;
}

static bool same_paths(const struct pool *a, const struct pool *b)
{
	if (a->count != b->count)
		return false;
	for (unsigned int i = 0; i < a->count; i++)
		if (strcmp(a->paths[i].label, b->paths[i].label))
			return false;
	return true;
}

/* A file that is not the job's first. */
static int check_pool_of_file(const char *file, const struct pool *first)
{
	struct pool pool;
	int error = pool_of_file(file, &pool);
	bool same;

	if (error)
		return error;
	same = same_paths(first, &pool);
	pool_free(&pool);
	if (same)
		return 0;
	say("\"%s\" lies in another pool than the job's first file: give it a job of its own",
	    file);
	return -EINVAL;
}

/* Without pool=, every file of the job must lie in the same pool. */
static int pool_of_files(struct thread_data *td, struct pool *pool)
{
	int error;

	if (!td->files_index) {
		say("no pool: give pool=: the job has no file that could lie in one");
		return -ENOENT;
	}
	error = pool_of_file(td->files[0]->file_name, pool);
	if (error)
		return error;
	for (unsigned int i = 1; !error && i < td->o.nr_files; i++)
		error = check_pool_of_file(td->files[i]->file_name, pool);
	if (error)
		pool_free(pool);
	return error;
}

static int listed_pool(const char *text, struct pool *pool)
{
	struct pool_error err;
	int error = pool_parse(text, pool, &err);

	if (error)
		say_pool("pool", text, &err);
	return error;
}

int terms_pool(struct thread_data *td, struct pool *pool)
{
	const struct engine_options *eo = options_of(td);
	struct pool_error err;
	int error;

	if (!eo->pool)
		error = pool_of_files(td, pool);
	else if (pool_is_name(eo->pool))
		error = named_pool(eo->pool, pool);
	else
		error = listed_pool(eo->pool, pool);
	if (error)
		return error;
	if (eo->proto == MOUNT_TCP6 || eo->proto == MOUNT_RDMA6)
		for (unsigned int i = 0; i < pool->count; i++)
			if (!(pool->paths[i].args.set & ARG_PROTO))
				pool->paths[i].args.family = AF_INET6;
	error = pool_resolve(pool, pool_getaddrinfo, &err);
	if (error) {
		say("pool: %s", err.reason);
		pool_free(pool);
	}
	return error;
}

int terms_name(struct fio_file *f, const struct pool *pool, const char **name)
{
	struct pool_error err;
	int error = pool_relative_name(pool, f->file_name, name, &err);

	if (error)
		say("filename \"%s\": %s", f->file_name, err.reason);
	return error;
}

/* --- one path --- */

/* Reads "address+address+…" into config->locals. */
static int parse_locals(const char *text, int family, struct path_config *config)
{
	char why[128], *list = strdup(text), *rest = list, *one;
	int error = 0;

	while (list && !error && (one = strsep(&rest, "+"))) {
		struct sockaddr_storage address, *grown;
		int count = pool_getaddrinfo(one, family, &address, 1, why, sizeof(why));

		if (count < 1 || address.ss_family != config->remote.ss_family) {
			say("localaddr=%s: \"%s\": %s", text, one,
			    count < 1 ? why : "of another family than the server's address");
			error = -EINVAL;
			break;
		}
		grown = realloc(config->locals, (config->local_count + 1) * sizeof(*grown));
		if (!grown) {
			error = -ENOMEM;
			break;
		}
		config->locals = grown;
		config->locals[config->local_count++] = address;
	}
	free(list);
	return list ? error : -ENOMEM;
}

/* A path's own argument wins over the job's option. */
#define CHOOSE(args, flag, member, option) ((args)->set & (flag) ? (args)->member : (option))

/* NFSv4 has one port, and no MOUNT: nfs(5) ignores mountport= then. */
static int version_terms(const struct engine_options *eo, const struct path_args *args,
			 struct path_config *config)
{
	enum { NFS_PORT = 2049 };
	static atomic_flag said = ATOMIC_FLAG_INIT;
	unsigned int version = CHOOSE(args, ARG_VERSION, minor, eo->version);

	if (version == VERSION_40) {
		say("version=4.0: NFSv4.0 has no sessions, which the engine's calls need: use 4.1, "
		    "or mount the export and name the directory");
		return -EPROTONOSUPPORT;
	}
	config->minor = version;
	config->stateless = eo->stateless;
	config->trunks = eo->trunking;
	if (!version)
		return 0;
	if (config->mount_port && !atomic_flag_test_and_set(&said))
		say("mountport= is ignored: NFSv4 has no MOUNT");
	config->nfs_port = config->nfs_port ?: NFS_PORT;
	return 0;
}

/* Whoever wants other than nfs(5)'s defaults for a slow server means the set-up, too. */
static uint64_t setup_time(const struct path_config *config)
{
	enum { TIMEO = 60, RETRANS = 2 };
	bool told = config->timeo != TIMEO * SEC || config->retrans != RETRANS;

	return told ? max_of(config->timeo * (config->retrans + 1), 5 * SEC) : 10 * SEC;
}

static void copy_terms(const struct engine_options *eo, const struct path_args *args,
		       struct path_config *config)
{
	config->nfs_port = CHOOSE(args, ARG_PORT, port, eo->port);
	config->mount_port = CHOOSE(args, ARG_MOUNTPORT, mountport, eo->mountport);
	config->rsize = CHOOSE(args, ARG_RSIZE, rsize, eo->rsize);
	config->wsize = CHOOSE(args, ARG_WSIZE, wsize, eo->wsize);
	config->timeo = CHOOSE(args, ARG_TIMEO, timeo, eo->timeo) * 100000000ull;
	config->retrans = CHOOSE(args, ARG_RETRANS, retrans, eo->retrans);
	config->setup_time = setup_time(config);
	config->soft = CHOOSE(args, ARG_SOFT, soft, eo->soft);
	config->uid = CHOOSE(args, ARG_UID, uid, geteuid());
	config->gid = CHOOSE(args, ARG_GID, gid, getegid());
}

static int copy_address(const struct pool_path *path, struct path_config *config)
{
	char address[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];

	if (getnameinfo((const struct sockaddr *)&path->addr, path->addr_len, address,
			sizeof(address), NULL, 0, NI_NUMERICHOST))
		return -EINVAL;
	config->remote = path->addr;
	config->remote_length = path->addr_len;
	config->address = strdup(address);
	config->export = strdup(path->export);
	return config->address && config->export ? 0 : -ENOMEM;
}

static bool proto_is_rdma(const struct engine_options *eo, const struct path_args *args)
{
	if (args->set & ARG_PROTO)
		return args->proto == PROTO_RDMA;
	return eo->proto == MOUNT_RDMA || eo->proto == MOUNT_RDMA6;
}

/* Asked before a file is laid out for nothing. */
static bool has_rdma_device(void)
{
	DIR *devices = opendir("/sys/class/infiniband");
	const struct dirent *entry;
	bool found = false;

	while (devices && !found && (entry = readdir(devices)))
		found = entry->d_name[0] != '.';
	if (devices)
		closedir(devices);
	return found;
}

/* A path over RDMA keeps its TCP port: names go there. */
static int rdma_terms(const struct engine_options *eo, const struct pool_path *path,
		      struct path_config *config)
{
	config->rdma = proto_is_rdma(eo, &path->args);
	config->rdma_port = CHOOSE(&path->args, ARG_RDMAPORT, rdmaport, eo->rdmaport);
	if (!config->rdma)
		return 0;
#ifndef HAVE_RDMA
	say("%s: proto=rdma: the engine was built without libibverbs and librdmacm: apt-get "
	    "install libibverbs-dev librdmacm-dev, build again; or use proto=tcp",
	    path->label);
	return -EPROTONOSUPPORT;
#endif
	if (has_rdma_device())
		return 0;
	say("%s: proto=rdma: this machine has no RDMA device: load its driver (rdma link lists "
	    "devices), or use proto=tcp",
	    path->label);
	return -ENODEV;
}

static int nfs_terms(const struct engine_options *eo, const struct pool_path *path,
		     struct path_config *config)
{
	const char *locals = CHOOSE(&path->args, ARG_LOCALADDR, localaddr, eo->localaddr);
	int error = copy_address(path, config);

	if (error)
		return error;
	error = rdma_terms(eo, path, config);
	if (error)
		return error;
	copy_terms(eo, &path->args, config);
	error = version_terms(eo, &path->args, config);
	if (error)
		return error;
	return locals ? parse_locals(locals, config->remote.ss_family, config) : 0;
}

int terms_path(struct thread_data *td, const struct pool_path *path, struct path_config *config)
{
	int error = 0;

	memset(config, 0, sizeof(*config));
	config->label = strdup(path->label);
	if (path->kind == PATH_MOUNT)
		config->dir = strdup(path->dir);
	else
		error = nfs_terms(options_of(td), path, config);
	if (!error && (!config->label || (path->kind == PATH_MOUNT && !config->dir)))
		error = -ENOMEM;
	if (error)
		path_config_free(config);
	return error;
}

/* --- the job --- */

uint32_t terms_job_number(const struct thread_data *td)
{
	return (uint32_t)td->thread_number - 1;
}

uint32_t terms_path_of_job(const struct thread_data *td, uint32_t count)
{
	const struct engine_options *eo = td->eo;

	return spread_path_of_job(terms_job_number(td) + eo->first_path, count);
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
