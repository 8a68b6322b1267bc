/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * client.h - the RPC client: one connection to one server, and the calls that go over it.
 *
 * Each submitted I/O or request becomes a call. A call is in one of three lists: waiting to be
 * sent; sent and unanswered; or delayed, after the server refused it for now. When the channel is
 * lost, sent calls wait again and keep their xids and slots, so that the server's reply cache
 * recognizes the retransmissions.
 *
 * The owner of a client submits the work, supplies the clock, and receives struct client_events.
 * Only client_reap() with `wait` and client_take_leave() block. Errors of a connection are negative
 * errnos, errors of an I/O are positive.
 */
#pragma once

#include "wait.h"
#include "client/call.h"
#include "client/link.h"
#include "client/protocol.h"
#include "client/timers.h"
#include "stats/counters.h"
#include "wire/message.h"

struct rpc_client;

/* --- callbacks to the owner: none of them may block, or call a function of the client --- */

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

/* --- a client --- */

/* The reply that is being received, and the call that it answers. */
struct client_reply {
	struct call *call; /* NULL: none */
	struct rpc_reply_header header;
	enum disposition disposition;
	struct call_result result;
	bool premature;	    /* it answers an earlier copy of a call now queued: close the channel */
	bool unread;	    /* its checksum is wrong: the call may have been carried out, or not */
	const uint8_t *cut; /* what follows READ data received in place; NULL: no such data */
};

static inline bool client_reply_asks_to_wait(const struct client_reply *reply)
{
	return reply->disposition == CALL_BACKOFF || reply->disposition == CALL_RETRY_SAME_SLOT;
}

struct rpc_client {
	/* Set by the owner before client_init(); pointees outlive the client. The rest is zero. */
	const struct protocol *protocol;
	struct rpc_credentials *credentials;
	void *server; /* the protocol's state of the server */
	const struct rpc_timing *timing;
	const struct client_events *events;
	const struct client_log *log;
	struct clock *clock;
	struct counters *counters;
	struct latency *latency; /* the client records rtt and response */
	uint32_t calls_max;	 /* I/Os and requests at once */
	uint32_t first_xid;	 /* random: the reply cache may still hold an earlier run's xids */
	uint32_t own; /* not 0: a client of its own (nclients=), of this number from 1 on over all
			 jobs */

	struct link link;
	struct rpc_handler handler;

	struct call_table calls;
	struct call_list waiting, sent, delayed;
	uint32_t outstanding; /* I/Os submitted and not finished */
	uint32_t unflushed;   /* I/Os submitted since the latest client_send() */

	void *state;	    /* the protocol's state of this connection */
	void *renewal;	    /* the protocol's request that renews the lease */
	struct call *setup; /* the unanswered call of session set-up; in no list */
	int setup_error;    /* a negative errno: set-up failed, and was logged; close the channel */
	uint32_t setup_channels;    /* channels that failed set-up in a row with -EKEYEXPIRED */
	int lost;		    /* why the latest channel was lost; a negative errno */
	bool names;		    /* set by the owner: the connection moves no data */
	bool prepared;		    /* session set-up is done: I/O may be sent */
	uint64_t setup_at;	    /* when set-up may send its next call after a refusal */
	uint32_t setup_refusals;    /* set-up calls refused in a row */
	uint64_t setup_since;	    /* when the first of setup_refusals came */
	char refusal_words[80];	    /* client_refusal(): the latest delayed call and its status */
	uint64_t put_off_until;	    /* when the latest delayed call is sent again */
	uint64_t wait_asked_until;  /* end of the latest delay that the server asked for */
	struct rpc_request context; /* creates the credentials' context */
	uint64_t context_awaited;   /* when the wait for a context began; 0: not waiting */
	uint64_t looked;	    /* when client_ready() last ran, for time_away() */
	uint64_t queued;	    /* the channel's position at the end of the latest call */

	struct client_reply reply;
	char refusal[200]; /* text of the latest RPC error that answered a request */

	uint64_t heard;	       /* when the silence timer was last restarted: see note_progress() */
	bool probed;	       /* a liveness probe is not answered yet */
	struct call *probe;    /* the unanswered probe; NULL: none, or the channel had no room */
	uint64_t acknowledged; /* the channel's acknowledged() when last read */
	bool answered;	       /* the server has answered a call over this channel */
	uint32_t broken;       /* channels in a row on which the server broke the protocol */
	bool protocol_broken;  /* `broken` reached its limit: other connections must take over */

	/* Set by the client_log functions: what they have logged for this connection. */
	struct {
		bool in_trouble;	    /* the server is silent, or the connection is lost */
		bool refused;		    /* the transport refused a call */
		bool unverified;	    /* an RPC error came without a verifier */
		bool flaw;		    /* an error status came in a malformed reply */
		enum rpc_verdict rpc_error; /* the latest RPC error: logged once */
		const char *unprepared;	    /* the latest failure of session set-up */
	} told;
};

/* Returns 0 or -ENOMEM. */
int client_init(struct rpc_client *rpc);
void client_free(struct rpc_client *rpc);

/* Begins to connect. Returns 0 or a negative errno; client_close() may be called after both. */
int client_open(struct rpc_client *rpc, const struct rpc_channel_ops *ops,
		const struct rpc_terms *terms);
/* Closes the channel. Calls in the client's lists stay there, unfinished. */
void client_close(struct rpc_client *rpc);

/* Takes one step towards a channel that is connected and prepared for I/O. Returns 0 (ready),
 * -EINPROGRESS or another negative errno, already logged where rpc->setup_error is set. */
int client_ready(struct rpc_client *rpc);

/* Takes an I/O or a request, which the next flush sends. Any error is in its result. */
void client_submit(struct rpc_client *rpc, struct conn_io *io);
void client_request(struct rpc_client *rpc, struct rpc_request *request);

/* Sends submitted calls without blocking; may postpone them while a reply is partly received. */
void client_flush(struct rpc_client *rpc);

/* The two cases of client_reap(), a connected channel and none; only it and client/ call them. */
void client_receive(struct rpc_client *rpc, bool wait);
void client_await_link(struct rpc_client *rpc, bool wait);

/* Handles what has arrived. With `wait` it blocks until something arrives, 100 ms at most. */
static inline void client_reap(struct rpc_client *rpc, bool wait)
{
	if (rpc->link.up)
		client_receive(rpc, wait);
	else
		client_await_link(rpc, wait);
}

/* Handles time-outs and reconnects. The owner must call it about every 100 ms. */
void client_tick(struct rpc_client *rpc);

/* When client_tick() has something to do, by the clock, unless work is submitted or client_reap()
 * called before; 0: within 100 ms. */
uint64_t client_due(const struct rpc_client *rpc);

/* The server's health, as far as this connection can tell. */
enum client_health {
	CLIENT_UNKNOWN, /* no answer yet, for too short a time to count as silent */
	CLIENT_ANSWERS,
	CLIENT_SILENT, /* unanswered probe, no connection, no context, or broken messages */
};
enum client_health client_health(const struct rpc_client *rpc);

/* Nanoseconds that the mechanism has been making a context, such as at the KDC; 0: it is not. */
static inline uint64_t client_without_context_for(const struct rpc_client *rpc)
{
	return rpc->context_awaited ? rpc->clock->now - rpc->context_awaited : 0;
}

/* True for the call that creates the credentials' context: the flavor encodes it, not NFS. */
static inline bool call_is_context(const struct call *call)
{
	return call->request && call->request == &call->rpc->context;
}

/* Ends the context at the server, if the server owes no reply and was heard within the last second.
 * Waits for the reply, 100 ms at most. */
void client_take_leave(struct rpc_client *rpc);

/* The call that the server keeps refusing, and its status: "CREATE_SESSION: NFS4ERR_DELAY". NULL:
 * the server has refused none lately. */
static inline const char *client_refusal(const struct rpc_client *rpc)
{
	return rpc->clock->now < rpc->put_off_until + SEC ? rpc->refusal_words : NULL;
}

/* Closes the channel, so that it no longer uses any buffer, and ends every outstanding call with
 * `error`, a positive errno. */
void client_abort(struct rpc_client *rpc, int error);

/*
 * Returns every I/O by events->given_back(), and keeps connecting. The server may still carry out
 * WRITEs it has already received, even after the WRITEs that another connection sends instead.
 */
void client_hand_over(struct rpc_client *rpc);

/*
 * --- between the files of client/ ---
 *
 * Each of call.c, send.c, reply.c and client.c calls only functions of those before it.
 */

/* True where other connections can take over the client's calls. */
static inline bool client_is_replaceable(const struct rpc_client *rpc)
{
	return rpc->events->role(rpc) == CLIENT_REPLACEABLE;
}

/* call.c, beside call.h */

/* Free the call of session set-up, or of a probe, if there is one: these calls are in no list. */
void client_drop_setup(struct rpc_client *rpc, bool answered);
void client_drop_probe(struct rpc_client *rpc);

/* These implement struct rpc_handler. */
void client_reply_finished(void *context, void *token);
void client_call_refused(void *context, uint32_t xid, int error, const char *why);

/* The channel has failed with a negative errno: its calls wait for the next channel. */
void client_lose(struct rpc_client *rpc, int error);

/* send.c */

/* Sends session set-up first, then waiting calls until the channel takes no more. */
void client_send(struct rpc_client *rpc);

/* Sends a liveness probe, a NULL call. A probe that cannot be sent counts as unanswered. */
void client_probe(struct rpc_client *rpc);

/* reply.c */

/* Implements struct rpc_handler. */
int client_reply_begins(void *context, const struct rpc_reply *reply, struct rpc_bulk *bulk);
