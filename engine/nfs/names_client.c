/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/names_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/path_client.h"
#include "nfs/path_credentials.h"
#include "nfs/version.h"
#include "wait.h"

/* --- opening and closing --- */

void names_rest(struct names *names)
{
	if (!names->connects)
		return;
	client_take_leave(&names->rpc);
	client_close(&names->rpc);
	path_client_free(&names->rpc);
	names->connects = false;
}

void names_close(struct names *names)
{
	names_rest(names);
	free(names);
}

int path_names_ready(struct path *path)
{
	if (path->names && path->names->found && !path->names->given_up)
		return 0;
	path_close_names(path);
	return path->version->names->open(&path->names, path);
}

void path_close_names(struct path *path)
{
	if (path->names)
		names_close(path->names);
	path->names = NULL;
}

/* Nobody stands in for it, and it moves no data. */
static enum client_role role(const struct rpc_client *rpc)
{
	return CLIENT_ALONE;
}

static void ignore_health(struct rpc_client *rpc)
{
}

static const struct client_events events = {.role = role, .health_changed = ignore_health};

/* Before the first file is open it is the deadline that ends a question. */
static void set_timing(struct names *names)
{
	const struct path *path = names->path;

	names->timing = path->config.timing;
	names->timing.soft = names->timing.soft && path->at_work;
}

static int begin_opening(struct names *names)
{
	struct path *path = names->path;
	struct rpc_terms terms = {
		.address = path_names_address(path),
		.counters = &names->transport,
		.reply_max = PATH_IO_MAX + RPC_REPLY_HEAD_MAX,
		.head_max = path_head_max(path),
		.calls_max = NAMES_CALLS,
		.tls = &path->tls_terms,
	};
	int error;

	names->clock.read = path->job.clock ?: clock_monotonic;
	names->rpc = path_client(path);
	names->rpc.events = &events;
	names->rpc.clock = &names->clock;
	names->rpc.timing = &names->timing;
	set_timing(names);
	names->rpc.counters = &names->counters;
	names->rpc.latency = &names->latency;
	names->rpc.calls_max = NAMES_CALLS;
	error = path_client_init(&names->rpc);
	if (error)
		return error;
	names->connects = true;
	error = client_open(&names->rpc, path_transport(path), &terms);
	if (error)
		path->job.log("%s: cannot open a connection: %s%s", path->config.label,
			      link_failure(&names->rpc.link, error), errno_remedy(-error));
	return error;
}

int names_connect(struct names **out, struct path *path)
{
	struct names *names = calloc(1, sizeof(*names));
	int error;

	if (!names)
		return -ENOMEM;
	names->path = path;
	error = begin_opening(names) ?: path_client_await(&names->rpc);
	if (error) {
		names_close(names);
		return error;
	}
	*out = names;
	return 0;
}

/* --- asking --- */

/* Before the first file is open, and where nothing depends on the answer, as at a CLOSE, a server
 * that has gone is not waited for. */
static bool has_gone(const struct names *names, bool needless)
{
	const struct rpc_client *rpc = &names->rpc;

	return (!names->path->at_work || needless) && !rpc->link.up && rpc->lost == -ECONNREFUSED;
}

int names_fail(struct names *names, int error, const char *words)
{
	names->answer = ANSWER_NONE;
	snprintf(names->error, sizeof(names->error), "%s", words);
	return error;
}

static int give_up(struct names *names, int error, const char *words)
{
	names->rpc.log->handed_over(&names->rpc); /* others of the path tell of their own trouble */
	client_abort(&names->rpc, -error);
	names->given_up =
		error != -EINTR; /* of a server that answers, leave is taken all the same */
	return names_fail(names, error, words);
}

/*
 * When the server is given up. Once files are open names do as I/O does: `hard` goes on, `soft`
 * ends, by timeo and retrans.
 */
static uint64_t names_deadline(struct names *names)
{
	const struct path *path = names->path;

	if (path->at_work && !path_has_stand_in(path))
		return WAIT_NO_DEADLINE;
	return clock_read(&names->clock) + path_names_timeout(path);
}

/* The same for one that asks to wait since `begun`. */
static uint64_t waited_deadline(struct names *names, uint64_t begun)
{
	uint64_t deadline = names_deadline(names);

	return names->path->at_work ? deadline
				    : min_of(deadline, begun + path_wait_max(names->path));
}

/* Nothing but being asked to wait brings a question so far, whether or not one is out just now. */
static bool has_waited(const struct names *names, uint64_t begun)
{
	return !names->path->at_work && names->clock.now > begun + path_wait_max(names->path);
}

static void take_words(struct names *names, const struct rpc_request *request)
{
	names->answer = request->status ? ANSWER_STATUS : ANSWER_NONE;
	snprintf(names->error, sizeof(names->error), "%s%s%s", request->status ?: "",
		 request->status && request->fault ? ": " : "", request->fault ?: "");
}

/* A client tells of a link that is down while it has I/O, of which there is none here. */
static void say_silent(struct names *names, uint64_t begun)
{
	struct rpc_client *rpc = &names->rpc;

	if (names->path->at_work && !rpc->link.up &&
	    names->clock.now - max_of(begun, rpc->link.down_since) > DOWN_MAX)
		rpc->log->silent(rpc);
}

/* `epoch`: the link's, when the question went out. */
static int time_out(struct names *names, uint32_t epoch)
{
	const struct rpc_client *rpc = &names->rpc;
	bool ended = rpc->lost && rpc->lost != -ETIMEDOUT; /* by the other end */
	const char *refusal = client_refusal(rpc);

	if (!names->path->at_work && rpc->link.epoch != epoch && ended)
		return give_up(names, -ENOTCONN, link_failure(&rpc->link, rpc->lost));
	return give_up(names, refusal && !names->path->at_work ? -EREMOTEIO : -ETIMEDOUT,
		       refusal ?: "the server does not answer");
}

int names_ask_until(struct names *names, struct rpc_request *request, uint64_t deadline,
		    bool (*stop)(void))
{
	struct rpc_client *rpc = &names->rpc;
	struct patience patience;
	uint64_t begun;
	uint32_t epoch;

	if (names->given_up)
		return -ENOTCONN;
	if (!names->connects && begin_opening(names) && !names->connects)
		return names_fail(names, -ENOMEM, "out of memory");
	set_timing(names);
	begun = clock_read(&names->clock); /* nobody has looked since the last answer */
	patience = (struct patience){.deadline = deadline, .looked = begun};
	epoch = rpc->link.epoch;
	client_request(rpc, request);
	client_flush(rpc);
	while (!request->done) {
		if (stop && stop())
			return give_up(names, -EINTR, "interrupted");
		if (stop && client_is_asked_to_wait(rpc)) /* it is there, and given its time */
			patience.deadline =
				max_of(patience.deadline, waited_deadline(names, begun));
		if (patience_over(&patience, clock_read(&names->clock)))
			return has_waited(names, begun)
				       ? give_up(names, -ETIMEDOUT,
						 "the server has asked to wait for too long")
				       : time_out(names, epoch);
		say_silent(names, begun);
		if (has_gone(names, !stop))
			return give_up(names, -ECONNREFUSED, strerror(ECONNREFUSED));
		client_reap(rpc, true);
		client_tick(rpc);
	}
	if (request->error)
		take_words(names, request);
	return -request->error;
}

int names_ask(struct names *names, struct rpc_request *request)
{
	return names_ask_until(names, request, names_deadline(names), names->path->job.stop);
}

const char *names_error(const struct names *names)
{
	return names->error;
}

enum answer names_answer(const struct names *names)
{
	return names->answer;
}
