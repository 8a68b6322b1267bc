/* SPDX-License-Identifier: GPL-2.0-only */
#include "conn/path_entries.h"

#include <errno.h>
#include <string.h>

#include "nfs/entries.h"
#include "session/protocol.h"
#include "session/timers.h"
#include "wait.h"

/*
 * True where the server may not have heard, or not answered: any other error is its answer. libnfs
 * says EINTR of a call that ends with its connection.
 */
static bool is_lost(const struct path *path, int error)
{
	switch (-error) {
	case EINTR:
	case ENOTCONN:
	case ECONNRESET:
	case ECONNREFUSED:
	case ECONNABORTED:
	case EPIPE:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH: return !path->job.stop();
	default: return false;
	}
}

/* Waits as calls do that the server puts off; the first time not at all. */
static int pause_before(const struct path *path, uint32_t tries)
{
	uint64_t until = clock_now() + (tries ? timer_delay(tries - 1) : 0);
	int error;

	do
		error = wait_slice(NULL, 0, until, path->job.stop);
	while (!error);
	return error == -ETIMEDOUT ? 0 : error;
}

/* For retries: they fail for the reason that was said already. */
__attribute__((format(printf, 1, 2))) static void say_nothing(const char *format, ...)
{
}

static int ask_once(struct path *path, const char *name, bool make, struct nfs_handle *found)
{
	return path_names_ready(path)
		       ?: path->protocol->open_directory(path->names, name, make, found);
}

static int ask_again(struct path *path, uint32_t tries, const char *name, bool make,
		     struct nfs_handle *found)
{
	const struct path_job job = path->job;
	int error;

	path_close_names(path);
	path->job.log = say_nothing;
	error = pause_before(path, tries) ?: ask_once(path, name, make, found);
	path->job.log = job.log;
	return error;
}

/* entries_step. One that was made by a call whose answer was lost is found by the next. */
static int step(void *context, const char *name, bool make, struct nfs_handle *found)
{
	struct path *path = context;
	uint64_t begun = clock_now();
	uint32_t tries = 0;
	int error = ask_once(path, name, make, found);

	for (; !path->config.soft && is_lost(path, error); tries++) {
		if (path->job.failover && clock_now() - begun > path_names_timeout(path))
			break;
		if (tries == 1)
			path->job.log("%s: directory \"%s\": %s: still trying", path->config.label,
				      name, strerror(-error));
		error = ask_again(path, tries, name, make, found);
	}
	if (tries > 1 && !error)
		path->job.log("%s: directory \"%s\": opened", path->config.label, name);
	return error;
}

int path_entries_open(struct path *path, const char *name, struct entries **entries)
{
	return entries_open(entries, path->job.entries, path->protocol->handle_max, name, step,
			    path);
}
