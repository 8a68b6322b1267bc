/* SPDX-License-Identifier: GPL-2.0-only */
/* call.c - the table of calls; and how a call loses its number, and ends. */
#include "client/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "util.h"

int call_table_init(struct call_table *table, uint32_t count, uint32_t first)
{
	memset(table, 0, sizeof(*table));
	table->calls = calloc(count, sizeof(*table->calls));
	if (!table->calls)
		return -ENOMEM;
	while (count > 1u << table->index_bits)
		table->index_bits++;
	table->generation = first;
	return 0;
}

void call_table_free(struct call_table *table)
{
	free(table->calls);
	table->calls = NULL;
}

void call_release_stamp(struct call *call)
{
	struct rpc_credentials *credentials = call->rpc->credentials;
	const struct rpc_context_ops *context = credentials->flavor->context;

	if (context)
		context->release(credentials, &call->stamp);
}

static void release(struct call *call, bool answered)
{
	struct rpc_client *rpc = call->rpc;

	call_release_stamp(call);
	if (rpc->protocol->release && !call_is_context(call))
		rpc->protocol->release(rpc, call, answered);
}

void call_note_sent(const struct call *call)
{
	if (call->io && !call->io->sent)
		call->io->sent = call->since;
}

static void note_resent(const struct call *call)
{
	if (call->request && call->tries > 1)
		call->request->resent = true;
}

void call_renew(struct call *call, bool answered)
{
	call_note_sent(call);
	release(call, answered);
	note_resent(call);
	if (call->io && call->io->op == IO_COMMIT)
		call->rpc->events->commit_undone(call->rpc, call->io);
	call->tries = 0;
	call->since = 0;
	call->last_sent = 0;
}

void call_drop(struct call *call, bool answered)
{
	if (call->tries)
		release(call, answered);
	call_give_back(&call->rpc->calls, call);
}

static void finish_io(const struct call *call, int error)
{
	struct rpc_client *rpc = call->rpc;
	struct conn_io *io = call->io;

	if (error && io->op == IO_COMMIT) {
		if (!call->tries) /* nor will another be sent for what it was to cover */
			rpc->events->commit_begins(rpc, io);
		rpc->events->commit_failed(rpc, io);
	}
	call_note_sent(call);
	io->error = error;
	rpc->outstanding--;
	rpc->events->finished(rpc, io);
}

void call_finish(struct call *call, bool answered, int error)
{
	if (call->io) {
		finish_io(call, error);
	} else {
		call->request->error = error;
		note_resent(call);
		call->request->done = true;
	}
	call_drop(call, answered);
}
