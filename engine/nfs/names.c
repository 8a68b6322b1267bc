/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/names.h"

#include <stdlib.h>
#include <string.h>

#include "nfs/meta_call.h"
#include "nfs/path_client.h"
#include "nfs/version.h"

/* --- opening and closing --- */

void names_rest(struct names *names)
{
	if (!names->connects)
		return;
	path_client_free(&names->rpc);
	latency_free(&names->latency);
	names->connects = false;
}

int path_names_ready(struct path *path)
{
	if (path->names && path->names->found && !path->names->given_up)
		return 0;
	path_close_names(path);
	return path->version->open_names(&path->names, path);
}

void path_close_names(struct path *path)
{
	if (path->names)
		names_rest(path->names);
	free(path->names);
	path->names = NULL;
}

/* The connection for names has no stand-in: it moves no data. */
static enum client_role role(const struct rpc_client *rpc)
{
	return CLIENT_ALONE;
}

static void ignore_health(struct rpc_client *rpc)
{
}

static const struct client_events events = {.role = role, .health_changed = ignore_health};

/* Before the first file is open, a deadline ends questions, and `soft` does not apply. */
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
		.address = path_address(path, false, 0),
		.counters = &names->transport,
		.reply_max = PATH_IO_MAX + RPC_REPLY_HEAD_MAX,
		.head_max = path_head_max(path),
		.calls_max = NAMES_CALLS,
		.loans = &path->loans,
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
	names->rpc.names = true;
	error = path_client_init(&names->rpc);
	if (error)
		return error;
	names->connects = true;
	error = client_open(&names->rpc, path_transport(path), &terms);
	if (error)
		path_say(path, "cannot open a connection: %s%s",
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
		names_rest(names);
		free(names);
	} else {
		*out = names;
	}
	return error;
}

/* --- asking --- */

int names_fail(struct names *names, int error, const char *words)
{
	names->answer = ANSWER_NONE;
	snprintf(names->error, sizeof(names->error), "%s", words);
	return error;
}

static int give_up(struct names *names, int error, const char *words)
{
	names->rpc.log->handed_over(&names->rpc); /* other connections may log trouble */
	client_abort(&names->rpc, -error);
	names->given_up = error != -EINTR; /* after a stop, teardown still informs the server */
	return names_fail(names, error, words);
}

/*
 * When a question gives up on the server. Never, once a file is open and no other path can take
 * over: with `hard` it waits on, and with `soft` it ends by timeo and retrans, as I/O does.
 */
static uint64_t names_deadline(struct names *names)
{
	const struct path *path = names->path;

	if (path->at_work && !path_has_stand_in(path))
		return WAIT_NO_DEADLINE;
	return clock_read(&names->clock) + path_names_timeout(path);
}

static void take_words(struct names *names, const struct rpc_request *request)
{
	names->answer = request->status ? ANSWER_STATUS : ANSWER_NONE;
	snprintf(names->error, sizeof(names->error), "%s%s%s", request->status ?: "",
		 request->status && request->fault ? ": " : "", request->fault ?: "");
}

static int time_out(struct names *names)
{
	const struct rpc_client *rpc = &names->rpc;
	bool ended = rpc->lost && rpc->lost != -ETIMEDOUT; /* by the other end */
	const char *refusal = client_refusal(rpc);

	if (!names->path->at_work && ended)
		return give_up(names, -ENOTCONN, link_failure(&rpc->link, rpc->lost));
	return give_up(names, refusal && !names->path->at_work ? -EREMOTEIO : -ETIMEDOUT,
		       refusal ?: "the server does not answer");
}

/* --- waiting --- */

struct waiting {
	struct patience patience;
	bool (*stop)(void); /* NULL: nobody needs the answer, as for a CLOSE */
	bool patient;	    /* keeps waiting while the server refuses connections */
	const char *about;  /* the name in question, or NULL */
	uint64_t begun;	    /* when the wait began, or the latest answer came */
};

static int begin_waiting(struct names *names, uint64_t deadline, struct waiting *waiting)
{
	int error;

	if (names->given_up)
		return -ENOTCONN;
	if (!names->connects && (error = begin_opening(names)) && !names->connects)
		return names_fail(names, error, strerror(-error));
	set_timing(names);
	waiting->begun = clock_read(&names->clock); /* clock.now may be out of date */
	waiting->patience = (struct patience){.deadline = deadline, .looked = waiting->begun};
	names->rpc.lost = 0; /* an earlier question's connection is no reason */
	waiting->patient = waiting->patient || (names->path->at_work && waiting->stop);
	return 0;
}

/* The server has kept asking to wait, up to the deadline. */
static int give_up_waiting(struct names *names, const char *about)
{
	const char *status = names->rpc.reply.result.status;
	char words[200];

	snprintf(words, sizeof(words), "%s%.100s%s%s%sthe server has asked to wait for too long",
		 about ? "\"" : "", about ?: "", about ? "\": " : "", status ?: "",
		 status ? ": " : "");
	return give_up(names, -ETIMEDOUT, words);
}

/* All questions about names wait for the server here. 0: the caller looks again. */
static int await(struct names *names, struct waiting *waiting)
{
	struct rpc_client *rpc = &names->rpc;
	bool at_work = names->path->at_work;
	uint64_t wait_end =
		at_work ? WAIT_NO_DEADLINE
			: waiting->begun + PATH_SETUPS_MAX * names->path->config.setup_time;

	client_flush(rpc);
	if (waiting->stop && waiting->stop())
		return give_up(names, -EINTR, "interrupted");
	if (waiting->stop && rpc->wait_asked_until > rpc->clock->now) /* it is alive: more time */
		waiting->patience.deadline =
			max_of(waiting->patience.deadline, min_of(names_deadline(names), wait_end));
	/* A question lasts until wait_end only if the server has asked it to wait. */
	if (patience_over(&waiting->patience, clock_read(&names->clock)))
		return names->clock.now > wait_end ? give_up_waiting(names, waiting->about)
						   : time_out(names);
	/* Only while it has I/O does a client log that its link is down. Names have none. */
	if (at_work && !rpc->link.up &&
	    names->clock.now - max_of(waiting->begun, rpc->link.down_since) > DOWN_MAX)
		rpc->log->silent(rpc);
	if (!waiting->patient && !rpc->link.up && rpc->lost == -ECONNREFUSED)
		return give_up(names, -ECONNREFUSED, strerror(ECONNREFUSED));
	client_reap(rpc, true);
	client_tick(rpc);
	return 0;
}

int names_request_until(struct names *names, struct rpc_request *request, uint64_t deadline,
			bool (*stop)(void))
{
	struct waiting waiting = {.stop = stop};
	int error = begin_waiting(names, deadline, &waiting);

	if (error)
		return error;
	client_request(&names->rpc, request);
	while (!error && !request->done)
		error = await(names, &waiting);
	if (error)
		return error;
	if (request->error)
		take_words(names, request);
	return -request->error;
}

int names_request(struct names *names, struct rpc_request *request)
{
	return names_request_until(names, request, names_deadline(names), names->path->job.stop);
}

/* --- many questions --- */

struct names_call {
	struct meta_request request;
	struct names_item *item; /* NULL: it is free */
};

struct many {
	const struct names_batch *batch;
	uint32_t next, outstanding, taken; /* items: next to ask, unanswered, just answered */
	struct names_call calls[NAMES_CALLS];
};

/* Asks about the item. False: it needs no question, or its name is too long. */
static bool ask(struct names *names, const struct names_batch *batch, struct names_item *item,
		struct meta_request *request)
{
	size_t length = item->name ? strlen(item->name) + 1 : 0;

	if (batch->wants && !batch->wants(item))
		return false;
	item->error = 0;
	item->status = NULL;
	if (length > sizeof(request->arguments.name)) {
		item->error = names_fail(names, -ENAMETOOLONG, "a name is longer than 255 bytes");
		return false;
	}
	*request = (struct meta_request){
		.base.meta = true,
		.listed = batch->listed,
		.arguments = {.op = batch->op,
			      .directory = batch->directory,
			      .handle = item->handle.length ? item->handle : *batch->directory},
	};
	memcpy(request->arguments.name, item->name ?: "", length);
	if (batch->fill)
		batch->fill(&request->arguments, batch->context);
	client_request(&names->rpc, &request->base);
	return true;
}

static void take(struct names *names, struct names_call *call)
{
	const struct meta_result *result = &call->request.result;
	const struct rpc_request *base = &call->request.base;
	struct names_item *item = call->item;

	call->item = NULL;
	item->error = -base->error;
	item->status = base->status ?: base->fault;
	item->resent |= base->resent;
	if (base->error) {
		take_words(names, base);
		return;
	}
	if (result->found.length)
		item->handle = result->found;
	if (result->attributes.kind.type) {
		item->kind = result->attributes.kind;
		item->identity = result->attributes.identity;
	}
	if (item->result)
		*item->result = *result;
}

/* Takes the answers, and asks the next questions. False: all items are done. */
static bool go_on(struct names *names, struct many *many, struct waiting *waiting)
{
	const struct names_batch *batch = many->batch;

	many->taken = 0;
	waiting->about = NULL;
	for (uint32_t i = 0; i < NAMES_CALLS; i++) {
		struct names_call *call = &many->calls[i];

		if (call->item && call->request.base.done) {
			take(names, call);
			many->outstanding--;
			many->taken++;
		}
		while (!call->item && many->next < batch->count) {
			struct names_item *item = &batch->items[many->next++];

			if (!ask(names, batch, item, &call->request))
				continue;
			call->item = item;
			many->outstanding++;
		}
		if (call->item && !waiting->about)
			waiting->about = call->item->name ?: "the directory";
	}
	return many->outstanding;
}

int names_run(struct names *names, const struct names_batch *batch, bool patient)
{
	struct waiting waiting = {.stop = names->path->job.stop, .patient = patient};
	struct many many = {.batch = batch};
	int error = begin_waiting(names, names_deadline(names), &waiting);

	while (!error && go_on(names, &many, &waiting)) {
		if (many.taken)
			error = begin_waiting(names, names_deadline(names), &waiting);
		error = error ?: await(names, &waiting);
	}
	for (uint32_t i = 0; error && i < NAMES_CALLS; i++) /* calls left unanswered */
		if (many.calls[i].item)
			many.calls[i].item->resent |= many.calls[i].request.base.resent;
	return error;
}

int names_find_again(struct names *names, const struct nfs_handle *asked, int error)
{
	int again;

	if ((error != -ESTALE && error != -EBADF) || !asked->length ||
	    !nfs_handle_same(asked, &names->export))
		return error;
	again = names->path->version->find_export(names);
	if (again == -ENOENT) /* the export is missing, not the name */
		again = names_fail(names, error, "the server has forgotten the export");
	return again;
}

int names_ask(struct names *names, struct names_batch *batch, struct names_item *item)
{
	int error;

	batch->items = item;
	batch->count = 1;
	error = names_run(names, batch, false) ?: item->error;
	if (!error || (error = names_find_again(names, batch->directory, error)))
		return error;
	batch->directory = &names->export;
	return names_run(names, batch, false) ?: item->error;
}

int names_ask_name(struct names *names, enum meta_op op, const struct nfs_handle *directory,
		   struct names_item *item)
{
	struct names_batch batch = {.op = op, .directory = directory};

	return names_ask(names, &batch, item);
}

/* --- walking --- */

/* -EISDIR or -EINVAL unless `type`, an ftype3 or nfs_ftype4, is a regular file's. */
static int check_file(struct names *names, uint32_t type)
{
	if (type == META_TYPE_FILE)
		return 0;
	return names_fail(names, type == META_TYPE_DIRECTORY ? -EISDIR : -EINVAL,
			  type == META_TYPE_SYMLINK
				  ? "a symbolic link, which is not followed over NFS: name what it "
				    "leads to"
				  : "not a regular file");
}

/* Splits off the first component that is neither empty nor "."; NULL: there is none. */
static char *component(char **rest)
{
	char *name;

	do
		name = strsep(rest, "/");
	while (name && (!*name || !strcmp(name, ".")));
	return name;
}

/*
 * Descends from the directory *at to `name` in it; `make`: makes a missing directory. Sends LOOKUP
 * first: without permission a server may refuse MKDIR even if the directory exists.
 */
static int descend(struct names *names, struct nfs_handle *at, char *name, bool make)
{
	struct names_item item = {.name = name};
	int error = names_ask_name(names, META_LOOKUP, at, &item);

	if (error == -ENOENT && make) {
		error = names_ask_name(names, META_MKDIR, at, &item);
		if (!error || error == -EEXIST)
			error = names_ask_name(names, META_LOOKUP, at, &item);
	}
	if (!error && item.kind.type == META_TYPE_SYMLINK)
		return check_file(names, META_TYPE_SYMLINK);
	if (!error)
		*at = item.handle;
	return error;
}

int names_walk(struct names *names, struct nfs_handle *at, const char *path, bool make, char **last)
{
	char *rest = *last = names->room, *next;
	int error = 0;

	if ((size_t)snprintf(names->room, sizeof(names->room), "%s", path) >= sizeof(names->room))
		return names_fail(names, -ENAMETOOLONG, "the name is too long");
	*last = component(&rest);
	while (*last && (next = component(&rest))) {
		error = descend(names, at, *last, make);
		if (error)
			break;
		*last = next;
	}
	return error;
}

int names_walk_all(struct names *names, struct nfs_handle *at, const char *path, bool make,
		   char **last)
{
	int error = names_walk(names, at, path, make, last);

	return error || !*last ? error : descend(names, at, *last, make);
}

int names_find(struct names *names, const char *name, bool make, struct nfs_handle *directory,
	       char **last)
{
	int error;

	*directory = names->export;
	error = names_walk(names, directory, name, make, last);
	return error || *last ? error : names_fail(names, -EINVAL, "no name");
}

/* --- what users ask --- */

/* A LOOKUP reply may lack the attributes (RFC 1813, 3.3.3): GETATTR brings them. */
int names_size(struct names *names, struct question *question)
{
	struct names_item item = {0};
	struct nfs_handle directory;
	int error = names_find(names, question->name, false, &directory, &item.name)
			    ?: names_ask_name(names, META_LOOKUP, &directory, &item);

	if (!error && !item.kind.type)
		error = names_ask_name(names, META_GETATTR, &item.handle, &item);
	*question->size = item.kind.size;
	return error ?: check_file(names, item.kind.type);
}

int names_create(struct names *names, struct question *question)
{
	struct names_item item = {0};
	struct nfs_handle directory;
	int error = names_find(names, question->name, true, &directory, &item.name)
			    ?: names->path->version->create(names, &directory, &item);

	question->resent |= item.resent;
	*question->created = !error || (error == -EEXIST && question->resent);
	return error == -EEXIST ? 0 : error;
}

int names_remove(struct names *names, struct question *question)
{
	struct names_item item = {0};
	struct nfs_handle directory;
	int error = names_find(names, question->name, false, &directory, &item.name)
			    ?: names_ask_name(names, META_REMOVE, &directory, &item);

	return error == -ENOENT ? 0 : error;
}

int names_directory(struct names *names, const char *name, bool make, struct nfs_handle *found)
{
	char *last;

	*found = names->export;
	return names_walk_all(names, found, name, make, &last);
}

int names_limits(struct names *names, const struct nfs_handle *handle, struct meta_limits *limits)
{
	struct meta_result found = {0};
	struct names_item item = {.result = &found};
	int error = names_ask_name(names, META_FSINFO, handle ?: &names->export, &item);

	*limits = found.attributes.limits;
	if (!error && names->path->version->fit_limits)
		names->path->version->fit_limits(names, limits);
	return error;
}

/* --- asked again --- */

/* True if the server did not answer, and the run was not stopped. */
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

/* True if the question, first asked at `begun`, must be asked again. */
static bool goes_on(const struct path *path, const struct question *question, uint64_t begun,
		    int error)
{
	uint64_t lasts = clock_now() - begun;

	if (!is_lost(path, error))
		return false;
	if (!path->at_work)
		return path->names && path->names->found && !path->retries && error != -ETIMEDOUT;
	if (path->config.timing.soft)
		return lasts < timer_major(&path->config.timing);
	return !path_has_stand_in(path) || lasts < path_detour_time(&path->config);
}

static int ask_once(struct path *path, struct question *question)
{
	int error = path_names_ready(path);

	if (error) /* -ENOENT would blame the file, not the export */
		return error == -ENOENT ? -ENODEV : error;
	return question->ask(path->names, question);
}

/* Asks again, after a pause that grows like a delayed call's; the first time without a pause. */
static int ask_again(struct path *path, struct question *question)
{
	uint64_t pause = path->retries > 1 ? timer_delay(path->retries - 2) : 0;
	int error;

	path_close_names(path);
	path->quiet = true;
	error = wait_until(clock_now() + pause, path->job.stop) ?: ask_once(path, question);
	path->quiet = false;
	return error;
}

int question_ask(struct path *path, struct question *question)
{
	uint64_t begun = clock_now();
	bool told = false;
	int error = ask_once(path, question);

	while (goes_on(path, question, begun, error)) {
		/* One lost connection is no trouble; a time-out, or a second failure, is. */
		if (!told && (path->retries || error == -ETIMEDOUT)) {
			path_say(path, "cannot %s \"%s\" yet: %s: still trying", question->what,
				 question->name, strerror(-error));
			told = true;
		}
		path->retries++;
		error = ask_again(path, question);
	}
	path->retries = 0;
	if (told && !error)
		path_say(path, "server OK");
	return error;
}
