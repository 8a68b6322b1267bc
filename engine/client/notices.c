/* SPDX-License-Identifier: GPL-2.0-only */
#include "client/notices.h"

#include "nfs/entries.h"
#include "nfs/meta_io.h"
#include "client/link.h"
#include "client/timers.h"

/* True where the path's first connection gets into trouble. */
static bool trouble_begins(struct notices *notices)
{
	bool first = !notices->in_trouble && !notices->path->said_stopped;

	notices->in_trouble = true;
	if (first)
		notices->path->said_stopped = true;
	return first;
}

/* True where the path answers again. */
static bool trouble_ends(struct notices *notices)
{
	bool resumed = notices->in_trouble && notices->path->said_stopped;

	notices->in_trouble = false;
	if (resumed)
		notices->path->said_stopped = false;
	return resumed;
}

void notice_lost(struct notices *notices, uint32_t outstanding, int error)
{
	if (trouble_begins(notices))
		notice(notices, "connection lost with %u calls outstanding (%s): reconnecting",
		       outstanding, link_failure(error));
}

void notice_silent(struct notices *notices)
{
	if (trouble_begins(notices))
		notice(notices, "server not responding, still trying");
}

void notice_expired(struct notices *notices)
{
	const struct path_config *config = &notices->path->config;

	if (!notices->path->said_expired)
		notice(notices, "no answer within %.1f s (timeo %.1f s, retrans %u, soft)",
		       (double)timer_major(config) / SEC, (double)config->timeo / SEC,
		       config->retrans);
	notices->path->said_expired = true;
}

void notice_answered(struct notices *notices)
{
	notices->path->said_expired = false;
	if (trouble_ends(notices))
		notice(notices, "server OK");
}

void notice_handed_over(struct notices *notices)
{
	trouble_ends(notices);
}

static const char *operation(const struct notices *notices, const struct call *call)
{
	return notices->path->protocol->operation(call);
}

void notice_rpc_error(struct notices *notices, const struct call *call,
		      const struct rpc_reply_header *reply)
{
	char why[200];

	if (notices->said == reply->verdict)
		return;
	notices->said = reply->verdict;
	rpc_verdict_text(reply, notices->path->protocol->version, why, sizeof(why));
	notice(notices, "%s: %s", operation(notices, call), why);
}

/* The entry by the name that a directory shows: a mix's new ones have no other. */
static void notice_meta(struct notices *notices, const struct call *call, const char *why)
{
	const struct conn_io *io = call->io;
	const struct path_file *file = &notices->path->files[io->file];
	char entry[ENTRY_PATH_MAX];

	entries_path(file->entries, io->offset, io->meta->reversed, entry);
	notice(notices, "%s of entry \"%s\" below \"%s\": %s", operation(notices, call), entry,
	       file->name, why);
}

/* A line about a request, or an I/O from where it has come to. */
static void notice_call(struct notices *notices, const struct call *call, const char *why)
{
	if (!call->io)
		notice(notices, "%s: %s", operation(notices, call), why);
	else if (call->io->op == IO_META)
		notice_meta(notices, call, why);
	else
		notice(notices, "%s of %u bytes at %llu: %s", operation(notices, call),
		       call_rest(call), (unsigned long long)(call->io->offset + call->io->done),
		       why);
}

static void notice_flaw(struct notices *notices, const struct call *call,
			const struct call_result *result)
{
	char why[128];

	if (notices->said_flaw)
		return;
	notices->said_flaw = true;
	snprintf(why, sizeof(why), "%s, and %s", result->status, result->flaw);
	notice_call(notices, call, why);
}

void notice_failed(struct notices *notices, const struct call *call,
		   const struct call_result *result)
{
	if (result->fault)
		notice_call(notices, call, result->fault);
	if (result->flaw)
		notice_flaw(notices, call, result);
}

void notice_unprepared(struct notices *notices, const struct call *call, int error)
{
	const struct request *request = call->request;
	const char *why = request->fault ?: request->status;

	if (!why || why == notices->said_unprepared)
		return; /* an RPC error has been told */
	notices->said_unprepared = why;
	notice(notices, "%s: %s: %s", operation(notices, call), strerror(error), why);
}

void notice_refused(struct notices *notices, const struct call *call, const char *why)
{
	if (!notices->refused)
		notice_call(notices, call, why);
	notices->refused = true;
}

void notice_delayed(struct notices *notices, const struct call *call,
		    const struct call_result *result)
{
	if (!notices->path->said_delayed)
		notice(notices, "%s: the server keeps asking to wait (%s): still trying",
		       operation(notices, call), result->status);
	notices->path->said_delayed = true;
}
