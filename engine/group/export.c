/* SPDX-License-Identifier: GPL-2.0-only */
/* export.c - an export by NFS from user space: operations of metadata by handle and name, many at
 * once, over a connection of its own. */
#include "group/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/meta_request.h"
#include "nfs/names.h"
#include "nfs/path_client.h"
#include "nfs/version.h"
#include "client/client.h"

enum { CALLS = 32 /* at once */, RESERVED_PORTS = 1024 };

struct export_call {
	struct meta_request request;
	uint32_t item;
	bool busy;
};

/* --- opening and closing --- */

int export_open(struct export *export, struct path *path)
{
	*export = (struct export){
		.ops = path->config.dir ? &export_mount : &export_nfs,
		.path = path,
		.root = {.fd = path->directory},
	};
	return export->ops->open(export);
}

void export_close(struct export *export)
{
	export->ops->close(export);
}

bool export_reserved_port(const struct export *export)
{
	char local[CONN_NAME] = "", remote[CONN_NAME];
	const char *colon;

	if (!export->conn)
		return false;
	export->conn->ops->names(export->conn, local, remote);
	colon = strrchr(local, ':');
	return colon && atoi(colon + 1) > 0 && atoi(colon + 1) < RESERVED_PORTS;
}

static void close_nfs(struct export *export)
{
	if (export->conn)
		export->conn->ops->close(export->conn);
	export->conn = NULL;
	free(export->calls);
	export->calls = NULL;
}

static int open_nfs(struct export *export)
{
	struct path *path = export->path;
	int error;

	export->job = (struct conn_job){
		.io_count = CALLS,
		.clock.read = clock_monotonic,
		.log = path->job.log,
	};
	export->calls = calloc(CALLS, sizeof(*export->calls));
	if (!export->calls)
		return -ENOMEM;
	error = conn_nfs.open(&export->conn, path, &export->job)
			?: path_client_await(conn_client(export->conn));
	if (!error) {
		error = path_names_ready(path) ?: names_limits(path->names, NULL, &export->limits);
		if (error)
			path->job.log("%s: the export's root: %s: %s", path->config.label,
				      path->names ? path->names->error : "", strerror(-error));
	}
	if (error)
		close_nfs(export);
	else
		export->root.handle = path->names->export;
	return error;
}

/* --- many calls at once --- */

/* For each of `count` items: begin() fills the arguments, or says that there is nothing to ask;
 * end() takes what became of it. */
struct batch {
	struct export_item *items;
	uint32_t count;
	bool (*begin)(const struct batch *batch, struct export_item *item,
		      struct meta_arguments *arguments);
	void (*end)(struct export_item *item, const struct meta_request *request);
	void (*listed)(struct meta_request *request, const struct readdir_page *page);
	const struct export_dir *dir;
	enum meta_op op;
	bool directories;
};

/* The next item that there is something to ask of goes into `call`. */
static bool begin_next(struct export *export, const struct batch *batch, uint32_t *next,
		       struct export_call *call)
{
	struct meta_request *request = &call->request;

	while (*next < batch->count) {
		call->item = (*next)++;
		request->base.meta = true;
		request->result = (struct meta_result){0};
		request->listed = batch->listed;
		request->arguments = (struct meta_arguments){
			.op = batch->op,
			.directory = &batch->dir->handle,
			.handle = batch->dir->handle,
		};
		if (!batch->begin(batch, &batch->items[call->item], &request->arguments))
			continue;
		client_request(conn_client(export->conn), &request->base);
		return call->busy = true;
	}
	return false;
}

/* Takes the results that are there: how many. */
static uint32_t take_results(struct export *export, const struct batch *batch)
{
	uint32_t taken = 0;

	for (uint32_t i = 0; i < CALLS; i++) {
		struct export_call *call = &export->calls[i];

		if (!call->busy || !call->request.base.done)
			continue;
		call->busy = false;
		taken++;
		batch->end(&batch->items[call->item], &call->request);
	}
	return taken;
}

/* What the first call under way is about. */
static const char *name_under_way(const struct export *export)
{
	for (uint32_t i = 0; i < CALLS; i++)
		if (export->calls[i].busy && *export->calls[i].request.arguments.name)
			return export->calls[i].request.arguments.name;
	return "the directory";
}

/* `waited`: for all that a server that asks to wait is given. */
static int give_up(struct export *export, const struct batch *batch, int error, bool waited)
{
	const char *refusal = client_refusal(conn_client(export->conn));

	if (waited)
		snprintf(export->error, sizeof(export->error),
			 "\"%.100s\": %s: the server has asked to wait for too long",
			 name_under_way(export),
			 conn_client(export->conn)->reply.result.status ?: "");
	else
		snprintf(export->error, sizeof(export->error), "%s",
			 error == -EINTR ? "interrupted" : refusal ?: "the server does not answer");
	conn_nfs.abort(export->conn, -error);
	take_results(export, batch);
	return error;
}

/* 0, or -EINTR or -ETIMEDOUT: other errors are the items'. */
static int run(struct export *export, const struct batch *batch)
{
	const struct path *path = export->path;
	uint64_t time = path_names_timeout(path), taken_at = clock_now(), last;
	struct patience patience = patience_begin(taken_at, time);
	uint32_t next = 0, outstanding = 0;

	do {
		clock_read(&export->job.clock);
		for (uint32_t i = 0; i < CALLS && next < batch->count; i++)
			if (!export->calls[i].busy &&
			    begin_next(export, batch, &next, &export->calls[i]))
				outstanding++;
		conn_nfs.flush(export->conn);
		if (outstanding)
			conn_nfs.reap(export->conn, true);
		conn_nfs.tick(export->conn);
		uint32_t taken = take_results(export, batch);

		outstanding -= taken;
		if (taken)
			taken_at = clock_now();
		last = taken_at + path_wait_max(path);
		if (taken || client_is_asked_to_wait(conn_client(export->conn))) {
			patience = patience_begin(clock_now(), time);
			patience.deadline = min_of(patience.deadline, last);
		}
		if (path->job.stop())
			return give_up(export, batch, -EINTR, false);
		if (patience_over(&patience, clock_now()))
			return give_up(export, batch, -ETIMEDOUT, clock_now() > last);
	} while (outstanding || next < batch->count);
	return 0;
}

static void take_error(struct export_item *item, const struct meta_request *request)
{
	item->error = -request->base.error;
	item->status = request->base.status ?: request->base.fault;
}

static bool ask_by_handle(const struct batch *batch, struct export_item *item,
			  struct meta_arguments *arguments)
{
	return true;
}

/* --- what an export offers --- */

static void take_facts(struct export_item *item, const struct meta_request *request)
{
	struct export_facts *facts = (struct export_facts *)item->name;

	take_error(item, request);
	if (item->error)
		return;
	switch (request->arguments.op) {
	case META_GETATTR: facts->identity = request->result.identity; break;
	case META_ACCESS: facts->access = request->result.access; break;
	case META_FSSTAT: facts->room = request->result.room; break;
	default: break;
	}
}

/* Its attributes it must tell; of rights and room many a server says nothing. */
static int find_facts(struct export *export, struct export_facts *facts)
{
	static const enum meta_op asked[] = {META_GETATTR, META_ACCESS, META_FSSTAT};
	const struct path_config *config = &export->path->config;
	int error = 0;

	*facts = (struct export_facts){
		.read_max = min_of(export->limits.read_max, config->rsize),
		.write_max = min_of(export->limits.write_max, config->wsize),
		.access = META_ACCESS_UNTOLD,
		.room = {META_UNTOLD, META_UNTOLD, META_UNTOLD, META_UNTOLD, META_UNTOLD,
			 META_UNTOLD},
	};
	for (size_t i = 0; !error && i < ARRAY_SIZE(asked); i++) {
		struct export_item item = {.name = (char *)facts};
		const struct batch batch = {
			.items = &item,
			.count = 1,
			.begin = ask_by_handle,
			.end = take_facts,
			.dir = &export->root,
			.op = asked[i],
		};

		error = run(export, &batch);
		if (!error && item.error && asked[i] == META_GETATTR)
			error = export_fail(export, "find attributes of", config->export,
					    item.error, item.status);
	}
	return error;
}

/* --- names --- */

static bool skip_name(const struct readdir_entry *entry)
{
	return (entry->length == 1 && entry->name[0] == '.') ||
	       (entry->length == 2 && !memcmp(entry->name, "..", 2));
}

/* What a listing takes a page for. */
struct page_taker {
	struct export_items *items;
	struct export_listing *listing;
	const char *stuck; /* why the listing does not go on; NULL: it does */
	bool failed;	   /* no memory */
};

static void take_names(struct page_taker *taker, const struct readdir_page *page)
{
	size_t bytes = (size_t)(page->end - page->entries) + page->count;
	struct export_items *items = taker->items;
	struct xdr_in in = {page->entries, page->end, false};
	struct readdir_entry entry;
	char *at;

	export_items_free(items); /* of a reply that was refused after it had been read */
	items->items = calloc(page->count ?: 1, sizeof(*items->items));
	items->names = at = malloc(bytes ?: 1);
	taker->failed = !items->items || !at;
	while (!taker->failed && readdir_next(&in, page, &entry)) {
		if (skip_name(&entry))
			continue;
		items->items[items->count++].name = at;
		at = mempcpy(at, entry.name, entry.length);
		*at++ = '\0';
	}
}

static void take_page(struct meta_request *request, const struct readdir_page *page)
{
	struct page_taker *taker = (struct page_taker *)request->arguments.owner;
	struct export_listing *listing = taker->listing;

	take_names(taker, page);
	if (page->eof)
		listing->end = true;
	else
		taker->stuck =
			listing_stuck(&listing->nfs, page->count, page->cookie, page->verifier);
}

static bool ask_page(const struct batch *batch, struct export_item *item,
		     struct meta_arguments *arguments)
{
	struct page_taker *taker = (struct page_taker *)item->name;

	arguments->listing = &taker->listing->nfs;
	arguments->bytes = READDIR_BYTES;
	arguments->owner = taker;
	return true;
}

static int list_nfs(struct export *export, const struct export_dir *dir,
		    struct export_listing *listing, struct export_items *items)
{
	struct page_taker taker = {.items = items, .listing = listing};
	struct export_item item = {.name = (char *)&taker};
	const struct batch batch = {
		.items = &item,
		.count = 1,
		.begin = ask_page,
		.end = take_error,
		.listed = take_page,
		.dir = dir,
		.op = META_READDIR,
	};
	int error = run(export, &batch) ?: item.error;

	if (!error && taker.failed)
		error = -ENOMEM;
	if (!error && taker.stuck) {
		error = -EPROTO;
		item.status = taker.stuck;
	}
	if (error)
		export_items_free(items);
	return error && error != -EINTR && error != -ETIMEDOUT
		       ? export_fail(export, "list", "the directory", error, item.status)
		       : error;
}

static bool ask_by_name(const struct batch *batch, struct export_item *item,
			struct meta_arguments *arguments)
{
	size_t length = strlen(item->name);

	if (length > EXPORT_NAME_MAX) {
		item->error = -ENAMETOOLONG;
		return false;
	}
	memcpy(arguments->name, item->name, length + 1);
	return true;
}

static void take_found(struct export_item *item, const struct meta_request *request)
{
	take_error(item, request);
	if (item->error)
		return;
	item->handle = request->result.found;
	item->kind = request->result.kind;
	item->identity = request->result.identity;
}

/* NFSv3's LOOKUP need not tell what it is (RFC 1813, 3.3.3). */
static bool ask_kind(const struct batch *batch, struct export_item *item,
		     struct meta_arguments *arguments)
{
	arguments->handle = item->handle;
	return !item->error && !item->kind.type && item->handle.length;
}

static void take_kind(struct export_item *item, const struct meta_request *request)
{
	take_error(item, request);
	if (item->error)
		return;
	item->kind = request->result.kind;
	item->identity = request->result.identity;
}

static int look_nfs(struct export *export, const struct export_dir *dir, struct export_item *items,
		    uint32_t count)
{
	struct batch batch = {
		.items = items,
		.count = count,
		.begin = ask_by_name,
		.end = take_found,
		.dir = dir,
		.op = META_LOOKUP,
	};
	int error = run(export, &batch);

	batch.begin = ask_kind;
	batch.end = take_kind;
	batch.op = META_GETATTR;
	return error ?: run(export, &batch);
}

/* --- changes --- */

static bool ask_removal(const struct batch *batch, struct export_item *item,
			struct meta_arguments *arguments)
{
	return !item->error && item->kind.type &&
	       batch->directories == (item->kind.type == META_TYPE_DIRECTORY) &&
	       ask_by_name(batch, item, arguments);
}

static int remove_nfs(struct export *export, const struct export_dir *dir,
		      struct export_item *items, uint32_t count, bool directories)
{
	const struct batch batch = {
		.items = items,
		.count = count,
		.begin = ask_removal,
		.end = take_error,
		.dir = dir,
		.op = directories ? META_RMDIR : META_REMOVE,
		.directories = directories,
	};

	return run(export, &batch);
}

static int make_nfs(struct export *export, const struct export_dir *dir, const char *name)
{
	struct export_item item = {.name = (char *)name};
	const struct batch batch = {
		.items = &item,
		.count = 1,
		.begin = ask_by_name,
		.end = take_error,
		.dir = dir,
		.op = META_MKDIR,
	};
	int error = run(export, &batch);

	if (!error && item.error)
		error = export_fail(export, "make directory", name, item.error, item.status);
	return error;
}

static int enter_nfs(struct export *export, const struct export_dir *dir,
		     const struct export_item *item, bool across, struct export_dir *child)
{
	*child = (struct export_dir){.handle = item->handle, .fd = -1};
	return 0;
}

static void leave_nfs(struct export_dir *dir)
{
}

static int back_nfs(struct export *export, const struct export_dir *child,
		    const struct meta_identity *identity, struct export_dir *dir)
{
	return 0;
}

const struct export_ops export_nfs = {
	.open = open_nfs,
	.close = close_nfs,
	.facts = find_facts,
	.list = list_nfs,
	.look = look_nfs,
	.remove = remove_nfs,
	.make = make_nfs,
	.enter = enter_nfs,
	.leave = leave_nfs,
	.back = back_nfs,
};
