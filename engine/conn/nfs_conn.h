/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs_conn.h - what the parts of an NFSv3 session share: nfs.c, nfs_calls.c, nfs_link.c,
 * nfs_time.c, nfs_failover.c and nfs_trouble.c. Nobody else includes it.
 *
 * An I/O is one call. It waits in `waiting` until the channel takes it, then stands in `sent` until
 * its reply comes; a reply that asks for patience (NFS3ERR_JUKEBOX) puts it into `delayed`. When
 * the channel is lost, what was sent waits again, with its xid, so that the server's duplicate
 * request cache knows the call; a new channel is opened by nfs_tick(), with back-off, for as long
 * as the mount options say.
 *
 * Nothing here blocks. `error` is a negative errno where a channel is meant, and a positive one
 * where it becomes an I/O's.
 */
#ifndef NFSMULTI_NFS_CONN_H
#define NFSMULTI_NFS_CONN_H

#include "conn/connection.h"
#include "conn/path.h"
#include "nfs/nfs3.h"
#include "util.h"

struct nfs_conn {
	struct conn base;
	const struct rpc_channel_ops *transport;
	struct rpc_handler handler;
	struct rpc_channel *channel; /* NULL: none, the next is opened at retry_at */
	struct rpc_address address;  /* the same for each channel */
	uint16_t source_port;	     /* of the latest channel; the next one keeps it */
	bool up;		     /* the channel is connected */
	bool was_up;		     /* one has been */
	bool drop;		     /* the channel must go: see nfs_calls.c */
	uint64_t connect_deadline, retry_at, retry_delay;
	uint64_t down_since, heard; /* clock_now() at the loss, and when bytes came */
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

static inline struct nfs_conn *nfs_of(struct conn *conn)
{
	return container_of(conn, struct nfs_conn, base);
}

static inline const struct nfs_conn *nfs_of_const(const struct conn *conn)
{
	return container_of(conn, struct nfs_conn, base);
}

static inline struct path_file *file_of(const struct conn_io *io)
{
	return &io->conn->path->files[io->file];
}

static inline enum nfs3_procedure procedure_of(const struct conn_io *io)
{
	static const enum nfs3_procedure procedures[] = {
		[IO_READ] = NFS3_READ,
		[IO_WRITE] = NFS3_WRITE,
		[IO_COMMIT] = NFS3_COMMIT,
	};

	return procedures[io->op];
}

/* What `io` still has to move. */
static inline uint32_t rest_of(const struct conn_io *io)
{
	return io->length - io->done;
}

static inline bool nfs_is_rdma(const struct nfs_conn *nfs)
{
	return nfs->transport->traits & RPC_MOVES_DATA;
}

/* A line about the path. */
#define nfs_log(nfs, format, ...) \
	((nfs)->base.job->log("%s: " format, (nfs)->base.path->config.label, ##__VA_ARGS__))

/* --- nfs_calls.c: calls go out, and their replies come in --- */

/* Sets the functions that the channel calls. */
void nfs_handle_replies(struct nfs_conn *nfs);

/* connection.h's submit() and flush(). */
void nfs_submit(struct conn *conn, struct conn_io *io);
void nfs_flush(struct conn *conn);

/* Sends what waits, as far as the channel takes it. The channel may be lost by that. */
void nfs_send_waiting(struct nfs_conn *nfs);

/* Ends an I/O, which is in no list, with 0 or a positive errno. */
void nfs_finish(struct nfs_conn *nfs, struct conn_io *io, int error);

/* --- nfs_link.c: connecting, and losing the connection --- */

/* Opens a channel, which is not connected yet. */
int nfs_connect(struct nfs_conn *nfs);

/* Takes one step towards a connected channel: 0, -EINPROGRESS, or what failed. */
int nfs_pursue(struct nfs_conn *nfs);

/* The channel has failed: its calls wait for the next one. */
void nfs_lost(struct nfs_conn *nfs, int error);

/* Lets go of the channel, if there is one; the lists are as they were. */
void nfs_close_channel(struct nfs_conn *nfs);

/* Says when the next channel is opened: later each time. */
void nfs_retry_later(struct nfs_conn *nfs);

/* connection.h's abort(). */
void nfs_abort(struct conn *conn, int error);

/* --- nfs_failover.c: dead paths --- */

/* Whether others could stand in for this connection. */
bool nfs_may_die(const struct nfs_conn *nfs);

/* Asks the server for a sign of life. What cannot be sent counts as not answered. */
void nfs_send_probe(struct nfs_conn *nfs);
void nfs_probe_answered(struct nfs_conn *nfs);

/* Asks a server that owes replies and is silent for a sign of life. */
void nfs_ask_if_silent(struct nfs_conn *nfs, uint64_t now);

/* Gives the path up where it does not answer. */
void nfs_fail_over(struct nfs_conn *nfs, uint64_t now);

/* Whether there has been no channel for longer than a reconnect takes. */
bool nfs_down(const struct nfs_conn *nfs, uint64_t now);

/* The server speaks no protocol that is known here: others take over, or the I/O fails. */
void nfs_give_up(struct nfs_conn *nfs);

/* connection.h's retire(). */
bool nfs_retire(struct conn *conn);

/* --- nfs_time.c: what is due --- */

/* connection.h's tick(). */
void nfs_tick(struct conn *conn);

/* --- nfs_trouble.c: what is told once for a path, however many connections notice it --- */

/* True where the path has stopped to answer just now. */
bool nfs_begin_trouble(struct nfs_conn *nfs);

/* True where it has resumed: a connection that was in trouble is answered. */
bool nfs_end_trouble(struct nfs_conn *nfs);

void nfs_say_silent(struct nfs_conn *nfs);
void nfs_say_stale(struct nfs_conn *nfs, const struct conn_io *io);
void nfs_say_patience(struct nfs_conn *nfs, const struct conn_io *io);

#endif
