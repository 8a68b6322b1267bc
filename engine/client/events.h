/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * events.h - callbacks of a client to its owner: one table for I/O, and one for log messages. None
 * of them may block, or call a function of the client.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct call;
struct conn_io;
struct rpc_client;

/* Failover: whether other connections can take over this connection's I/O. */
enum client_role {
	CLIENT_ALONE,	    /* no: `hard` or `soft` decides how long it waits for its server */
	CLIENT_REPLACEABLE, /* yes, once this connection reports a silent server */
	CLIENT_REPLACED,    /* they have: this one only reconnects, and sends liveness probes */
	CLIENT_ABANDONED,   /* they have for good: this one does not reconnect any more */
};

struct client_events {
	enum client_role (*role)(const struct rpc_client *rpc);

	/* client_health() may have changed: the owner calls it after this callback. */
	void (*health_changed)(struct rpc_client *rpc);

	/* The I/O has its result; the owner owns the I/O again. */
	void (*finished)(struct conn_io *io);

	/* client_hand_over() returns the I/O unfinished; the owner owns the I/O again. */
	void (*given_back)(struct conn_io *io);

	/* A WRITE was answered: `count` bytes, with this verifier (8 bytes). */
	void (*wrote)(struct conn_io *io, uint32_t count, bool durable, const uint8_t *verifier);

	/*
	 * commit_begins(): a COMMIT is sent as a new call (a new xid or slot sequence), and covers
	 * the WRITEs answered so far. One of the others follows. committed(): the reply has this
	 * verifier. commit_undone(): it will be sent as another call, or over another connection.
	 */
	void (*commit_begins)(struct conn_io *io);
	void (*committed)(struct conn_io *io, const uint8_t *verifier);
	void (*commit_undone)(struct conn_io *io);
	void (*commit_failed)(struct conn_io *io);
};

/* Errors are negative errnos. A function that is called again for the same event logs it once. */
struct client_log {
	/* The connection was lost with `outstanding` I/Os unanswered. */
	void (*lost)(struct rpc_client *rpc, uint32_t outstanding, int error);
	/* Reconnecting failed, and link.why has the reason. */
	void (*refused_again)(struct rpc_client *rpc, int error);
	/* The server does not answer; or a `soft` I/O has timed out. */
	void (*silent)(struct rpc_client *rpc);
	void (*expired)(struct rpc_client *rpc);

	/* The server answers again, or other connections take over. */
	void (*answered)(struct rpc_client *rpc);
	void (*handed_over)(struct rpc_client *rpc);

	/* The server keeps breaking the protocol: the client gives up. */
	void (*gave_up)(struct rpc_client *rpc);

	/* rpc->reply is an RPC error without a verifier: it is ignored, and `call` still waits. */
	void (*unverified)(struct rpc_client *rpc, const struct call *call);

	/* rpc->reply fails the call: with an RPC error, or with an error of NFS. */
	void (*rpc_error)(struct rpc_client *rpc, const struct call *call);
	void (*failed)(struct rpc_client *rpc, const struct call *call);

	/* Set-up of a session or Kerberos context fails with `error`, here a positive errno. */
	void (*unprepared)(struct rpc_client *rpc, const struct call *call, int error);

	/* The transport reports that it or the server could not handle the call. */
	void (*refused)(struct rpc_client *rpc, const struct call *call, const char *why);

	/* The server has delayed a call repeatedly: rpc->reply.result has the status. */
	void (*delayed)(struct rpc_client *rpc, const struct call *call);
};
