/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfsmulti-pool - prints the paths of a pool as JSON lines, so that scripts need not parse a pool.
 */
#include <getopt.h>
#include <netdb.h>
#include <stdlib.h>

#include "pool/pool.h"
#include "stats/plain_text.h"
#include "util.h"

static const char usage[] =
	"Usage: nfsmulti-pool [--resolve] POOL|NAME\n"
	"       nfsmulti-pool [--resolve] --file FILE\n"
	"\n"
	"Prints each path of a pool as one line of JSON. POOL is a comma-separated list of\n"
	"absolute directories and URLs, nfs://HOST[:PORT]/EXPORT[?ARG=VALUE&...], as in\n"
	"nfs://10.0.0.[1-4]/vol1?version=4.1; each line has its URL's arguments.\n"
	"NAME is a pool's name in NFSMULTI_POOLS or else IOTRAP_MOUNT_POOLS:\n"
	"NAME:PATH,PATH,... NAME:PATH,...\n"
	"\n"
	"  --file FILE  find in these variables the pool with a mount that holds FILE;\n"
	"               each line has FILE's name below that mount as \"relative\"\n"
	"  --resolve    also look up each host: one line for each address, as \"address\"\n"
	"  --help       this text\n"
	"  --version    the version of nfsmulti\n"
	"\n"
	"Exit status: 0, or 2 with the reason and its place on standard error.\n";

static const char *const variables[] = {"NFSMULTI_POOLS", "IOTRAP_MOUNT_POOLS"};

struct request {
	const char *text; /* POOL or NAME */
	const char *file;
	bool resolve;
};

/* The pool, and the text that it was read from, for refusals to point to. */
struct answer {
	struct pool pool;
	const char *relative;
	const char *variable; /* where the text came from; NULL: the command line */
	const char *written;
};

/* Prints a blank for each character that must not be shown, so that the caret is in its place. */
static void print_with_caret(const char *text, size_t column)
{
	size_t shown = 1;

	fputs("  ", stderr);
	for (const char *at = text; *at;) {
		unsigned int length = plain_bytes((const unsigned char *)at);

		fprintf(stderr, "%.*s", length ? (int)length : 1, length ? at : " ");
		at += length ?: 1;
		shown += (size_t)(at - text) < column;
	}
	fprintf(stderr, "\n  %*s\n", (int)shown, "^");
}

static void print_error(const char *variable, const char *written, const struct pool_error *err)
{
	fputs("nfsmulti-pool: ", stderr);
	if (variable)
		fprintf(stderr, "%s: ", variable);
	if (err->column)
		fprintf(stderr, "column %zu: ", err->column);
	plain_print(stderr, "%s", err->reason);
	if (err->column)
		print_with_caret(written, err->column);
}

static int look_up(const struct request *request, struct answer *answer, struct pool_error *err)
{
	answer->written = getenv(answer->variable);
	if (!answer->written) {
		*err = (struct pool_error){.reason = "not set"};
		return -ENOENT;
	}
	if (request->file)
		return pool_by_file(answer->written, request->file, &answer->pool,
				    &answer->relative, err);
	return pool_by_name(answer->written, request->text, &answer->pool, err);
}

/* The first variable that has the pool is used. */
static int find_in_environment(const struct request *request, struct answer *answer)
{
	struct pool_error errs[ARRAY_SIZE(variables)];
	int failed = -ENOENT;
	size_t asked = 0;

	while (asked < ARRAY_SIZE(variables) && failed == -ENOENT) {
		answer->variable = variables[asked];
		failed = look_up(request, answer, &errs[asked++]);
	}
	if (failed == -ENOENT)
		for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
			print_error(variables[i], "", &errs[i]);
	else if (failed)
		print_error(answer->variable, answer->written, &errs[asked - 1]);
	return failed;
}

static int find(const struct request *request, struct answer *answer)
{
	struct pool_error err;
	int failed;

	if (request->file || pool_is_name(request->text))
		return find_in_environment(request, answer);
	answer->written = request->text;
	failed = pool_parse(request->text, &answer->pool, &err);
	if (failed)
		print_error(NULL, answer->written, &err);
	return failed;
}

static void print_path(const struct pool_path *path, const char *relative)
{
	const struct sockaddr *addr = (const struct sockaddr *)&path->addr;
	char host[NI_MAXHOST];

	printf("{\"kind\": \"%s\"", path->kind == PATH_NFS ? "nfs" : "mount");
	terms_print_string(stdout, "label", path->label);
	if (path->kind == PATH_MOUNT) {
		terms_print_string(stdout, "dir", path->dir);
	} else {
		terms_print_string(stdout, "host", path->host);
		terms_print_string(stdout, "export", path->export);
		terms_print(stdout, &path->terms);
		if (path->addr_len &&
		    !getnameinfo(addr, path->addr_len, host, sizeof(host), NULL, 0, NI_NUMERICHOST))
			terms_print_string(stdout, "address", host);
	}
	if (relative)
		terms_print_string(stdout, "relative", relative);
	puts("}");
}

static bool parse_command_line(int argc, char **argv, struct request *request)
{
	static const struct option options[] = {
		{"file", required_argument, NULL, 'f'},
		{"resolve", no_argument, NULL, 'r'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "f:rhV", options, NULL)) != -1) {
		switch (option) {
		case 'f': request->file = optarg; break;
		case 'r': request->resolve = true; break;
		case 'h': fputs(usage, stdout); exit(0);
		case 'V': puts("nfsmulti " NFSMULTI_VERSION); exit(0);
		default: return false;
		}
	}
	request->text = argv[optind];
	return argc - optind == (request->file ? 0 : 1);
}

int main(int argc, char **argv)
{
	struct request request = {0};
	struct answer answer = {0};
	struct pool_error err;

	if (!parse_command_line(argc, argv, &request)) {
		fputs(usage, stderr);
		return 2;
	}
	if (find(&request, &answer))
		return 2;
	if (request.resolve && pool_resolve(&answer.pool, pool_getaddrinfo, &err)) {
		print_error(answer.variable, answer.written, &err);
		pool_free(&answer.pool);
		return 2;
	}
	for (unsigned int i = 0; i < answer.pool.count; i++)
		print_path(&answer.pool.paths[i], answer.relative);
	pool_free(&answer.pool);
	if (fflush(stdout) || ferror(stdout)) {
		perror("nfsmulti-pool: cannot print");
		return 2;
	}
	return 0;
}
