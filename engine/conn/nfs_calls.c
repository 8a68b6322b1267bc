/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs_calls.c - calls go out, and their replies come in. A READ's way is nfs_submit(), send_call(),
 * the channel, on_reply() and on_finished().
 */
#include "conn/nfs_conn.h"

#include <errno.h>
#include <poll.h>

#include "nfs/status.h"

enum { DELAYS_QUIET = 6 /* times that one call is put off before that is told: after 3 s */ };

static const uint64_t DELAY_FIRST = 100 * MSEC, DELAY_LAST = 5 * SEC;

/* --- sending --- */

static uint32_t new_xid(struct nfs_conn *nfs, const struct conn_io *io)
{
	return nfs->generation++ << nfs->slot_bits | io->slot;
}

static void encode(struct xdr_out *head, const struct conn_io *io)
{
	const struct path_file *file = file_of(io);

	switch (io->op) {
	case IO_READ:
		nfs3_encode_read(head, &file->read, io->xid, io->offset + io->done, rest_of(io));
		break;
	case IO_WRITE:
		nfs3_encode_write(head, &file->write, io->xid, io->offset + io->done, rest_of(io),
				  (enum nfs3_stable)io->stable);
		break;
	case IO_COMMIT: nfs3_encode_commit(head, &file->commit, io->xid); break;
	}
}

/* It covers what has been answered so far. */
static void begin_commit(struct nfs_conn *nfs, struct conn_io *io)
{
	io->commit = ledger_begin_commit(io->ledger);
	if (nfs->base.job->hold)
		io->commit.clock = nfs->base.job->hold->clock;
}

/* Gives the call a number unless it goes out again: then it keeps it, and counts. */
static void number(struct nfs_conn *nfs, struct conn_io *io)
{
	if (io->tries++) {
		nfs->base.counters.retransmissions++;
		return;
	}
	io->xid = new_xid(nfs, io);
	io->since = nfs->base.job->now;
	if (io->op == IO_COMMIT)
		begin_commit(nfs, io);
}

static void send_call(struct nfs_conn *nfs, struct conn_io *io, struct xdr_out *head)
{
	const struct rpc_data data = {
		.at = io->buffer + io->done,
		.length = io->op == IO_COMMIT ? 0 : rest_of(io),
		.incoming = io->op == IO_READ,
	};

	number(nfs, io);
	encode(head, io);
	io->sent_position = nfs->transport->queue(nfs->channel, io->xid, head, &data);
	if (!io->sent_position) {
		nfs_finish(nfs, io, EIO);
		return;
	}
	io->last_sent = nfs->base.job->now;
	io_list_add(&nfs->sent, io);
}

/* Queues what the channel takes; false: it takes nothing. */
static bool queue_waiting(struct nfs_conn *nfs)
{
	struct xdr_out head;
	bool took = false;

	while (nfs->waiting.first && nfs->transport->begin(nfs->channel, &head)) {
		send_call(nfs, io_list_take(&nfs->waiting), &head);
		took = true;
	}
	return took;
}

void nfs_send_waiting(struct nfs_conn *nfs)
{
	bool moved;

	if (!nfs->up)
		return;
	nfs->unflushed = 0;
	do {
		uint64_t sent = nfs->transport->sent(nfs->channel);
		int error;

		moved = queue_waiting(nfs);
		error = nfs->transport->flush(nfs->channel);
		if (error) {
			nfs_lost(nfs, error);
			return;
		}
		moved = moved || nfs->transport->sent(nfs->channel) != sent;
		/* Room again for the rest, unless the transport takes no more for now. */
	} while (moved && nfs->waiting.first &&
		 !(nfs->transport->poll_events(nfs->channel) & POLLOUT));
}

/*
 * A send costs the client as much as receiving 64 KiB. While a reply is still coming in, so that
 * there will soon be more to send, new calls wait for each other, up to a quarter of what the
 * server has; tick() bounds the wait where the reply stalls.
 */
static bool better_together(const struct nfs_conn *nfs)
{
	enum { SHARE = 4 };

	return nfs->up && SHARE * nfs->unflushed < nfs->base.outstanding &&
	       nfs->transport->receiving(nfs->channel);
}

void nfs_flush(struct conn *conn)
{
	struct nfs_conn *nfs = nfs_of(conn);

	if (!better_together(nfs))
		nfs_send_waiting(nfs);
}

void nfs_submit(struct conn *conn, struct conn_io *io)
{
	struct nfs_conn *nfs = nfs_of(conn);

	io->conn = conn;
	io->tries = 0;
	io->delays = 0;
	io->since = 0;
	conn->outstanding++;
	nfs->unflushed++;
	io_list_add(&nfs->waiting, io);
}

/* --- receiving --- */

/* The outstanding call with that number, or NULL. */
static struct conn_io *find_call(struct nfs_conn *nfs, uint32_t xid)
{
	struct conn_job *job = nfs->base.job;
	uint32_t slot = xid & ((1u << nfs->slot_bits) - 1);
	struct conn_io *io;

	if (slot >= job->io_count)
		return NULL;
	io = &job->ios[slot];
	return io->conn == &nfs->base && io->xid == xid && io->tries && io->last_sent ? io : NULL;
}

/* A sign of life: its number is that of the slot behind the last. */
static bool is_probe(const struct nfs_conn *nfs, uint32_t xid)
{
	return (xid & ((1u << nfs->slot_bits) - 1)) == nfs->base.job->io_count;
}

/* False where the server says that it moved more than it was asked to. */
static bool plausible(const struct conn_io *io, const struct nfs3_result *result)
{
	return io->op == IO_COMMIT || result->status || result->count <= rest_of(io);
}

/* rpc.h's reply(): finds the call, and where its data goes. */
static int on_reply(void *context, const struct rpc_reply *reply, struct rpc_bulk *bulk)
{
	struct nfs_conn *nfs = context;
	struct xdr_in in = {reply->message, reply->message + reply->have, false};
	struct conn_io *io;

	rpc_decode_reply(&in, &nfs->reply);
	if (in.bad && reply->have < sizeof(uint32_t))
		return 0;
	if (is_probe(nfs, nfs->reply.xid)) {
		if (in.bad)
			return 0;
		if (nfs->reply.verdict == RPC_SUCCESS)
			bulk->token = &nfs->probing;
		return (int)reply->have;
	}
	io = find_call(nfs, nfs->reply.xid);
	if (!io) {
		nfs->base.counters.stale_replies++;
		return (int)reply->have;
	}
	nfs->contradictory = false;
	nfs->result = (struct nfs3_result){0};
	if (!in.bad && nfs->reply.verdict == RPC_SUCCESS)
		nfs->contradictory = !nfs3_decode(&in, procedure_of(io), &nfs->result) ||
				     !plausible(io, &nfs->result);
	if (in.bad)
		return 0;
	if (nfs->reply.verdict == RPC_NOT_A_REPLY)
		return -EPROTO;
	/* A server cannot answer what it has not got; after a retransmission it may have the first
	 * copy. */
	if (nfs->transport->sent(nfs->channel) < io->sent_position) {
		if (io->tries == 1)
			return -EPROTO;
		nfs->drop = true; /* before the copy under way, whose buffer is free from now on,
				     goes out */
	}
	bulk->token = nfs->answered = io;
	if (io->op == IO_READ && !nfs->contradictory) {
		bulk->to = io->buffer + io->done;
		bulk->length = nfs->result.count;
	}
	return (int)(in.at - reply->message);
}

void nfs_finish(struct nfs_conn *nfs, struct conn_io *io, int error)
{
	io->error = error;
	io->last_sent = 0;
	if (error && io->op == IO_COMMIT) {
		if (!io->tries) /* nor will another be sent for what it was to cover */
			begin_commit(nfs, io);
		ledger_fail_commit(io->ledger, &io->commit);
		if (nfs->base.job->hold)
			hold_commit_failed(nfs->base.job->hold, io->ledger, io->commit.clock);
	}
	conn_finish(&nfs->base, io);
}

/* The call was answered, and another takes its place: for the rest, or as a new attempt. */
static void send_again(struct nfs_conn *nfs, struct conn_io *io)
{
	io->tries = 0;
	io->since = 0;
	io->last_sent = 0;
	io_list_add(&nfs->waiting, io);
}

/* NFS3ERR_JUKEBOX, or a grace period: "try the request with a new transaction ID" after a while
 * (RFC 1813, 2.6). */
static void delay(struct nfs_conn *nfs, struct conn_io *io)
{
	uint64_t wait = DELAY_FIRST << min_of(io->delays, 6u);

	if (++io->delays == DELAYS_QUIET)
		nfs_say_patience(nfs, io);
	if (io->op == IO_COMMIT) /* what it covers is not durable yet, and nothing is lost */
		ledger_undo_commit(io->ledger, &io->commit);
	io->tries = 0;
	io->since = 0; /* it was answered: soft's time begins anew */
	io->last_sent = 0;
	io->resume_at = nfs->base.job->now + min_of(wait, DELAY_LAST);
	io_list_add(&nfs->delayed, io);
}

static void read_answered(struct nfs_conn *nfs, struct conn_io *io)
{
	nfs->base.counters.read_ops++;
	nfs->base.counters.read_bytes += nfs->result.count;
	io->done += nfs->result.count;
	if (!rest_of(io) || nfs->result.eof) {
		nfs_finish(nfs, io, 0);
	} else if (!nfs->result.count) {
		nfs_log(nfs,
			"READ of %u bytes at %llu brought none, and not the end of file either",
			rest_of(io), (unsigned long long)(io->offset + io->done));
		nfs_finish(nfs, io, EIO);
	} else {
		send_again(nfs, io);
	}
}

/* Keeps the books of what the server has not made durable yet. */
static void note_written(struct nfs_conn *nfs, struct conn_io *io)
{
	const struct nfs3_result *result = &nfs->result;
	struct ledger *ledger = &file_of(io)->ledger;
	bool durable = result->committed != NFS3_UNSTABLE;
	bool changed = ledger_wrote(ledger, result->count, durable, result->verifier);

	if (!io->held)
		return;
	if (changed)
		nfs->base.job->hold->lost = true;
	if (!durable)
		hold_wrote(nfs->base.job->hold, io->held, ledger, result->verifier);
}

static void write_answered(struct nfs_conn *nfs, struct conn_io *io)
{
	const struct nfs3_result *result = &nfs->result;

	nfs->base.counters.write_ops++;
	nfs->base.counters.write_bytes += result->count;
	note_written(nfs, io);
	io->done += result->count;
	if (!result->count || (int)result->committed < (int)io->stable) {
		nfs_log(nfs,
			"WRITE of %u bytes at %llu: the server took %u, as stable_how %u where %u "
			"was asked",
			rest_of(io) + result->count, (unsigned long long)io->offset, result->count,
			result->committed, io->stable);
		nfs_finish(nfs, io, EIO);
	} else if (!rest_of(io)) {
		nfs_finish(nfs, io, 0);
	} else {
		send_again(nfs, io);
	}
}

static void commit_answered(struct nfs_conn *nfs, struct conn_io *io)
{
	nfs->base.counters.commits++;
	ledger_end_commit(io->ledger, &io->commit, nfs->result.verifier);
	if (nfs->base.job->hold)
		hold_committed(nfs->base.job->hold, io->ledger, io->commit.clock,
			       nfs->result.verifier);
	nfs_finish(nfs, io, 0);
}

/* A reply that is no success. */
static void refused(struct nfs_conn *nfs, struct conn_io *io)
{
	char why[200];

	io->nfs_status = nfs->result.status;
	if (nfs->contradictory) {
		nfs_log(nfs, "the reply to a %s contradicts the call or itself",
			nfs3_procedure_name(procedure_of(io)));
		nfs_finish(nfs, io, EPROTO);
	} else if (nfs->reply.verdict != RPC_SUCCESS) {
		if (nfs->said_verdict != nfs->reply.verdict) {
			nfs->said_verdict = nfs->reply.verdict;
			rpc_verdict_text(&nfs->reply, why, sizeof(why));
			nfs_log(nfs, "%s: %s", nfs3_procedure_name(procedure_of(io)), why);
		}
		nfs_finish(nfs, io, rpc_verdict_errno(&nfs->reply));
	} else if (nfs3_asks_for_patience(nfs->result.status)) {
		delay(nfs, io);
	} else {
		if (nfs->result.status == NFS3_STATUS_STALE)
			nfs_say_stale(nfs, io);
		nfs_finish(nfs, io, nfs3_errno(nfs->result.status));
	}
}

/* The server is there, and speaks the protocol. */
static void note_answer(struct nfs_conn *nfs, const struct conn_io *io)
{
	nfs->heard = nfs->base.job->now;
	nfs->probing = false;
	counters_rtt(&nfs->base.counters, nfs->heard - io->last_sent);
	nfs->bad_channels = 0;
	nfs->retry_delay = 0;
	nfs->base.job->signs++;
	if (nfs_end_trouble(nfs))
		nfs_log(nfs, "server OK");
}

/* rpc.h's finished(): the reply that on_reply() saw is complete. */
static void on_finished(void *context, void *token)
{
	struct nfs_conn *nfs = context;
	struct conn_io *io = token;

	if (!nfs->base.job->now)
		nfs->base.job->now = clock_now();
	if (token == &nfs->probing) {
		nfs_probe_answered(nfs);
		return;
	}
	nfs->answered = NULL;
	note_answer(nfs, io);
	io_list_remove(&nfs->sent, io);
	if (nfs->contradictory || nfs->reply.verdict != RPC_SUCCESS || nfs->result.status) {
		refused(nfs, io);
		return;
	}
	switch (io->op) {
	case IO_READ: read_answered(nfs, io); break;
	case IO_WRITE: write_answered(nfs, io); break;
	case IO_COMMIT: commit_answered(nfs, io); break;
	}
}

/* rpc.h's refused(): the transport could not do what a call asks for. */
static void on_refused(void *context, uint32_t xid, int error, const char *why)
{
	struct nfs_conn *nfs = context;
	struct conn_io *io = find_call(nfs, xid);

	nfs->answered = NULL;
	if (!io)
		return;
	if (!nfs->said_refused)
		nfs_log(nfs, "%s of %u bytes at %llu: %s", nfs3_procedure_name(procedure_of(io)),
			rest_of(io), (unsigned long long)(io->offset + io->done), why);
	nfs->said_refused = true;
	io_list_remove(&nfs->sent, io);
	nfs_finish(nfs, io, error);
}

void nfs_handle_replies(struct nfs_conn *nfs)
{
	nfs->handler = (struct rpc_handler){on_reply, on_finished, on_refused, nfs};
}
