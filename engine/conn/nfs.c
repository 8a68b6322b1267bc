/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs.c - a connection that is an NFSv3 session over an RPC channel.
 *
 * An I/O is one call. It waits in `waiting` until the channel takes it, then stands in `sent` until
 * its reply comes; a reply that asks for patience (NFS3ERR_JUKEBOX) puts it into `delayed`. When
 * the channel is lost, what was sent waits again, with its xid, so that the server's duplicate
 * request cache knows the call; a new channel is opened by tick(), with back-off, for as long as
 * the mount options say.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "conn/connection.h"
#include "conn/path.h"
#include "nfs/nfs3.h"
#include "nfs/status.h"
#include "rpc/relay.h"
#include "util.h"

enum {
	WAIT_MS = 100,
	BAD_CHANNELS_MAX = 3, /* losses in a row by broken protocol before I/O fails for it */
	DELAYS_QUIET = 6,     /* times that one call is put off before that is told: after 3 s */
};

/* failover: how long a server may be silent, or not to be connected to, before it is dead. */
static const uint64_t SILENCE_MAX = 5 * SEC, DOWN_MAX = SEC;

static const uint64_t CONNECT_TIME = 10 * SEC;
static const uint64_t RETRY_FIRST = 100 * MSEC, RETRY_LAST = 5 * SEC;
static const uint64_t DELAY_FIRST = 100 * MSEC, DELAY_LAST = 5 * SEC;

struct nfs_conn {
	struct conn base;
	const struct rpc_channel_ops *transport;
	struct rpc_handler handler;
	struct rpc_channel *channel; /* NULL: none, the next is opened at retry_at */
	bool up;		     /* the channel is connected */
	bool was_up;		     /* one has been */
	bool drop;		     /* the channel must go: see on_reply() */
	uint64_t connect_deadline, retry_at, retry_delay;
	uint64_t down_since, heard; /* clock_now() at the loss, and at the latest reply */
	bool probing;		    /* asked for a sign of life, which has not come yet */
	unsigned int bad_channels;
	enum rpc_verdict said_verdict; /* the last one that was logged: once for all calls it met */
	bool troubled;		       /* calls wait for an answer that is overdue, or lost */
	bool said_refused;	       /* a refusal by the transport was logged */

	struct io_list waiting, sent, delayed;
	uint32_t unflushed; /* I/Os submitted since the last flush that sent */

	/* xid: generation << slot_bits | slot */
	unsigned int slot_bits;
	uint32_t generation;

	/* The reply between handler.reply() and handler.finished(), and the call that it answers.
	 */
	struct conn_io *answered;
	struct rpc_reply_header reply;
	struct nfs3_result result;
	bool contradictory;
};

static struct nfs_conn *nfs_of(struct conn *conn)
{
	return container_of(conn, struct nfs_conn, base);
}

static const struct nfs_conn *nfs_of_const(const struct conn *conn)
{
	return container_of(conn, struct nfs_conn, base);
}

static struct path_file *file_of(const struct conn_io *io)
{
	return &io->conn->path->files[io->file];
}

static enum nfs3_procedure procedure_of(const struct conn_io *io)
{
	static const enum nfs3_procedure procedures[] = {
		[IO_READ] = NFS3_READ,
		[IO_WRITE] = NFS3_WRITE,
		[IO_COMMIT] = NFS3_COMMIT,
	};

	return procedures[io->op];
}

/* What `io` still has to move. */
static uint32_t rest_of(const struct conn_io *io)
{
	return io->length - io->done;
}

#define nfs_log(nfs, format, ...) \
	((nfs)->base.job->log("%s: " format, (nfs)->base.path->config.label, ##__VA_ARGS__))

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

/* --- what is told once for a path, however many connections notice it --- */

static bool may_die(const struct nfs_conn *nfs)
{
	return nfs->base.job->failover && !nfs->base.dead && nfs->base.job->alive > 1;
}

/* True where the path has stopped to answer just now. */
static bool begin_trouble(struct nfs_conn *nfs)
{
	bool first = !nfs->troubled && !nfs->base.path->said_stopped;

	nfs->troubled = true;
	if (first)
		nfs->base.path->said_stopped = true;
	return first;
}

/* True where it has resumed: a connection that was in trouble is answered. */
static bool end_trouble(struct nfs_conn *nfs)
{
	bool resumed = nfs->troubled && nfs->base.path->said_stopped;

	if (resumed)
		nfs->base.path->said_stopped = false;
	nfs->troubled = false;
	return resumed;
}

/* With failover a path that others can stand in for is told of when it is given up: die(). */
static void say_silent(struct nfs_conn *nfs)
{
	if (!may_die(nfs) && begin_trouble(nfs))
		nfs_log(nfs, "server not responding, still trying");
}

static void say_stale(struct nfs_conn *nfs, const struct conn_io *io)
{
	if (!nfs->base.path->said_stale)
		nfs_log(nfs,
			"%s: NFS3ERR_STALE: the server does not know the file any more: was "
			"it removed, or the export changed, during the run?",
			nfs3_procedure_name(procedure_of(io)));
	nfs->base.path->said_stale = true;
}

static void say_patience(struct nfs_conn *nfs, const struct conn_io *io)
{
	if (!nfs->base.path->said_patience)
		nfs_log(nfs, "%s: the server asks for patience again and again (%s): still trying",
			nfs3_procedure_name(procedure_of(io)),
			nfs3_status_name(nfs->result.status));
	nfs->base.path->said_patience = true;
}

static void finish(struct nfs_conn *nfs, struct conn_io *io, int error);
static void give_up(struct nfs_conn *nfs);
static void lost(struct nfs_conn *nfs, int error);

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
		finish(nfs, io, EIO);
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

static void send_waiting(struct nfs_conn *nfs)
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
			lost(nfs, error);
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

static void nfs_flush(struct conn *conn)
{
	struct nfs_conn *nfs = nfs_of(conn);

	if (!better_together(nfs))
		send_waiting(nfs);
}

static void nfs_submit(struct conn *conn, struct conn_io *io)
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
	if (is_probe(nfs, nfs->reply.xid) && !in.bad) {
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

static void finish(struct nfs_conn *nfs, struct conn_io *io, int error)
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
		say_patience(nfs, io);
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
		finish(nfs, io, 0);
	} else if (!nfs->result.count) {
		nfs_log(nfs,
			"READ of %u bytes at %llu brought none, and not the end of file either",
			rest_of(io), (unsigned long long)(io->offset + io->done));
		finish(nfs, io, EIO);
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
		finish(nfs, io, EIO);
	} else if (!rest_of(io)) {
		finish(nfs, io, 0);
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
	finish(nfs, io, 0);
}

/* A reply that is no success. */
static void refused(struct nfs_conn *nfs, struct conn_io *io)
{
	char why[200];

	io->nfs_status = nfs->result.status;
	if (nfs->contradictory) {
		nfs_log(nfs, "the reply to a %s contradicts the call or itself",
			nfs3_procedure_name(procedure_of(io)));
		finish(nfs, io, EPROTO);
	} else if (nfs->reply.verdict != RPC_SUCCESS) {
		if (nfs->said_verdict != nfs->reply.verdict) {
			nfs->said_verdict = nfs->reply.verdict;
			rpc_verdict_text(&nfs->reply, why, sizeof(why));
			nfs_log(nfs, "%s: %s", nfs3_procedure_name(procedure_of(io)), why);
		}
		finish(nfs, io, rpc_verdict_errno(&nfs->reply));
	} else if (nfs3_asks_for_patience(nfs->result.status)) {
		delay(nfs, io);
	} else {
		if (nfs->result.status == NFS3_STATUS_STALE)
			say_stale(nfs, io);
		finish(nfs, io, nfs3_errno(nfs->result.status));
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
	if (end_trouble(nfs))
		nfs_log(nfs, "server OK");
}

/* failover: the server is there, and takes calls. */
static void probe_answered(struct nfs_conn *nfs)
{
	bool asked = nfs->probing;

	nfs->probing = false;
	nfs->heard = nfs->base.job->now;
	nfs->base.job->signs++;
	if (!nfs->base.dead || !asked)
		return;
	nfs->base.dead = false;
	nfs->base.job->alive++;
	nfs->retry_delay = 0;
	if (!--nfs->base.path->dead)
		nfs_log(nfs, "answers again: it takes I/O again");
}

/* rpc.h's finished(): the reply that on_reply() saw is complete. */
static void on_finished(void *context, void *token)
{
	struct nfs_conn *nfs = context;
	struct conn_io *io = token;

	if (!nfs->base.job->now)
		nfs->base.job->now = clock_now();
	if (token == &nfs->probing) {
		probe_answered(nfs);
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
	finish(nfs, io, error);
}

/* --- connecting, and losing the connection --- */

static bool is_rdma(const struct nfs_conn *nfs)
{
	return nfs->transport != &rpc_tcp;
}

static int start_connect(struct nfs_conn *nfs)
{
	const struct conn_job *job = nfs->base.job;
	const struct rpc_terms terms = {
		.address = path_next_address(nfs->base.path, is_rdma(nfs)),
		.handler = &nfs->handler,
		.counters = &nfs->base.transport,
		.reply_max = PATH_IO_MAX + NFS3_REPLY_HEAD_MAX,
		.calls_max = job->io_count,
		.memory = job->memory,
		.inline_max = job->inline_max,
	};
	int error = nfs->transport->open(&nfs->channel, &terms);

	if (error)
		return error;
	nfs->connect_deadline = clock_now() + CONNECT_TIME;
	nfs->base.poll_epoch++;
	return 0;
}

static void close_channel(struct nfs_conn *nfs)
{
	if (nfs->channel)
		nfs->transport->close(nfs->channel);
	nfs->channel = NULL;
	nfs->answered = NULL;
	if (nfs->up)
		nfs->down_since = clock_now();
	nfs->up = false;
	nfs->drop = false;
	nfs->probing = false;
	nfs->base.poll_epoch++;
}

/* What was sent goes out first on the next channel, in its order. */
static void wait_again(struct nfs_conn *nfs)
{
	struct io_list later = nfs->waiting;
	struct conn_io *io;

	nfs->waiting = (struct io_list){0};
	while ((io = io_list_take(&nfs->sent))) {
		io->last_sent = 0;
		io_list_add(&nfs->waiting, io);
	}
	while ((io = io_list_take(&later)))
		io_list_add(&nfs->waiting, io);
}

static void fail_list(struct nfs_conn *nfs, struct io_list *list, int error)
{
	struct conn_io *io;

	while ((io = io_list_take(list)))
		finish(nfs, io, error);
}

static void nfs_abort(struct conn *conn, int error)
{
	struct nfs_conn *nfs = nfs_of(conn);

	close_channel(nfs);
	fail_list(nfs, &nfs->sent, error);
	fail_list(nfs, &nfs->waiting, error);
	fail_list(nfs, &nfs->delayed, error);
}

static bool broken_protocol(int error)
{
	return error == -EPROTO || error == -EBADMSG || error == -EMSGSIZE;
}

static void retry_later(struct nfs_conn *nfs)
{
	nfs->retry_at = clock_now() + nfs->retry_delay;
	nfs->retry_delay =
		nfs->retry_delay ? min_of(2 * nfs->retry_delay, RETRY_LAST) : RETRY_FIRST;
}

/* The channel failed with `error`. */
static void lost(struct nfs_conn *nfs, int error)
{
	bool was_up = nfs->up;

	close_channel(nfs);
	wait_again(nfs);
	retry_later(nfs);
	if (was_up && !nfs->base.dead && nfs->base.outstanding && begin_trouble(nfs))
		nfs_log(nfs, "connection lost with %u calls outstanding (%s): reconnecting",
			nfs->base.outstanding,
			broken_protocol(error) ? "the server's messages are broken"
					       : strerror(-error));
	if (broken_protocol(error) && ++nfs->bad_channels >= BAD_CHANNELS_MAX) {
		nfs_log(nfs, "the server broke the protocol %u times running: giving up",
			nfs->bad_channels);
		give_up(nfs);
	}
}

/* failover: asks the server for a sign of life. What cannot be sent counts as not answered. */
static void send_probe(struct nfs_conn *nfs)
{
	const struct rpc_data none = {0};
	struct xdr_out head;
	uint32_t xid;

	nfs->probing = true;
	nfs->heard = nfs->base.job->now; /* its patience begins */
	if (!nfs->transport->begin(nfs->channel, &head))
		return;
	xid = nfs->generation++ << nfs->slot_bits | nfs->base.job->io_count;
	nfs3_encode_null(&head, xid, &nfs->base.path->cred);
	nfs->transport->queue(nfs->channel, xid, &head, &none);
	send_waiting(nfs);
}

static void came_up(struct nfs_conn *nfs)
{
	bool again = nfs->was_up;

	nfs->up = nfs->was_up = true;
	nfs->base.job->now = clock_now();
	if (again)
		nfs->base.counters.reconnects++;
	if (nfs->base.dead) { /* to be connected to is not to be answered */
		send_probe(nfs);
		return;
	}
	send_waiting(nfs);
}

/* Takes one step towards a connected channel: 0, -EINPROGRESS, or what failed. */
static int pursue(struct nfs_conn *nfs)
{
	int error;

	if (nfs->up)
		return 0;
	if (nfs->base.path->unusable)
		return -EINPROGRESS;
	if (!nfs->channel) {
		if (clock_now() < nfs->retry_at)
			return -EINPROGRESS;
		error = start_connect(nfs);
		if (error)
			return error;
	}
	error = nfs->transport->connected(nfs->channel);
	if (error == -EINPROGRESS && clock_now() > nfs->connect_deadline)
		error = -ETIMEDOUT;
	if (!error)
		came_up(nfs);
	return error;
}

static int nfs_ready(struct conn *conn)
{
	struct nfs_conn *nfs = nfs_of(conn);
	int error = pursue(nfs);

	if (error && error != -EINPROGRESS) {
		nfs_log(nfs, "cannot connect to %s %u: %s: is the NFS server running there?",
			is_rdma(nfs) ? "RDMA port" : "port", path_port(conn->path, is_rdma(nfs)),
			strerror(-error));
		close_channel(nfs);
	}
	return error;
}

/* --- time --- */

static uint64_t give_up_after(const struct path_config *config)
{
	return config->timeo * (config->retrans + 1);
}

static bool expired(const struct conn_io *io, const struct path_config *config, uint64_t now)
{
	return config->soft && now - io->since > give_up_after(config);
}

static void fail_expired(struct nfs_conn *nfs, struct io_list *list, uint64_t now)
{
	const struct path_config *config = &nfs->base.path->config;
	struct conn_io *next;

	for (struct conn_io *io = list->first; io; io = next) {
		next = io->next;
		if (!io->since)
			io->since = now; /* not sent yet: its time runs from the first look at it */
		if (!expired(io, config, now))
			continue;
		io_list_remove(list, io);
		finish(nfs, io, ETIMEDOUT);
	}
}

static bool any_expired(const struct io_list *list, const struct path_config *config, uint64_t now)
{
	for (const struct conn_io *io = list->first; io; io = io->next)
		if (expired(io, config, now))
			return true;
	return false;
}

/* soft: what took longer than its retransmissions fails, and so may not be in a channel any more.
 */
static void enforce_soft(struct nfs_conn *nfs, uint64_t now)
{
	const struct path_config *config = &nfs->base.path->config;

	if (any_expired(&nfs->sent, config, now)) {
		nfs_log(nfs, "no answer within %.1f s (timeo %.1f s, retrans %u, soft)",
			(double)give_up_after(config) / SEC, (double)config->timeo / SEC,
			config->retrans);
		lost(nfs, -ETIMEDOUT);
	}
	fail_expired(nfs, &nfs->waiting, now);
}

/* nfs(5), timeo: the n-th transmission is given n times timeo, at most 600 s. */
static bool overdue(const struct conn_io *io, const struct path_config *config, uint64_t now)
{
	return now - io->last_sent > min_of(config->timeo * io->tries, 600 * SEC);
}

/* The transport delivers, or breaks: silence on it is answered by another connection. */
static void reconnect_overdue(struct nfs_conn *nfs, uint64_t now)
{
	for (const struct conn_io *io = nfs->sent.first; io; io = io->next) {
		if (!overdue(io, &nfs->base.path->config, now))
			continue;
		say_silent(nfs);
		lost(nfs, -ETIMEDOUT);
		return;
	}
}

/* Sends overdue calls again, save those whose way out, or whose reply's way in, is not finished
 * yet. */
static void retransmit(struct nfs_conn *nfs, uint64_t now)
{
	struct conn_io *next;

	for (struct conn_io *io = nfs->sent.first; io; io = next) {
		next = io->next;
		if (!overdue(io, &nfs->base.path->config, now))
			continue;
		say_silent(nfs);
		if (io == nfs->answered || nfs->transport->sent(nfs->channel) < io->sent_position)
			continue;
		io->last_sent = 0; /* a reply that comes before it has gone out again is dropped */
		io_list_remove(&nfs->sent, io);
		io_list_add(&nfs->waiting, io);
	}
}

static void resume_delayed(struct nfs_conn *nfs, uint64_t now)
{
	struct conn_io *next;

	for (struct conn_io *io = nfs->delayed.first; io; io = next) {
		next = io->next;
		if (io->resume_at > now)
			continue;
		io_list_remove(&nfs->delayed, io);
		io_list_add(&nfs->waiting, io);
	}
}

/* --- failover --- */

static uint64_t patience(const struct nfs_conn *nfs)
{
	uint64_t most = min_of(nfs->base.path->config.timeo, SILENCE_MAX) / 2;

	return nfs->base.job->ask ? min_of(most, SEC) : most;
}

/* Long calls are no silence: a server that owes replies is asked before it is given up. */
static void ask_if_silent(struct nfs_conn *nfs, uint64_t now)
{
	const struct conn_io *oldest = nfs->sent.first;

	if (nfs->up && oldest && !nfs->probing &&
	    now - max_of(nfs->heard, oldest->last_sent) > patience(nfs))
		send_probe(nfs);
}

static bool unanswered(const struct nfs_conn *nfs, uint64_t now)
{
	return nfs->probing && now - nfs->heard > patience(nfs);
}

static bool down(const struct nfs_conn *nfs, uint64_t now)
{
	return !nfs->up && now - nfs->down_since > DOWN_MAX;
}

/* As if it had not been sent: another connection gives it a number of its own. */
static void hand_on(struct nfs_conn *nfs, struct io_list *list)
{
	struct conn_io *io;

	while ((io = io_list_take(list))) {
		if (io->op == IO_COMMIT && io->tries)
			ledger_undo_commit(io->ledger, &io->commit);
		nfs->base.outstanding--;
		io_list_add(&nfs->base.job->homeless, io);
	}
}

/*
 * The channel goes first, so that no device and no late reply touches a buffer that another
 * connection uses, and nothing leaves any more. WRITEs that the server has already got it may still
 * carry out, after those that are sent in their stead.
 */
static void die(struct nfs_conn *nfs)
{
	if (!nfs->base.path->dead++)
		nfs_log(nfs, "does not answer: %u calls go to other paths", nfs->base.outstanding);
	end_trouble(nfs);
	close_channel(nfs);
	retry_later(nfs);
	nfs->bad_channels = 0;
	nfs->base.dead = true;
	nfs->base.job->alive--;
	hand_on(nfs, &nfs->sent);
	hand_on(nfs, &nfs->delayed);
	hand_on(nfs, &nfs->waiting);
}

static bool nfs_retire(struct conn *conn)
{
	die(nfs_of(conn));
	return true;
}

/* The server speaks no protocol that is known here. */
static void give_up(struct nfs_conn *nfs)
{
	if (may_die(nfs))
		die(nfs);
	else
		nfs_abort(&nfs->base, EPROTO);
}

static void fail_over(struct nfs_conn *nfs, uint64_t now)
{
	if (nfs->base.dead) {
		if (unanswered(nfs, now))
			lost(nfs, -ETIMEDOUT);
		return;
	}
	if (!may_die(nfs))
		return;
	ask_if_silent(nfs, now);
	if (unanswered(nfs, now) || down(nfs, now))
		die(nfs);
}

static void nfs_tick(struct conn *conn)
{
	struct nfs_conn *nfs = nfs_of(conn);
	uint64_t now = conn->job->now = clock_now();
	int error;

	if (conn->job->failover)
		fail_over(nfs, now);
	else if (conn->job->ask)
		ask_if_silent(nfs, now);
	if (down(nfs, now) && conn->outstanding && !conn->dead)
		say_silent(nfs);
	if (!may_die(nfs)) /* else others take over what is overdue */
		enforce_soft(nfs, now);
	resume_delayed(nfs, now);
	if (nfs->up && nfs->transport->once)
		reconnect_overdue(nfs, now);
	else if (nfs->up)
		retransmit(nfs, now);
	error = pursue(nfs);
	if (error && error != -EINPROGRESS)
		lost(nfs, error);
	if (nfs->waiting.first)
		send_waiting(nfs);
}

static void nfs_reap(struct conn *conn, bool wait)
{
	struct nfs_conn *nfs = nfs_of(conn);
	int error;

	if (!nfs->up) {
		struct pollfd poll_fd = {.fd = conn->ops->poll_fd(conn),
					 .events = POLLIN | POLLOUT};

		if (wait)
			poll(&poll_fd, 1, WAIT_MS);
		if (nfs->channel)
			nfs_tick(conn);
		return;
	}
	conn->job->now = 0; /* read again by the first reply */
	error = nfs->transport->receive(nfs->channel, wait);
	if (!conn->job->now)
		conn->job->now = clock_now();
	if (!error && nfs->drop)
		error = -ECANCELED;
	if (error)
		lost(nfs, error);
	else if (nfs->waiting.first || nfs->transport->poll_events(nfs->channel) & POLLOUT)
		nfs_flush(conn);
}

/* --- the rest of the interface --- */

static unsigned int bits_for(uint32_t count)
{
	unsigned int bits = 0;

	while (count > 1u << bits)
		bits++;
	return bits;
}

static const struct rpc_channel_ops *transport_for(const struct path *path,
						   const struct conn_job *job)
{
#ifdef HAVE_RDMA
	if (path->config.rdma && job->memory)
		return &rpc_rdma;
	if (path->config.rdma_names) /* before a fork, and there may be no TCP */
		return &rpc_relay;
#endif
	return &rpc_tcp;
}

static int nfs_open(struct conn **conn, struct path *path, struct conn_job *job)
{
	struct nfs_conn *nfs = calloc(1, sizeof(*nfs));
	int error;

	if (!nfs)
		return -ENOMEM;
	nfs->transport = transport_for(path, job);
	nfs->base = (struct conn){
		.ops = &conn_nfs,
		.transport_name = nfs->transport->name,
		.path = path,
		.job = job,
	};
	nfs->handler = (struct rpc_handler){on_reply, on_finished, on_refused, nfs};
	nfs->slot_bits = bits_for(job->io_count + 1); /* the last: send_probe() */
	/* A random start: the server's duplicate request cache may remember an earlier run's xids.
	 */
	if (getrandom(&nfs->generation, sizeof(nfs->generation), 0) != sizeof(nfs->generation))
		nfs->generation = (uint32_t)clock_now();
	error = start_connect(nfs);
	if (error && !job->failover) {
		nfs_log(nfs, "cannot open a connection%s: %s%s", is_rdma(nfs) ? " over RDMA" : "",
			strerror(-error),
			is_rdma(nfs) ? ": does this machine have an RDMA device (rdma link), and "
				       "is rdma_ucm loaded?"
				     : "");
		free(nfs);
		return error;
	}
	*conn = &nfs->base;
	return 0;
}

/* The handle and the templates are the path's. */
static int nfs_open_file(struct conn *conn, uint32_t file)
{
	(void)conn, (void)file;
	return 0;
}

static void nfs_close_file(struct conn *conn, uint32_t file)
{
	(void)conn, (void)file;
}

static uint32_t nfs_io_max(const struct conn *conn, enum io_op op)
{
	const struct nfs3_limits *limits = &conn->path->limits;
	uint32_t data_max = nfs_of_const(conn)->transport->data_max ?: UINT32_MAX;

	return min_of(op == IO_READ ? limits->read_max : limits->write_max, data_max);
}

static int nfs_poll_fd(const struct conn *conn)
{
	const struct nfs_conn *nfs = nfs_of_const(conn);

	return nfs->channel ? nfs->transport->poll_fd(nfs->channel) : -1;
}

static short nfs_poll_events(const struct conn *conn)
{
	const struct nfs_conn *nfs = nfs_of_const(conn);

	return nfs->up ? nfs->transport->poll_events(nfs->channel) : POLLIN | POLLOUT;
}

static void nfs_names(const struct conn *conn, char *local, char *remote)
{
	const struct nfs_conn *nfs = nfs_of_const(conn);

	if (nfs->up)
		nfs->transport->names(nfs->channel, local, remote, CONN_NAME);
	else
		snprintf(local, CONN_NAME, "-"), snprintf(remote, CONN_NAME, "-");
}

static void nfs_close(struct conn *conn)
{
	struct nfs_conn *nfs = nfs_of(conn);

	close_channel(nfs);
	free(nfs);
}

const struct conn_ops conn_nfs = {
	.open = nfs_open,
	.ready = nfs_ready,
	.open_file = nfs_open_file,
	.close_file = nfs_close_file,
	.io_max = nfs_io_max,
	.submit = nfs_submit,
	.flush = nfs_flush,
	.reap = nfs_reap,
	.poll_fd = nfs_poll_fd,
	.poll_events = nfs_poll_events,
	.tick = nfs_tick,
	.retire = nfs_retire,
	.abort = nfs_abort,
	.names = nfs_names,
	.close = nfs_close,
};
