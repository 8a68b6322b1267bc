/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pool.c - the input is a pool's text, and after a '\0' the name of a file in it; or a variable
 * that holds pools, and what is wanted of it: a pool's name, or a file.
 */
#include "pool/pool.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

/* Up to the first '\0', or the input's end; for the caller to free. */
static char *take_text(struct input *input)
{
	char *text = strndup((const char *)input->at, (size_t)(input->end - input->at));

	if (!text)
		abort();
	take(input, strlen(text) + 1);
	return text;
}

static void expect_pool(const struct pool *pool, const char *text)
{
	expect(pool->count && pool->count <= POOL_PATHS_MAX);
	for (unsigned int i = 0; i < pool->count; i++) {
		const struct pool_path *path = &pool->paths[i];

		expect(path->label && *path->label);
		expect(path->kind == PATH_MOUNT ? *path->dir == '/' : *path->export == '/');
		expect(!path->dir == (path->kind != PATH_MOUNT) && !path->host == !path->export);
		expect(!path->host == (path->kind == PATH_MOUNT));
		expect(path->column >= 1 && path->column <= strlen(text));
	}
}

static void expect_reason(const char *text, const struct pool_error *err)
{
	expect(err->column <= strlen(text) + 1);
	expect(*err->reason);
	expect(memchr(err->reason, '\0', sizeof(err->reason)));
	expect(!strpbrk(err->reason, "\r\n\t\x1b\x7f"));
}

/* What is wrong in the text has a place there; where a file is at fault, nothing may be. */
static void expect_refusal(int error, const char *text, const struct pool_error *err, bool file)
{
	expect(error == -ENOENT || (error == -EINVAL && (file || err->column)));
	expect_reason(text, err);
}

/* What a text was read to: a pool, or why it is none. */
static void expect_outcome(int error, const struct pool *pool, const char *text,
			   const struct pool_error *err, bool file)
{
	if (!error) {
		expect_pool(pool, text);
		return;
	}
	expect_refusal(error, text, err, file);
	expect(!pool->paths && !pool->count);
}

/* It is the end of `file`, and leads nowhere else. */
static void expect_relative(const char *relative, const char *file)
{
	expect(relative >= file && relative < file + strlen(file) && *relative != '/');
	for (const char *part = relative; part; part = strchr(part, '/')) {
		part += *part == '/';
		expect(strncmp(part, "..", 2) || (part[2] && part[2] != '/'));
	}
}

/* A name service: as many addresses as the host's name has letters, modulo four. */
static int resolve(const char *host, int family, struct sockaddr_storage *addrs, unsigned int max,
		   char *why, size_t why_size)
{
	unsigned int count = strlen(host) % 4;

	if (!count) {
		snprintf(why, why_size, "unknown");
		return -EHOSTUNREACH;
	}
	for (unsigned int i = 0; i < count && i < max; i++) {
		struct sockaddr_in *addr = (struct sockaddr_in *)&addrs[i];

		*addr = (struct sockaddr_in){.sin_family = AF_INET};
		addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK + i);
	}
	return (int)(count < max ? count : max);
}

static void use(struct pool *pool, const char *text, const char *file)
{
	const char *relative;
	struct pool_error err;
	int error = pool_relative_name(pool, file, &relative, &err);

	if (error)
		expect_refusal(error, file, &err, false);
	else
		expect_relative(relative, file);
	if (pool_resolve(pool, resolve, &err))
		expect_reason(text, &err);
	expect_pool(pool, text);
}

void fuzz_pool(struct input *input)
{
	char *text = take_text(input), *file = take_text(input);
	struct pool pool;
	struct pool_error err;
	int error = pool_parse(text, &pool, &err);

	expect_outcome(error, &pool, text, &err, false);
	if (!error)
		use(&pool, text, file);
	pool_free(&pool);
	free(file);
	free(text);
}

void fuzz_environment(struct input *input)
{
	char *env = take_text(input), *wanted = take_text(input);
	bool is_file = *wanted == '/';
	struct pool_search search;
	struct pool pool;
	int error;

	setenv("NFSMULTI_POOLS", env, true);
	unsetenv("IOTRAP_MOUNT_POOLS");
	if (is_file || pool_is_name(wanted)) {
		error = pool_find(is_file ? NULL : wanted, wanted, &pool, &search, NULL);
		expect_outcome(error, &pool, env, &search.places[0].err, is_file);
		if (!error && is_file)
			expect_relative(search.relative, wanted);
		pool_free(&pool);
	}
	free(wanted);
	free(env);
}
