/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/path_client.h"

#include <string.h>

#include "nfs/meta_call.h"

#define tell(rpc, ...) path_say(path_of(rpc), __VA_ARGS__)

static struct path *path_of(const struct rpc_client *rpc)
{
	return rpc->server;
}

/* True where this is the first of the path's connections in trouble. */
static bool trouble_begins(struct rpc_client *rpc)
{
	bool first = !rpc->told.in_trouble && !path_of(rpc)->stall_logged;

	rpc->told.in_trouble = true;
	path_of(rpc)->stall_logged |= first;
	path_of(rpc)->refusal_logged &= !first;
	return first;
}

/* True where this ends the trouble that was logged for the path. */
static bool trouble_ends(struct rpc_client *rpc)
{
	bool resumed = rpc->told.in_trouble && path_of(rpc)->stall_logged;

	rpc->told.in_trouble = false;
	path_of(rpc)->stall_logged &= !resumed;
	path_of(rpc)->refusal_logged &= !resumed;
	return resumed;
}

static void lost(struct rpc_client *rpc, uint32_t outstanding, int error)
{
	if (trouble_begins(rpc))
		tell(rpc, "connection lost with %u calls outstanding (%s): reconnecting",
		     outstanding, link_failure(&rpc->link, error));
}

static void refused_again(struct rpc_client *rpc, int error)
{
	trouble_begins(rpc);
	if (!path_of(rpc)->refusal_logged)
		tell(rpc, "cannot connect again: %s: still trying",
		     link_failure(&rpc->link, error));
	path_of(rpc)->refusal_logged = true;
}

static void silent(struct rpc_client *rpc)
{
	if (trouble_begins(rpc))
		tell(rpc, "server not responding, still trying");
}

static void expired(struct rpc_client *rpc)
{
	const struct rpc_timing *timing = rpc->timing;

	if (!path_of(rpc)->expiry_logged)
		tell(rpc, "no answer within %.1f s (timeo %.1f s, retrans %u, soft)",
		     (double)timer_major(timing) / SEC, (double)timing->timeo / SEC,
		     timing->retrans);
	path_of(rpc)->expiry_logged = true;
}

static void answered(struct rpc_client *rpc)
{
	path_of(rpc)->expiry_logged = false;
	path_of(rpc)->no_context[0] = '\0';
	if (trouble_ends(rpc))
		tell(rpc, "server OK");
}

static void handed_over(struct rpc_client *rpc)
{
	trouble_ends(rpc);
}

static const char *operation(const struct rpc_client *rpc, const struct call *call)
{
	return call_is_context(call) ? "Kerberos" : rpc->protocol->operation(call);
}

static void no_context(struct rpc_client *rpc, const char *why)
{
	char *told = path_of(rpc)->no_context;
	size_t size = sizeof(path_of(rpc)->no_context);

	if (!strncmp(why, told, size - 1))
		return;
	snprintf(told, size, "%s", why);
	tell(rpc, "Kerberos: %s", why);
}

static void context_denied(struct rpc_client *rpc)
{
	char why[400];

	snprintf(why, sizeof(why),
		 "the server denied the context (%s): does it serve Kerberos, do the clocks agree "
		 "(within 300 s, clockskew in krb5.conf), and does its keytab have the key of %s?",
		 rpc_auth_stat_name(rpc->reply.header.auth_stat),
		 path_of(rpc)->config.terms.server_principal);
	no_context(rpc, why);
}

static void tell_verdict(struct rpc_client *rpc, const struct call *call, const char *more)
{
	char why[200];

	rpc_verdict_text(&rpc->reply.header, rpc->protocol->version, why, sizeof(why));
	tell(rpc, "%s: %s%s", operation(rpc, call), why, more);
}

static void unverified(struct rpc_client *rpc, const struct call *call)
{
	if (!rpc->told.unverified)
		tell_verdict(rpc, call,
			     ", without a verifier: it counts as no reply; see the server's log");
	rpc->told.unverified = true;
}

static void rpc_error(struct rpc_client *rpc, const struct call *call)
{
	const struct rpc_reply_header *reply = &rpc->reply.header;

	if (call_is_context(call) && reply->verdict == RPC_AUTH_ERROR) {
		context_denied(rpc);
		return;
	}
	if (rpc->told.rpc_error == reply->verdict)
		return;
	rpc->told.rpc_error = reply->verdict;
	tell_verdict(rpc, call, "");
}

/* Logs a line about a request, about an entry (by its path below the top), or about the rest of an
 * I/O. */
static void tell_call(struct rpc_client *rpc, const struct call *call, const char *why)
{
	const char *what = operation(rpc, call);
	const struct conn_io *io = call->io;
	char entry[ENTRY_PATH_MAX];

	if (!io) {
		tell(rpc, "%s: %s", what, why);
	} else if (io->op == IO_META) {
		entries_path(io->state, io->offset, io->meta->reversed, entry);
		tell(rpc, "%s of entry \"%s\" below \"%s\": %s", what, entry,
		     ((const struct entries *)io->state)->top, why);
	} else {
		tell(rpc, "%s of %u bytes at %llu: %s", what, call_rest(call),
		     (unsigned long long)(io->offset + io->done), why);
	}
}

static void failed(struct rpc_client *rpc, const struct call *call)
{
	const struct call_result *result = &rpc->reply.result;
	char why[128];

	if (result->fault)
		tell_call(rpc, call, result->fault);
	if (result->flaw && !rpc->told.flaw) {
		rpc->told.flaw = true;
		snprintf(why, sizeof(why), "%s, and %s", result->status, result->flaw);
		tell_call(rpc, call, why);
	}
}

static void unprepared(struct rpc_client *rpc, const struct call *call, int error)
{
	const struct rpc_request *request = call->request;
	const char *why = request->fault ?: request->status;

	if (why && call_is_context(call)) {
		no_context(rpc, why);
		return;
	}
	if (!why || why == rpc->told.unprepared)
		return;
	rpc->told.unprepared = why;
	tell(rpc, "%s: %s: %s", operation(rpc, call), strerror(error), why);
}

static void refused(struct rpc_client *rpc, const struct call *call, const char *why)
{
	if (!rpc->told.refused)
		tell_call(rpc, call, why);
	rpc->told.refused = true;
}

static void delayed(struct rpc_client *rpc, const struct call *call)
{
	if (!path_of(rpc)->delay_logged)
		tell(rpc, "%s: the server keeps %s (%s): still trying", operation(rpc, call),
		     client_reply_asks_to_wait(&rpc->reply) ? "asking to wait" : "refusing it",
		     rpc->reply.result.status);
	path_of(rpc)->delay_logged = true;
}

static void gave_up(struct rpc_client *rpc)
{
	tell(rpc, "the server broke the protocol %u times in a row: giving up", rpc->broken);
}

const struct client_log log_once = {
	.lost = lost,
	.refused_again = refused_again,
	.silent = silent,
	.expired = expired,
	.answered = answered,
	.handed_over = handed_over,
	.gave_up = gave_up,
	.unverified = unverified,
	.rpc_error = rpc_error,
	.failed = failed,
	.unprepared = unprepared,
	.refused = refused,
	.delayed = delayed,
};
