/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * events.h - what a client tells its owner: a table of what happens to I/O, and one of what people
 * may want to know. No function may call the client back, or block.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct call;
struct conn_io;
struct rpc_client;

/* Whether others can do a client's work. */
enum client_role {
	CLIENT_ALONE,	    /* nobody: it waits for its server as long as `hard` and `soft` say */
	CLIENT_REPLACEABLE, /* others take over when it says that its server is silent */
	CLIENT_REPLACED,    /* others have: it connects, and asks for a liveness probe alone */
	CLIENT_ABANDONED,   /* it is not used again, and does not connect */
};

struct client_events {
	enum client_role (*role)(const struct rpc_client *rpc);

	/* client_health() may have changed: it is to be asked at once. */
	void (*health_changed)(struct rpc_client *rpc);

	/* It has its result, and is its owner's again. */
	void (*finished)(struct rpc_client *rpc, struct conn_io *io);

	/* client_hand_over() returns it, without a result. */
	void (*given_back)(struct rpc_client *rpc, struct conn_io *io);

	/* `count` bytes of a WRITE were answered with that verifier (8 bytes), durable or not. */
	void (*wrote)(struct rpc_client *rpc, struct conn_io *io, uint32_t count, bool durable,
		      const uint8_t *verifier);

	/*
	 * A COMMIT is sent by a new number: it covers what has been answered so far. It was
	 * answered with that verifier; or it will be sent by another number, or over another
	 * connection; or it has failed.
	 */
	void (*commit_begins)(struct rpc_client *rpc, struct conn_io *io);
	void (*committed)(struct rpc_client *rpc, struct conn_io *io, const uint8_t *verifier);
	void (*commit_undone)(struct rpc_client *rpc, struct conn_io *io);
	void (*commit_failed)(struct rpc_client *rpc, struct conn_io *io);
};

/* Errors are negative errnos. Each may be called again for the same: telling it once is theirs. */
struct client_log {
	/* Trouble: the connection was lost with so many I/Os outstanding; the server is silent; a
	 * `soft` I/O has had its time. */
	void (*lost)(struct rpc_client *rpc, uint32_t outstanding, int error);
	/* The next connection was refused, for a reason that the channel has words for. */
	void (*refused_again)(struct rpc_client *rpc, int error);
	void (*silent)(struct rpc_client *rpc);
	void (*expired)(struct rpc_client *rpc);

	/* It has ended: the server has answered, or others take over. */
	void (*answered)(struct rpc_client *rpc);
	void (*handed_over)(struct rpc_client *rpc);

	/* The server breaks the protocol again and again: the client gives up. */
	void (*gave_up)(struct rpc_client *rpc);

	/* rpc->reply is an RPC error that nothing shows to be the server's: `call` still waits. */
	void (*unverified)(struct rpc_client *rpc, const struct call *call);

	/* A call fails by rpc->reply: by an RPC error, or by the protocol's disposition. */
	void (*rpc_error)(struct rpc_client *rpc, const struct call *call);
	void (*failed)(struct rpc_client *rpc, const struct call *call);

	/* What comes before I/O fails, with a positive errno. */
	void (*unprepared)(struct rpc_client *rpc, const struct call *call, int error);

	/* The transport could not carry it. */
	void (*refused)(struct rpc_client *rpc, const struct call *call, const char *why);

	/* The server asks to wait, or refuses the call, again and again: rpc->reply.result says by
	 * which status. */
	void (*delayed)(struct rpc_client *rpc, const struct call *call);
};
