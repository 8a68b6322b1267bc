/* SPDX-License-Identifier: GPL-2.0-only */
/* resolve.c - the paths of a pool: their strings and labels, and their hosts' addresses. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar.h"

void path_free(struct pool_path *path)
{
	free(path->dir);
	free(path->host);
	free(path->export);
	free(path->label);
	terms_free(&path->terms);
	*path = (struct pool_path){0};
}

void pool_free(struct pool *pool)
{
	for (unsigned int i = 0; i < pool->count; i++)
		path_free(&pool->paths[i]);
	free(pool->paths);
	*pool = (struct pool){0};
}

static bool copy_string(const char *from, char **to)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from;
}

int path_copy(const struct pool_path *from, struct pool_path *to)
{
	bool copied = true;

	*to = *from;
	/* Copies all, even after a failure, so that `to` owns every string that it has. */
	copied &= copy_string(from->dir, &to->dir);
	copied &= copy_string(from->host, &to->host);
	copied &= copy_string(from->export, &to->export);
	copied &= copy_string(from->label, &to->label);
	copied &= terms_copy(&to->terms, &from->terms);
	if (copied)
		return 0;
	path_free(to);
	return -ENOMEM;
}

static char *nfs_label(const struct pool_path *path, const char *host)
{
	const char *format = strchr(host, ':') ? "[%s]%s:%s" : "%s%s:%s";
	char port[16] = "", *label;

	if (term_given(TERM(port), &path->terms))
		snprintf(port, sizeof(port), ":%u", path->terms.port);
	return asprintf(&label, format, host, port, path->export) < 0 ? NULL : label;
}

int path_set_label(struct pool_path *path, const char *host)
{
	char *label = path->kind == PATH_NFS ? nfs_label(path, host) : strdup(path->dir);

	if (!label)
		return -ENOMEM;
	free(path->label);
	path->label = label;
	return 0;
}

int pool_append(struct pool *pool, const struct pool_path *path)
{
	struct pool_path *paths = reallocarray(pool->paths, pool->count + 1, sizeof(*paths));

	if (!paths)
		return -ENOMEM;
	pool->paths = paths;
	pool->paths[pool->count++] = *path;
	return 0;
}

/* --- hosts are resolved --- */

/* The addresses of one host: at most as many as a pool may have paths. */
struct answer {
	struct sockaddr_storage addrs[POOL_PATHS_MAX];
	unsigned int count;
};

static int ask(const struct pool_path *path, pool_resolver resolve, struct answer *answer,
	       struct pool_error *err)
{
	bool ipv6 = path->terms.proto == MOUNT_TCP6 || path->terms.proto == MOUNT_RDMA6;
	char why[128] = "it has no address";
	int count = resolve(path->host, ipv6 ? AF_INET6 : AF_UNSPEC, answer->addrs, POOL_PATHS_MAX,
			    why, sizeof(why));

	if (count == -ENOMEM)
		return pool_no_memory(err);
	if (count <= 0) {
		pool_refuse(err, path->column, "cannot resolve '%.80s': %s", path->host, why);
		return -EHOSTUNREACH;
	}
	answer->count = (unsigned int)count;
	return 0;
}

/* Sets the path's address; if the host has several, the label shows the address. */
static int set_address(struct pool_path *path, const struct answer *answer, unsigned int i)
{
	char text[ADDRESS_TEXT];

	path->addr = answer->addrs[i];
	path->addr_len = path->addr.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							  : sizeof(struct sockaddr_in);
	return answer->count == 1 ? 0 : path_set_label(path, address_text(&path->addr, text));
}

/* Appends one path per address; a mount has no address and is appended as it is. */
static int resolve_path(struct pool *resolved, const struct pool_path *path, pool_resolver resolve,
			struct answer *answer, struct pool_error *err)
{
	int failed = 0;

	answer->count = 1;
	if (path->kind == PATH_NFS)
		failed = ask(path, resolve, answer, err);
	if (failed)
		return failed;
	if (answer->count > POOL_PATHS_MAX - resolved->count)
		return pool_refuse(err, path->column,
				   "'%.80s' has too many addresses: a pool has at most %d paths, "
				   "one for each address",
				   path->label, POOL_PATHS_MAX);
	for (unsigned int i = 0; i < answer->count; i++) {
		struct pool_path copy;

		if (path_copy(path, &copy))
			return pool_no_memory(err);
		if ((copy.kind == PATH_NFS && set_address(&copy, answer, i)) ||
		    pool_append(resolved, &copy)) {
			path_free(&copy);
			return pool_no_memory(err);
		}
	}
	return 0;
}

int pool_resolve(struct pool *pool, pool_resolver resolve, struct pool_error *err)
{
	struct answer *answer = calloc(1, sizeof(*answer));
	struct pool resolved = {0};
	int failed = 0;

	if (!answer)
		return pool_no_memory(err);
	for (unsigned int i = 0; i < pool->count && !failed; i++)
		failed = resolve_path(&resolved, &pool->paths[i], resolve, answer, err);
	free(answer);
	if (failed) {
		pool_free(&resolved);
		return failed;
	}
	pool_free(pool);
	*pool = resolved;
	return 0;
}

int pool_getaddrinfo(const char *host, int family, struct sockaddr_storage *addrs, unsigned int max,
		     char *why, size_t why_size)
{
	/* One socket type, so that each address is listed once. */
	struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM}, *list;
	int failed = getaddrinfo(host, NULL, &hints, &list);
	unsigned int count = 0;

	if (failed) {
		snprintf(why, why_size, "%s",
			 failed == EAI_SYSTEM ? strerror(errno) : gai_strerror(failed));
		return failed == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH;
	}
	for (const struct addrinfo *one = list; one && family == AF_UNSPEC; one = one->ai_next)
		if (one->ai_family == AF_INET)
			family = AF_INET;
	if (family == AF_UNSPEC)
		family = AF_INET6;
	for (struct addrinfo *found = list; found && count < max; found = found->ai_next) {
		if (found->ai_family != family)
			continue;
		memset(&addrs[count], 0, sizeof(addrs[count]));
		memcpy(&addrs[count++], found->ai_addr, found->ai_addrlen);
	}
	freeaddrinfo(list);
	return (int)count;
}
