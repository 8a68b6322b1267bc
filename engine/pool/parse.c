/* SPDX-License-Identifier: GPL-2.0-only */
/* parse.c - a pool's list of paths: directories and URLs. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "grammar.h"

#define EXPORT_MAX 1024 /* RFC 1813, MNTPATHLEN */
#define PORT_MAX   65535

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
	struct pool_path path = {.kind = PATH_MOUNT, .column = scanner_column(list, list->at)};
	struct span raw = scanner_until(list, ",");
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
	path.dir = strndup(raw.at, span_length(raw));
	if (path.dir && !path_set_label(&path, NULL) && !pool_append(pool, &path))
		return 0;
	path_free(&path);
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

	if (err)
		return err;
	for (unsigned int i = 0; i < count; i++) {
		struct pool_path path;

		if (path_copy(url, &path))
			return pool_no_memory(list->err);
		err = host_name(list, host, i, &path.host);
		if (!err && (path_set_label(&path, path.host) || pool_append(pool, &path)))
			err = pool_no_memory(list->err);
		if (err) {
			path_free(&path);
			return err;
		}
	}
	return 0;
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
