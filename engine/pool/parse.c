/* SPDX-License-Identifier: GPL-2.0-only */
/* parse.c - a pool's paths: reads their list, directories and URLs with hosts and ranges of hosts,
 * and resolves the hosts. */
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar.h"

#define EXPORT_MAX 1024 /* RFC 1813, MNTPATHLEN */
#define HOST_MAX   253	/* as text; RFC 1035 has 255 octets on the wire */
#define PORT_MAX   65535

/* --- a path's strings --- */

static void path_free(struct pool_path *path)
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

/* Appends a copy of a path. NULL: out of memory; the pool may have a part of the copy. */
static struct pool_path *append_copy(struct pool *pool, const struct pool_path *from)
{
	struct pool_path *paths = reallocarray(pool->paths, pool->count + 1, sizeof(*paths)), *to;
	bool copied = true;

	if (!paths)
		return NULL;
	pool->paths = paths;
	to = &paths[pool->count++];
	*to = *from;
	/* Copies all, even after a failure, so that `to` owns every string that it has. */
	copied &= copy_string(from->dir, &to->dir);
	copied &= copy_string(from->host, &to->host);
	copied &= copy_string(from->export, &to->export);
	copied &= copy_string(from->label, &to->label);
	copied &= terms_copy(&to->terms, &from->terms);
	return copied ? to : NULL;
}

static char *nfs_label(const struct pool_path *path, const char *host)
{
	const char *format = strchr(host, ':') ? "[%s]%s:%s" : "%s%s:%s";
	char port[16] = "", *label;

	if (term_given(TERM(port), &path->terms))
		snprintf(port, sizeof(port), ":%u", path->terms.port);
	return asprintf(&label, format, host, port, path->export) < 0 ? NULL : label;
}

/* `host` is shown of an NFS path; a directory has none. False: out of memory. */
static bool set_label(struct pool_path *path, const char *host)
{
	free(path->label);
	path->label = host ? nfs_label(path, host) : strdup(path->dir);
	return path->label;
}

/* --- hosts --- */

/* A host as written: `before`, a range or nothing, `after`. A range makes one host per number. */
struct host {
	struct span before, after;
	bool ranged;
	uint32_t first, last;
	int digits; /* of `first`, as written: shorter numbers get zeros in front */
};

/* True for a name whose last part is a number: only an IPv4 address ends so. */
static bool ends_in_number(const char *name)
{
	const char *dot = strrchr(name, '.');
	const char *last = dot ? dot + 1 : name;

	return *last && !last[strspn(last, DIGITS)];
}

/* Reads FIRST-LAST]; the scanner is behind the '['. */
static int read_range(struct scanner *authority, struct host *host)
{
	const char *open = authority->at - 1;
	const char *first = authority->at, *end_of_first;
	bool read = scanner_number(authority, UINT32_MAX, &host->first);

	end_of_first = authority->at;
	read = read && scanner_take(authority, '-') &&
	       scanner_number(authority, UINT32_MAX, &host->last) && scanner_take(authority, ']');
	if (!read)
		return scanner_refuse(authority, open,
				      "'[...]' holds an IPv6 address, or a range of two numbers, "
				      "[FIRST-LAST]; for another choice of hosts, list the paths");
	if (host->first > host->last)
		return scanner_refuse(authority, open, "a range counts upwards: [%u-%u]",
				      host->last, host->first);
	host->ranged = true;
	host->digits = (int)(end_of_first - first);
	return 0;
}

/* Reads an IPv6 address and its ']'; the scanner is behind the '['. */
static int read_ipv6(struct scanner *authority, struct host *host)
{
	const char *open = authority->at - 1;

	host->before = scanner_until(authority, "]");
	if (!scanner_take(authority, ']'))
		return scanner_refuse(authority, open, "this '[' is never closed: [IPv6]");
	if (!address_is_valid(host->before))
		return scanner_refuse(authority, host->before.at, "'%s' is not an IPv6 address",
				      QUOTE(host->before));
	return 0;
}

static int read_name(struct scanner *authority, struct host *host)
{
	int err = 0;

	host->before = scanner_while(authority, NAME_CHARACTERS);
	if (scanner_take(authority, '[')) {
		err = read_range(authority, host);
		host->after = scanner_while(authority, NAME_CHARACTERS);
	}
	return err;
}

static bool bracket_holds_ipv6(struct scanner ahead)
{
	if (!scanner_take(&ahead, '['))
		return false;
	scanner_until(&ahead, ":]");
	return scanner_peek(&ahead) == ':';
}

static bool has_two_colons(struct scanner ahead)
{
	scanner_until(&ahead, ":");
	scanner_take(&ahead, ':');
	scanner_until(&ahead, ":");
	return scanner_peek(&ahead) == ':';
}

/* Stops behind the host: at ':' or the scanner's end. */
static int host_read(struct scanner *authority, struct host *host)
{
	const char *at = authority->at;
	bool brackets = bracket_holds_ipv6(*authority);
	int err;

	*host = (struct host){.before = {at, at}, .after = {at, at}};
	if (!brackets && has_two_colons(*authority))
		return scanner_refuse(authority, at,
				      "an IPv6 address goes in brackets: nfs://[IPv6]/EXPORT");
	if (brackets)
		scanner_take(authority, '[');
	err = brackets ? read_ipv6(authority, host) : read_name(authority, host);
	if (err)
		return err;
	if (scanner_peek(authority) == '[')
		return scanner_refuse(authority, authority->at,
				      "a second '[': a host has one range; list the paths instead");
	if (!scanner_done(authority) && scanner_peek(authority) != ':')
		return scanner_refuse(authority, authority->at,
				      "a host has no such character, only letters, digits, "
				      "'-', '.' and '_'; behind it comes ':PORT' or '/EXPORT'");
	if (authority->at == at)
		return scanner_refuse(authority, at, "the host is missing: nfs://HOST/EXPORT");
	return 0;
}

/* At most POOL_PATHS_MAX + 1. */
static unsigned int host_count(const struct host *host)
{
	uint32_t more = host->last - host->first;

	return more > POOL_PATHS_MAX ? POOL_PATHS_MAX + 1 : more + 1;
}

/* RFC 6874: in a URL the zone begins with "%25". Most people write "%" alone. */
static void decode_zone(char *name)
{
	static const char encoded[] = "%25";
	char *zone = strchr(name, ':') ? strstr(name, encoded) : NULL;

	if (zone && zone[strlen(encoded)])
		memmove(zone + 1, zone + strlen(encoded), strlen(zone + strlen(encoded)) + 1);
}

/* Sets *name to the host with number first + index; the caller frees it. */
static int host_name(const struct scanner *scanner, const struct host *host, unsigned int index,
		     char **name)
{
	int before = (int)span_length(host->before), after = (int)span_length(host->after);
	char number[HOST_MAX + 1] = "";
	char text[HOST_MAX + 1];
	int length = 0;

	if (host->ranged)
		length =
			snprintf(number, sizeof(number), "%0*u", host->digits, host->first + index);
	if (length <= HOST_MAX)
		length = snprintf(text, sizeof(text), "%.*s%s%.*s", before, host->before.at, number,
				  after, host->after.at);
	if (length > HOST_MAX)
		return scanner_refuse(scanner, host->before.at,
				      "a host's name has at most %d bytes", HOST_MAX);
	if (!strchr(text, ':') && ends_in_number(text) && !address_is_valid(span_over(text)))
		return scanner_refuse(scanner, host->before.at, "'%.40s' is not an IPv4 address",
				      text);
	decode_zone(text);
	*name = strdup(text);
	return *name ? 0 : pool_no_memory(scanner->err);
}

/* --- the list --- */

static int check_room(const struct scanner *list, const char *at, const struct pool *pool,
		      unsigned int more)
{
	if (more <= POOL_PATHS_MAX - pool->count)
		return 0;
	return scanner_refuse(list, at, "this makes more than %d paths, the most that a pool has",
			      POOL_PATHS_MAX);
}

int check_components(struct scanner name, const char *what)
{
	while (!scanner_done(&name)) {
		struct span component = scanner_component(&name);

		if (span_is(component, ".."))
			return scanner_refuse(&name, component.at,
					      "'..' in %s: write the path without '..'", what);
	}
	return 0;
}

static int read_directory(struct scanner *list, struct pool *pool)
{
	const struct pool_path mount = {.kind = PATH_MOUNT,
					.column = scanner_column(list, list->at)};
	struct span raw = scanner_until(list, ",");
	struct pool_path *path;
	int err;

	if (span_length(raw) >= PATH_MAX)
		return scanner_refuse(list, raw.at, "a directory's name has fewer than %d bytes",
				      PATH_MAX);
	err = check_components(scanner_within(list, raw), "a directory")
		      ?: check_room(list, raw.at, pool, 1);
	if (err)
		return err;
	while (span_length(raw) > 1 && raw.end[-1] == '/')
		raw.end--;
	path = append_copy(pool, &mount);
	if (path && (path->dir = strndup(raw.at, span_length(raw))) && set_label(path, NULL))
		return 0;
	return pool_no_memory(list->err);
}

/* HOST[:PORT], up to the export's '/'. */
static int read_authority(struct scanner *list, struct host *host, struct terms *terms)
{
	struct scanner authority = scanner_within(list, scanner_until(list, "/?,"));
	int err = host_read(&authority, host);
	const char *port;

	if (err)
		return err;
	if (scanner_take(&authority, ':')) {
		port = authority.at;
		if (!scanner_number(&authority, PORT_MAX, &terms->port) || !terms->port ||
		    !scanner_done(&authority))
			return scanner_refuse(list, port,
					      "give a port from 1 to %d after 'HOST:', or write "
					      "nfs://HOST/EXPORT",
					      PORT_MAX);
		term_give(TERM(port), terms);
	}
	return 0;
}

static int read_export(struct scanner *list, struct pool_path *path)
{
	struct span raw;
	int err;

	if (scanner_peek(list) != '/')
		return scanner_refuse(list, list->at,
				      "the export is missing: nfs://HOST/EXPORT "
				      "(or nfs://HOST/ for the server's root)");
	raw = scanner_until(list, "?,");
	err = scanner_decode(list, raw, &path->export);
	if (!err && strlen(path->export) > EXPORT_MAX)
		err = scanner_refuse(list, raw.at,
				     "an export's name has at most %d bytes (RFC 1813)",
				     EXPORT_MAX);
	return err;
}

/* Appends one path per host of the range; `url` has everything except the host. */
static int append_hosts(struct scanner *list, struct pool *pool, const struct pool_path *url,
			const struct host *host)
{
	unsigned int count = host_count(host);
	int err = check_room(list, list->text + url->column - 1, pool, count);

	for (unsigned int i = 0; i < count && !err; i++) {
		struct pool_path *path = append_copy(pool, url);

		if (path)
			err = host_name(list, host, i, &path->host);
		if (!path || (!err && !set_label(path, path->host)))
			err = pool_no_memory(list->err);
	}
	return err;
}

/* Reads a URL; the scanner is behind "nfs://". */
static int read_url(struct scanner *list, size_t column, struct pool *pool)
{
	struct pool_path url = {.kind = PATH_NFS, .column = column};
	struct host host;
	int err = read_authority(list, &host, &url.terms) ?: read_export(list, &url);

	if (!err && scanner_take(list, '?'))
		err = arguments_read(list, &url);
	if (!err)
		err = append_hosts(list, pool, &url, &host);
	path_free(&url);
	return err;
}

/* Refuses a path that is neither a directory nor an nfs:// URL, and says how to write it. */
static int refuse_other(const struct scanner *list, struct span raw)
{
	struct scanner scanner = scanner_within(list, raw);
	struct span word = scanner_until(&scanner, ":/");
	const char *quoted = QUOTE(word);

	if (span_is(word, "nfs") && scanner_peek(&scanner) == ':')
		return scanner_refuse(list, raw.at, "a URL is written nfs://HOST/EXPORT");
	if (scanner_take_word(&scanner, "://"))
		return scanner_refuse(list, raw.at,
				      "unknown scheme '%s://': an NFS export is nfs://HOST/EXPORT, "
				      "over NFSv4.1 nfs://HOST/EXPORT?version=4.1; for other file "
				      "systems write the directory they are mounted on",
				      quoted);
	if (scanner_take_word(&scanner, ":/"))
		return scanner_refuse(list, raw.at,
				      "write nfs://%s/%s: HOST:/EXPORT is mount's syntax", quoted,
				      QUOTE(scanner_until(&scanner, "")));
	return scanner_refuse(list, raw.at,
			      "'%s' is neither an absolute directory (begin it with '/') nor a URL "
			      "(nfs://HOST/EXPORT)",
			      QUOTE(raw));
}

/* Refuses an empty path, and a blank around a path, which would become part of a name. */
static int check_edges(const struct scanner *list, struct span raw)
{
	struct scanner blanks = scanner_within(list, raw);

	scanner_while(&blanks, " ");
	if (scanner_done(&blanks))
		return scanner_refuse(list, raw.at,
				      "a path is missing here: write an absolute directory or "
				      "nfs://HOST/EXPORT");
	if (*raw.at == ' ')
		return scanner_refuse(list, raw.at, "a blank before a path: remove it");
	if (raw.end[-1] == ' ')
		return scanner_refuse(list, raw.end - 1, "a blank after a path: remove it");
	return 0;
}

static int read_path(struct scanner *list, struct pool *pool)
{
	struct scanner ahead = *list;
	struct span raw = scanner_until(&ahead, ",");
	int err = check_edges(list, raw);

	if (err)
		return err;
	if (*raw.at == '/')
		return read_directory(list, pool);
	if (scanner_take_word(list, "nfs://"))
		return read_url(list, scanner_column(list, raw.at), pool);
	return refuse_other(list, raw);
}

int list_read(struct scanner *list, struct pool *pool)
{
	int err;

	*pool = (struct pool){0};
	for (const char *at = list->at; at < list->end; at++)
		if (character_is_control(*at))
			return scanner_refuse(list, at, "a control character: remove it");
	do {
		err = read_path(list, pool);
	} while (!err && scanner_take(list, ','));
	if (err)
		pool_free(pool);
	return err;
}

int pool_parse(const char *text, struct pool *pool, struct pool_error *err)
{
	struct scanner list = scanner_over(text, err);

	return list_read(&list, pool);
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

/* Sets the path's address; if the host has several, the label shows the address. False: out of
 * memory. */
static bool set_address(struct pool_path *path, const struct answer *answer, unsigned int i)
{
	char text[ADDRESS_TEXT];

	path->addr = answer->addrs[i];
	path->addr_len = path->addr.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							  : sizeof(struct sockaddr_in);
	return answer->count == 1 || set_label(path, address_text(&path->addr, text));
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
		struct pool_path *copy = append_copy(resolved, path);

		if (!copy || (copy->kind == PATH_NFS && !set_address(copy, answer, i)))
			return pool_no_memory(err);
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
