/* SPDX-License-Identifier: GPL-2.0-only */
#include "group/question.h"

#include <errno.h>
#include <string.h>

#include "client/timers.h"
#include "nfs/names.h"
#include "wait.h"

/* True where the server may not have heard, or not answered: any other error is its answer. */
static bool is_lost(const struct path *path, int error)
{
	switch (-error) {
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

bool question_is_left(const struct path *path, int error)
{
	return path_has_stand_in(path) && path->at_work && !path->config.timing.soft &&
	       is_lost(path, error);
}

/* What it failed by has lasted since `begun`. */
static bool goes_on(const struct path *path, const struct question *question, uint64_t begun,
		    int error)
{
	uint64_t lasts = clock_now() - begun;

	if (!is_lost(path, error))
		return false;
	if (!path->at_work)
		return question->asked && !path->retries && error != -ETIMEDOUT;
	if (path->config.timing.soft)
		return lasts < timer_major(&path->config.timing);
	return !path_has_stand_in(path) || lasts < path_detour_time(&path->config);
}

static int ask_once(struct path *path, struct question *question)
{
	int error = path_names_ready(path);

	if (error) /* an export that is not there says nothing of a file */
		return error == -ENOENT ? -ENODEV : error;
	question->asked++;
	return question->ask(path, question);
}

/* For retries: they fail for the reason that was said already. */
__attribute__((format(printf, 1, 2))) static void say_nothing(const char *format, ...)
{
}

/* It waits as calls do that the server puts off; the first time not at all. */
static int ask_again(struct path *path, struct question *question)
{
	const struct path_job job = path->job;
	uint64_t pause = path->retries > 1 ? timer_delay(path->retries - 2) : 0;
	int error;

	path_close_names(path);
	path->job.log = say_nothing;
	error = wait_until(clock_now() + pause, job.stop) ?: ask_once(path, question);
	path->job.log = job.log;
	return error;
}

/* A connection that has died is no trouble, a server that is silent or gone is. */
static bool is_trouble(const struct path *path, int error)
{
	return path->retries || error == -ETIMEDOUT;
}

int question_ask(struct path *path, struct question *question)
{
	uint64_t begun = clock_now();
	bool told = false;
	int error = ask_once(path, question);

	while (goes_on(path, question, begun, error)) {
		if (!told && is_trouble(path, error)) {
			path->job.log("%s: cannot %s \"%s\" yet: %s: still trying",
				      path->config.label, question->what, question->name,
				      strerror(-error));
			told = true;
		}
		path->retries++;
		error = ask_again(path, question);
	}
	path->retries = 0;
	if (told && !error)
		path->job.log("%s: server OK", path->config.label);
	return error;
}
