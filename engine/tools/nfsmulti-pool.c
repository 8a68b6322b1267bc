/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfsmulti-pool - prints the paths of a pool as JSON lines, so that scripts need not parse a pool.
 */
#include <getopt.h>
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

struct request {
	const char *text; /* POOL or NAME */
	const char *file;
	bool resolve;
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

static void print_error(const struct pool_place *place, const struct pool_error *err)
{
	fputs("nfsmulti-pool: ", stderr);
	if (place->variable)
		fprintf(stderr, "%s: ", place->variable);
	if (err->column)
		fprintf(stderr, "column %zu: ", err->column);
	plain_print(stderr, "%s", err->reason);
	if (err->column)
		print_with_caret(place->text, err->column);
}

static void print_path(const struct pool_path *path, const char *relative)
{
	char address[ADDRESS_TEXT];

	printf("{\"kind\": \"%s\"", path->kind == PATH_NFS ? "nfs" : "mount");
	terms_print_string(stdout, "label", path->label);
	if (path->kind == PATH_MOUNT) {
		terms_print_string(stdout, "dir", path->dir);
	} else {
		terms_print_string(stdout, "host", path->host);
		terms_print_string(stdout, "export", path->export);
		terms_print(stdout, &path->terms);
		if (path->addr_len)
			terms_print_string(stdout, "address", address_text(&path->addr, address));
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
	struct pool_search search;
	struct pool_error err;
	struct pool pool;
	int error;

	if (!parse_command_line(argc, argv, &request)) {
		fputs(usage, stderr);
		return 2;
	}
	error = pool_find(request.text, request.file, &pool, &search, NULL);
	for (unsigned int i = search.first; error && i < search.end; i++)
		print_error(&search.places[i], &search.places[i].err);
	if (error)
		return 2;
	if (request.resolve && pool_resolve(&pool, pool_getaddrinfo, &err)) {
		print_error(&search.places[search.first], &err);
		pool_free(&pool);
		return 2;
	}
	for (unsigned int i = 0; i < pool.count; i++)
		print_path(&pool.paths[i], search.relative);
	pool_free(&pool);
	if (fflush(stdout) || ferror(stdout)) {
		perror("nfsmulti-pool: cannot print");
		return 2;
	}
	return 0;
}
