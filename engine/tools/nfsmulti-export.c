/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfsmulti-export - looks at the paths of a pool, and makes and removes directories there, with the
 * engine's own client: scripts need no other, and see what a job would see.
 */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export.h"
#include "group/path.h"
#include "nfs/status.h"
#include "stats/json_line.h"
#include "stats/plain_text.h"

static const char usage[] =
	"Usage: nfsmulti-export info POOL\n"
	"       nfsmulti-export make POOL DIR\n"
	"       nfsmulti-export list POOL [DIR]\n"
	"       nfsmulti-export remove POOL DIR MARK\n"
	"       nfsmulti-export remove-empty POOL DIR\n"
	"       nfsmulti-export remove-unmarked POOL DIR\n"
	"\n"
	"Asks the paths of a pool (as nfsmulti-pool reads it) by the engine's own client, and\n"
	"prints lines of JSON. DIR is relative to the export or mount.\n"
	"\n"
	"  info    each path: version, bytes of one READ and WRITE, room and rights;\n"
	"          or \"error\" and \"remedy\", with exit status 1. Also the security flavors\n"
	"          that its export takes, or \"flavors_error\"\n"
	"  make    one new directory, under a free name; then checks that each path shows it\n"
	"  list    what lies in a directory, over the first path of POOL\n"
	"  remove  a directory and all below it. Prints what was removed, each second, and\n"
	"          at the end. A missing DIR is no error.\n"
	"          DIR must hold a directory MARK, a name that only the maker of DIR knows:\n"
	"          MARK goes last. remove-empty removes an empty DIR, and remove-unmarked any\n"
	"          DIR, with all that anybody has in it\n"
	"\n"
	"Exit status: 0, 1 with the reason on standard error, 2 for a wrong command line; 3 with\n"
	"the reason, where paths do not lead to the same files, and 4, where there is no MARK.\n";

enum {
	DIFFERENT_FILES = 3, /* exit statuses */
	NO_MARK = 4,
	RESERVED_PORTS = 1024, /* ports below are reserved */
};

static volatile sig_atomic_t interrupted;
static char said[512];			 /* the latest line of say() */
static bool quiet;			 /* say() prints nothing */
static const struct tree_count *removed; /* by the removal under way; NULL: there is none */
static uint64_t told_at;
static int unprinted; /* errno: output has been lost */

static void interrupt(int number)
{
	interrupted = 1;
}

/* Notes failed output at once, since stdio drops bytes that it could not write. */
static void flush(void)
{
	if ((fflush(stdout) || ferror(stdout)) && !unprinted)
		unprinted = errno;
}

static void tell_count(const struct tree_count *count)
{
	printf("{\"entries\": %" PRIu64 ", \"bytes\": %" PRIu64 "}\n", count->entries,
	       count->bytes);
}

/* path_job's stop(). Also prints each second how far a removal has come. */
static bool stop(void)
{
	uint64_t now = clock_now();

	if (removed && now - told_at > SEC) {
		tell_count(removed);
		flush();
		told_at = now;
	}
	return interrupted;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(said, sizeof(said), format, list);
	va_end(list);
	if (!quiet)
		plain_print(stderr, "nfsmulti-export: %s", said);
}

struct run {
	struct terms terms; /* a job's defaults */
	struct pool pool;
	struct export *exports; /* of each path; one that is not open has no `path` */
	void *state;		/* the protocol's */
	char *mark;
};

static int read_pool(const char *text, struct pool *pool)
{
	struct pool_search search;
	struct pool_error err;
	int error = pool_find(text, NULL, pool, &search, say);

	if (error || !pool_resolve(pool, pool_getaddrinfo, &err))
		return error;
	pool_log_error(say, &search.places[search.first], &err);
	pool_free(pool);
	return -EINVAL;
}

static int open_path(struct run *run, unsigned int number)
{
	const struct path_job job = {
		.file_count = 1, .stop = stop, .log = say, .state = &run->state};
	struct path_config config;
	struct path *path;
	int error = path_config_make(&config, &run->pool.paths[number], &run->terms, say)
			    ?: path_open(&path, &config, &job);

	if (!error)
		export_open(&run->exports[number], path);
	return error;
}

static int begin(struct run *run, const char *text)
{
	terms_init(&run->terms);
	if (read_pool(text, &run->pool) || path_config_check(&run->terms, &run->pool, say))
		return 1;
	run->exports = calloc(run->pool.count, sizeof(*run->exports));
	return run->exports ? 0 : 1;
}

static void end(struct run *run)
{
	for (unsigned int i = 0; run->exports && i < run->pool.count; i++)
		path_close(run->exports[i].path);
	free(run->exports);
	pool_free(&run->pool);
}

static int failed(const struct run *run, unsigned int number)
{
	say("%s: %s", run->pool.paths[number].label, run->exports[number].error);
	return 1;
}

static const char *version_of(const struct pool_path *path)
{
	if (path->kind == PATH_MOUNT)
		return "mount";
	return term_value(TERM(version), path->terms.version)->word;
}

/* A server that does not count bytes or files reports a `total` of 0. */
static void put_room(const char *key, uint64_t value, uint64_t total)
{
	if (value == META_UNTOLD || !total || total == META_UNTOLD)
		printf("\"%s\": null, ", key);
	else
		line_number(stdout, key, value);
}

static void put_right(const char *key, const struct export_facts *facts, uint32_t bits)
{
	const char *told = (facts->access & bits) == bits ? "true" : "false";

	printf("\"%s\": %s, ", key, facts->access & META_ACCESS_UNTOLD ? "null" : told);
}

static void put_facts(const struct export *export, const struct export_facts *facts)
{
	const struct meta_room *room = &facts->room;
	const struct names *names = export->path->names; /* NULL: a mount */
	uint16_t port = names ? names->rpc.link.source_port : 0;

	line_number(stdout, "read_max", facts->limits.read_max);
	line_number(stdout, "write_max", facts->limits.write_max);
	put_room("bytes_total", room->bytes_total, room->bytes_total);
	put_room("bytes_available", room->bytes_available, room->bytes_total);
	put_room("files_available", room->files_available, room->files_total);
	put_right("may_read", facts, META_ACCESS_READ | META_ACCESS_LOOKUP);
	put_right("may_write", facts, META_ACCESS_MODIFY | META_ACCESS_EXTEND);
	printf("\"reserved_port\": %s, ", port && port < RESERVED_PORTS ? "true" : "false");
}

/* True where this process may bind a reserved port, which many servers require. */
static bool may_reserve_port(void)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(RESERVED_PORTS - 1),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool refused = bind(fd, (const struct sockaddr *)&address, sizeof(address)) &&
		       errno == EACCES; /* a port that is taken gives another errno */

	close(fd);
	return !refused;
}

static bool is_unreachable(int error)
{
	return error == -ECONNREFUSED || error == -ETIMEDOUT || error == -ENOTCONN ||
	       error == -EHOSTUNREACH || error == -ENETUNREACH;
}

static const char *remedy_for(const struct pool_path *path, int error)
{
	if (path->kind == PATH_MOUNT)
		return error == -EACCES ? "run as a user who may use the directory"
					: "mount the export there";
	if (is_unreachable(error))
		return "is the server up, does its firewall let the port through, and is the port "
		       "right (nfsport=, mountport=)?";
	switch (error) {
	case -EACCES:
	case -EPERM:
		return may_reserve_port() ? "let this client in on the server"
					  : "let this client in on the server; it may want a "
					    "reserved source port: run as root, or export with "
					    "\"insecure\" (nfs-ganesha: PrivilegedPort = false)";
	case -ENOENT:
		return may_reserve_port() ? "name an export that the server has"
					  : "name an export that the server has; it may show this "
					    "one to reserved source ports alone: run as root, or "
					    "export with \"insecure\" (nfs-ganesha: "
					    "PrivilegedPort = false)";
	case -EPROTONOSUPPORT: return "choose another version=, or enable this one on the server";
	default: return "";
	}
}

/* Drops the path's label from the engine's line: the output has it in another field. */
static const char *without_label(const char *text, const char *label)
{
	size_t length = strlen(label);

	return !strncmp(text, label, length) && !strncmp(text + length, ": ", 2) ? text + length + 2
										 : text;
}

/* `sec`: the flavor by which the server is asked. */
static int ask_flavors(struct run *run, unsigned int number, enum path_sec sec,
		       struct flavors *flavors)
{
	void *state = NULL; /* a client of its own, perhaps with another principal */
	const struct path_job job = {.file_count = 1, .stop = stop, .log = say, .state = &state};
	struct path_config config;
	int error = path_config_make(&config, &run->pool.paths[number], &run->terms, say);

	if (error)
		return error;
	config.terms.security = sec;
	return path_flavors(&config, &job, flavors);
}

static void put_flavors(const struct flavors *flavors)
{
	const char *separator = "";

	printf("\"flavors\": [");
	for (enum path_sec sec = SEC_SYS; sec <= SEC_KRB5P; sec++)
		if (flavors->known & 1u << sec) {
			printf("%s\"%s\"", separator, term_value(TERM(security), sec)->word);
			separator = ", ";
		}
	if (flavors->none)
		printf("%s\"none\"", separator);
	printf("], ");
}

/*
 * Asks with AUTH_SYS, which needs no ticket; if the server denies AUTH_SYS, with the path's own
 * flavor. `error`: why the path failed. A server that did not answer is not asked again, except
 * with Kerberos, where the KDC may be the one that did not answer.
 */
static void tell_flavors(struct run *run, unsigned int number, int error)
{
	const struct pool_path *path = &run->pool.paths[number];
	struct flavors flavors = {0};

	if (path->kind == PATH_MOUNT || (is_unreachable(error) && path->terms.security == SEC_SYS))
		return;
	*said = '\0';
	error = ask_flavors(run, number, SEC_SYS, &flavors);
	if ((error == -EACCES || error == -EPERM) && path->terms.security != SEC_SYS)
		error = ask_flavors(run, number, path->terms.security, &flavors);
	if (!error && !flavors.known && !flavors.none) {
		say("the export takes none of sys, krb5, krb5i, krb5p");
		error = -ENOENT;
	}
	if (error)
		line_string(stdout, "flavors_error", without_label(said, path->label));
	else
		put_flavors(&flavors);
}

static int tell_path(struct run *run, unsigned int number)
{
	const struct pool_path *path = &run->pool.paths[number];
	struct export *export = &run->exports[number];
	struct export_facts facts;
	int error;

	*said = '\0';
	error = open_path(run, number);
	if (!error && (error = export_find_facts(export, &facts)))
		say("%s", export->error);
	putchar('{');
	line_string(stdout, "label", path->label);
	line_string(stdout, "version", version_of(path));
	line_string(stdout, "proto",
		    path->kind == PATH_MOUNT	    ? "mount"
		    : terms_over_rdma(&path->terms) ? "rdma"
						    : "tcp");
	if (error) {
		line_string(stdout, "error", without_label(said, path->label));
		line_string(stdout, "remedy", remedy_for(path, error));
	} else {
		put_facts(export, &facts);
	}
	path_close(export->path);
	export->path = NULL;
	tell_flavors(run, number, error);
	printf("\"errno\": %d}\n", -error);
	flush();
	return error;
}

static int info(struct run *run, char *name)
{
	int status = 0;

	quiet = true;
	for (unsigned int i = 0; i < run->pool.count && !interrupted; i++)
		if (tell_path(run, i))
			status = 1;
	quiet = false;
	if (interrupted)
		say("interrupted");
	else if (status)
		say("some paths cannot be used");
	return interrupted ? 1 : status;
}

static int refuse_existing(const struct run *run, unsigned int number, const char *name)
{
	say("%s: \"%s\" is there already, and is not ours: choose another name",
	    run->pool.paths[number].label, name);
	return 1;
}

/* Opens all paths; `name` must not exist on any. Does not look on mounts, which would cache that
 * the name is missing. */
static int open_all(struct run *run, char *name)
{
	struct names_item found;

	for (unsigned int i = 0; i < run->pool.count; i++) {
		int error = open_path(run, i);

		if (error)
			return 1;
		if (run->pool.paths[i].kind == PATH_MOUNT)
			continue;
		error = tree_find(&run->exports[i], name, &found);
		if (!error)
			return refuse_existing(run, i, name);
		if (error != -ENOENT || *run->exports[i].error) /* or a parent is missing */
			return failed(run, i);
	}
	return 0;
}

/* File numbers can be compared only between paths of the same version. */
static int check_seen(struct run *run, char *name)
{
	const struct pool_path *paths = run->pool.paths;
	struct names_item first, found;
	int error = tree_find(&run->exports[0], name, &first);

	if (error)
		return failed(run, 0);
	for (unsigned int i = 1; i < run->pool.count; i++) {
		bool comparable = !strcmp(version_of(&paths[0]), version_of(&paths[i]));

		error = tree_find(&run->exports[i], name, &found);
		if (error && error != -ENOENT)
			return failed(run, i);
		if (error || found.kind.type != META_TYPE_DIRECTORY ||
		    (comparable && found.identity.fileid != first.identity.fileid)) {
			say("%s and %s do not lead to the same files: \"%s\" was made over the "
			    "one and is not there over the other: check addresses and export "
			    "names of the pool",
			    paths[0].label, paths[i].label, name);
			return DIFFERENT_FILES;
		}
	}
	return 0;
}

/*
 * Removes the directory that was made, unless another signal comes. Not called after a MKDIR that
 * timed out: nobody can tell who made an empty directory.
 */
static void take_back(struct run *run, char *name)
{
	struct tree_count count = {0};
	struct path *path = run->exports[0].path;
	char why[sizeof(said)];

	interrupted = 0;
	snprintf(why, sizeof(why), "%s", said);
	/* After a time-out the path's names need a new connection. */
	if (path->config.dir || !path_names_ready(path)) {
		export_open(&run->exports[0], path);
		if (!tree_remove(&run->exports[0], name, "", &count))
			return;
		failed(run, 0);
	}
	say("%s", why); /* the last line is the reason */
}

static int make(struct run *run, char *name)
{
	int error, status;

	if (open_all(run, name))
		return 1;
	error = tree_make(&run->exports[0], name);
	if (error == -EEXIST)
		return refuse_existing(run, 0, name);
	if (error)
		return failed(run, 0);
	status = check_seen(run, name);
	if (!status) {
		putchar('{');
		line_string(stdout, "made", name);
		printf("\"paths\": %u}\n", run->pool.count);
		return 0;
	}
	take_back(run, name);
	return status;
}

static void tell_item(const struct names_item *item)
{
	static const char *const words[] = {[META_TYPE_FILE] = "file",
					    [META_TYPE_DIRECTORY] = "directory",
					    [META_TYPE_SYMLINK] = "symlink"};
	const char *word = item->kind.type < ARRAY_SIZE(words) ? words[item->kind.type] : NULL;

	putchar('{');
	line_string(stdout, "name", item->name);
	line_string(stdout, "type", word ?: "other");
	printf("\"size\": %" PRIu64 "}\n", item->kind.size);
}

static int list(struct run *run, char *name)
{
	return tree_list(&run->exports[0], name, tell_item) ? failed(run, 0) : 0;
}

static int remove_tree(struct run *run, char *name)
{
	struct tree_count count = {0};
	int error;

	removed = &count;
	told_at = clock_now();
	error = tree_remove(&run->exports[0], name, run->mark, &count);
	removed = NULL;
	tell_count(&count);
	if (error != TREE_UNMARKED)
		return error ? failed(run, 0) : 0;
	say("%s: \"%s\" is not the directory that was made, for it has no directory \"%s\": it "
	    "stays",
	    run->pool.paths[0].label, name, run->mark);
	return NO_MARK;
}

static const struct command {
	const char *word;
	int (*work)(struct run *run, char *name);
	int names_min, names_max;
	bool first; /* uses only the first path, which main() opens */
	char *mark; /* tree_remove()'s, if the command line has none */
} commands[] = {
	{"info", info, 0, 0, false, NULL},
	{"make", make, 1, 1, false, NULL},
	{"list", list, 0, 1, true, NULL},
	{"remove", remove_tree, 2, 2, true, NULL},
	{"remove-empty", remove_tree, 1, 1, true, ""},
	{"remove-unmarked", remove_tree, 1, 1, true, NULL},
};

static const struct command *find_command(int argc, char **argv)
{
	for (size_t i = 0; argc > 2 && i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].word) && argc - 3 >= commands[i].names_min &&
		    argc - 3 <= commands[i].names_max)
			return &commands[i];
	return NULL;
}

/* A second signal of the same kind ends the process at once, even in a wait for a hung mount. */
static void take_signals(void)
{
	struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

int main(int argc, char **argv)
{
	const struct command *command = find_command(argc, argv);
	char *name = argc > 3 ? argv[3] : "";
	struct run run = {.mark = argc > 4 ? argv[4] : command ? command->mark : NULL};
	int status;

	if (argc == 2 && !strcmp(argv[1], "--help")) {
		fputs(usage, stdout);
		return 0;
	}
	if (!command) {
		fputs(usage, stderr);
		return 2;
	}
	if (*name ? !tree_name_is_sound(name) : command->names_min) {
		say("\"%s\": DIR is relative to the export, without \".\", \"..\" and empty parts",
		    name);
		return 2;
	}
	if (argc > 4 && (!tree_name_is_sound(run.mark) || strchr(run.mark, '/'))) {
		say("\"%s\": MARK is the name of a directory in DIR", run.mark);
		return 2;
	}
	take_signals();
	status = begin(&run, argv[2]) || (command->first && open_path(&run, 0))
			 ? 1
			 : command->work(&run, name);
	end(&run);
	flush();
	if (unprinted) {
		say("cannot print: %s", strerror(unprinted));
		return 1;
	}
	return status;
}
