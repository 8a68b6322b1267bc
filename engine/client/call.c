/* SPDX-License-Identifier: GPL-2.0-only */
/* call.c - the table of calls; and how a call gets its number, loses it, and ends. */
#include "client/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "group/durability.h"
#include "client/client.h"
#include "util.h"

int call_table_init(struct call_table *table, uint32_t count)
{
	memset(table, 0, sizeof(*table));
	table->calls = calloc(count, sizeof(*table->calls));
	if (!table->calls)
		return -ENOMEM;
	while (count > 1u << table->index_bits)
		table->index_bits++;
	/* A random start: the server's reply cache may remember the xids of an earlier run. */
	if (getrandom(&table->generation, sizeof(table->generation), 0) !=
	    sizeof(table->generation))
		table->generation = (uint32_t)clock_now();
	return 0;
}

void call_table_free(struct call_table *table)
{
	free(table->calls);
	table->calls = NULL;
}

static void release(struct call *call, bool answered)
{
	struct session *session = call->channel->session;

	if (session->protocol->release)
		session->protocol->release(session, call, answered);
}

void call_note_sent(const struct call *call)
{
	if (call->io && !call->io->sent)
		call->io->sent = call->since;
}

void call_renew(struct call *call, bool answered)
{
	call_note_sent(call);
	release(call, answered);
	if (call->io && call->io->op == IO_COMMIT)
		durability_commit_undone(call->io);
	call->tries = 0;
	call->since = 0;
	call->last_sent = 0;
}

bool call_number(struct call *call)
{
	struct conn *conn = &call->channel->conn;
	struct session *session = call->channel->session;

	if (call->tries && session->protocol->current && !session->protocol->current(session, call))
		call_renew(call, false);
	if (call->tries) {
		conn->counters.retransmissions++;
	} else {
		if (session->protocol->acquire && !session->protocol->acquire(session, call))
			return false;
		call->xid = call_new_xid(&session->calls, call);
		call->since = conn->job->now;
		if (call->io && call->io->op == IO_COMMIT)
			durability_commit_begins(conn, call->io);
	}
	call->tries++;
	return true;
}

void call_drop(struct call *call, bool answered)
{
	if (call->tries)
		release(call, answered);
	call_give_back(&call->channel->session->calls, call);
}

static void finish_io(const struct call *call, int error)
{
	struct conn *conn = &call->channel->conn;
	struct conn_io *io = call->io;

	if (error && io->op == IO_COMMIT) {
		if (!call->tries) /* nor will another be sent for what it was to cover */
			durability_commit_begins(conn, io);
		durability_commit_failed(conn, io);
	}
	call_note_sent(call);
	io->error = error;
	conn_finish(conn, io);
}

void call_finish(struct call *call, bool answered, int error)
{
	if (call->io) {
		finish_io(call, error);
	} else {
		call->request->error = error;
		call->request->done = true;
	}
	call_drop(call, answered);
}
