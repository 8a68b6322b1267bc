/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * events.h - what a client tells its owner: a table of what happens to I/O, and a table of what is
 * worth a message. No function may call the client back, or block.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct call;
struct conn_io;
struct rpc_client;

/* Can other connections do this one's work? */
enum client_role {
	CLIENT_ALONE,	    /* no: it waits for its server as long as `hard` and `soft` say */
	CLIENT_REPLACEABLE, /* yes, once this one reports a silent server */
	CLIENT_REPLACED,    /* they do: this one only connects, and sends liveness probes */
	CLIENT_ABANDONED,   /* for good: this one does not connect any more */
};

struct client_events {
	enum client_role (*role)(const struct rpc_client *rpc);

	/* client_health() may have changed: ask at once. */
	void (*health_changed)(struct rpc_client *rpc);

	/* The I/O has its result, and is its owner's again. */
	void (*finished)(struct conn_io *io);

	/* client_hand_over() returns the I/O, without a result. */
	void (*given_back)(struct conn_io *io);

	/* `count` bytes of a WRITE were answered with this verifier (8 bytes), durable or not. */
	void (*wrote)(struct conn_io *io, uint32_t count, bool durable, const uint8_t *verifier);

	/*
	 * A COMMIT is sent as a new call (a new xid or slot sequence), and covers the WRITEs
	 * answered so far. Then one of three happens: it is answered with this verifier; it will be
	 * sent as another call, or over another connection; or it fails.
	 */
	void (*commit_begins)(struct conn_io *io);
	void (*committed)(struct conn_io *io, const uint8_t *verifier);
	void (*commit_undone)(struct conn_io *io);
	void (*commit_failed)(struct conn_io *io);
};

/* Errors are negative errnos. Each may be called again for the same event, and logs it once. */
struct client_log {
	/* Trouble: the connection was lost with so many I/Os outstanding; the server is silent; the
	 * time of a `soft` I/O is over. */
	void (*lost)(struct rpc_client *rpc, uint32_t outstanding, int error);
	/* The next connection was refused, for a reason that the channel has words for. */
	void (*refused_again)(struct rpc_client *rpc, int error);
	void (*silent)(struct rpc_client *rpc);
	void (*expired)(struct rpc_client *rpc);

	/* The trouble has ended: the server has answered, or others take over. */
	void (*answered)(struct rpc_client *rpc);
	void (*handed_over)(struct rpc_client *rpc);

	/* The server keeps breaking the protocol: the client gives up. */
	void (*gave_up)(struct rpc_client *rpc);

	/* rpc->reply is an RPC error that is not shown to be the server's: `call` still waits. */
	void (*unverified)(struct rpc_client *rpc, const struct call *call);

	/* A call fails by rpc->reply: by an RPC error, or by the protocol's disposition. */
	void (*rpc_error)(struct rpc_client *rpc, const struct call *call);
	void (*failed)(struct rpc_client *rpc, const struct call *call);

	/* Session set-up fails, with a positive errno. */
	void (*unprepared)(struct rpc_client *rpc, const struct call *call, int error);

	/* The transport refused the call. */
	void (*refused)(struct rpc_client *rpc, const struct call *call, const char *why);

	/* The server keeps asking to wait, or refusing: rpc->reply.result has the status. */
	void (*delayed)(struct rpc_client *rpc, const struct call *call);
};
