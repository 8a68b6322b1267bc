/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * client.h - the RPC client: one connection to one server, and the calls that go over it.
 *
 * An I/O or a request becomes a call. The call waits until the channel takes it, and is sent until
 * its reply comes; it is delayed where the server asks to wait. When a channel is lost, its sent
 * calls wait again, with their xids and slots, so that the server's reply cache knows them.
 * internal.h says which file does what.
 *
 * A client knows no path, job or export: its owner says what to do, has the clock, and learns what
 * happens by events. Only client_reap() with `wait` and client_take_leave() block. A negative errno
 * is meant for a connection, a positive one for an I/O.
 */
#pragma once

#include "clock.h"
#include "client/call.h"
#include "client/events.h"
#include "client/io.h"
#include "client/link.h"
#include "client/protocol.h"
#include "client/timers.h"
#include "stats/counters.h"
#include "wire/message.h"

/* The reply that is being received, and the call that it answers. */
struct client_reply {
	struct call *call; /* NULL: none */
	struct rpc_reply_header header;
	enum disposition disposition;
	struct call_result result;
	bool premature;	    /* the call was about to be sent again: the channel is to be closed */
	bool unread;	    /* changed on its way: the call may have been carried out, or not */
	const uint8_t *cut; /* where data was cut out of the reply, into place; NULL: nowhere */
};

static inline bool client_reply_asks_to_wait(const struct client_reply *reply)
{
	return reply->disposition == CALL_BACKOFF || reply->disposition == CALL_RETRY_SAME_SLOT;
}

struct rpc_client {
	/* The owner's, set before client_init(); they outlive the client. All else is zeros. */
	const struct protocol *protocol;
	struct rpc_credentials *credentials;
	void *server; /* the protocol's: what it knows about the server */
	const struct rpc_timing *timing;
	const struct client_events *events;
	const struct client_log *log;
	struct clock *clock;
	struct counters *counters;
	struct latency *latency; /* rtt and response are filled */
	uint32_t calls_max;	 /* I/Os and requests at once */
	uint32_t first_xid;	 /* random: the server's reply cache may know an earlier run's */

	struct link link;
	struct rpc_handler handler;

	struct call_table calls;
	struct call_list waiting, sent, delayed;
	uint32_t outstanding; /* I/Os submitted and not finished */
	uint32_t unflushed;   /* submitted since the last flush that sent */

	void *state;	    /* the protocol's, of this connection */
	void *renewal;	    /* the protocol's request that renews the lease */
	struct call *setup; /* the call of session set-up under way; it stands in no list */
	int setup_error;    /* set-up failed, and was logged: close the channel; a negative errno */
	uint32_t setup_channels;    /* channels that failed in a row before I/O (-EKEYEXPIRED) */
	int lost;		    /* why the latest channel was lost; a negative errno */
	uint32_t setup_denials;	    /* of contexts, over this channel, since it was last prepared */
	bool names;		    /* set by the owner: the connection moves no data */
	bool prepared;		    /* the protocol has done what comes before I/O */
	uint64_t setup_at;	    /* when the next call of set-up may go out, after a refusal */
	uint32_t setup_refusals;    /* of set-up, in a row */
	uint64_t setup_since;	    /* when the first of these refusals came */
	char refusal_words[80];	    /* of the latest call that was put off: see client_refusal() */
	uint64_t put_off_until;	    /* when that call goes out again */
	uint64_t wait_asked_until;  /* until when the server has asked a call to wait */
	struct rpc_request context; /* asks for the credentials' context */
	uint64_t context_awaited;   /* since when the context is awaited; 0: it is not */
	uint64_t looked;	    /* client_ready()'s, for time_away() */
	uint64_t queued;	    /* the channel's position behind the latest call */

	struct client_reply reply;
	char refusal[200]; /* the RPC error of the latest request that met one, in words */

	uint64_t heard;	       /* when bytes last came from the server, or a probe was sent */
	bool probed;	       /* a liveness probe is not answered yet */
	struct call *probe;    /* the latest probe; NULL: there was no room for it */
	uint64_t acknowledged; /* the link's position when last looked at */
	bool answered;	       /* the server has answered a call over this channel */
	uint32_t broken;       /* channels in a row that the server's messages broke */
	bool protocol_broken;  /* too many of these: other connections are to take over */

	/* The log's: what it has logged of this connection. */
	struct {
		bool in_trouble;	    /* calls wait for an answer that is overdue, or lost */
		bool refused;		    /* the transport refused a call */
		bool unverified;	    /* an RPC error that is not shown to be the server's */
		bool flaw;		    /* a reply has a fault, though its status counts */
		enum rpc_verdict rpc_error; /* the last one: logged once for all its calls */
		const char *unprepared;	    /* the last status */
	} told;
};

/* 0 or -ENOMEM. */
int client_init(struct rpc_client *rpc);
void client_free(struct rpc_client *rpc);

/* Begins to connect. 0, or a negative errno; client_close() may be called in either case. */
int client_open(struct rpc_client *rpc, const struct rpc_channel_ops *ops,
		const struct rpc_terms *terms);
/* Closes the connection; outstanding calls end without a result. */
void client_close(struct rpc_client *rpc);

/* Takes one step towards a channel that is connected, and prepared for I/O. 0, -EINPROGRESS, or why
 * it failed: logged already where rpc->setup_error is set. */
int client_ready(struct rpc_client *rpc);

/* Takes an I/O or a request, to go out at the next flush. Errors come as its result. */
void client_submit(struct rpc_client *rpc, struct conn_io *io);
void client_request(struct rpc_client *rpc, struct rpc_request *request);

/* Sends what was submitted, as far as that can be done without waiting. */
void client_flush(struct rpc_client *rpc);

/* client_reap()'s halves, for client/ only: where the channel is up, and where it is not. */
void client_receive(struct rpc_client *rpc, bool wait);
void client_await_link(struct rpc_client *rpc, bool wait);

/* Receives what has come. With `wait` it blocks until something has, for 100 ms at most. */
static inline void client_reap(struct rpc_client *rpc, bool wait)
{
	if (rpc->link.up)
		client_receive(rpc, wait);
	else
		client_await_link(rpc, wait);
}

/* Time-outs and reconnects: to be called about every 100 ms, whatever else happens. */
void client_tick(struct rpc_client *rpc);

/* The server's health, as far as this connection can tell. */
enum client_health {
	CLIENT_UNKNOWN, /* not answered yet, and not silent for long either */
	CLIENT_ANSWERS,
	CLIENT_SILENT, /* unanswered probe, no connection, no context, or broken messages */
};
enum client_health client_health(const struct rpc_client *rpc);

/* The other host is alive, whether or not its server answers. */
static inline bool client_reachable(const struct rpc_client *rpc)
{
	return rpc->link.up && rpc->link.ops->unheard(rpc->link.channel) <= HEARD_MAX;
}

/* Nanoseconds since a call of session set-up was sent that is unanswered: it is sent only once. */
static inline uint64_t client_unprepared_for(const struct rpc_client *rpc)
{
	return rpc->setup ? rpc->clock->now - rpc->setup->last_sent : 0;
}

/* Nanoseconds that a context has been awaited: the KDC is asked first, then the server. */
static inline uint64_t client_without_context_for(const struct rpc_client *rpc)
{
	return rpc->context_awaited ? rpc->clock->now - rpc->context_awaited : 0;
}

/* True for the call that makes the credentials' context: it is not the protocol's. */
static inline bool call_is_context(const struct call *call)
{
	return call->request && call->request == &call->rpc->context;
}

/* Where the server has answered within the last second: tells it that the client leaves, and waits
 * for the reply, 100 ms at most. */
void client_take_leave(struct rpc_client *rpc);

/* What the server keeps refusing, as "CREATE_SESSION: NFS4ERR_STALE_CLIENTID"; NULL: nothing, or
 * not any more. */
static inline const char *client_refusal(const struct rpc_client *rpc)
{
	return rpc->clock->now < rpc->put_off_until + SEC ? rpc->refusal_words : NULL;
}

/* True where the server asks to wait, and so is alive. */
static inline bool client_is_asked_to_wait(const struct rpc_client *rpc)
{
	return rpc->wait_asked_until > rpc->clock->now;
}

/* Closes the link, which then uses no buffers any more, and ends every outstanding call with
 * `error`, a positive errno. */
void client_abort(struct rpc_client *rpc, int error);

/*
 * Gives every I/O back by events->given_back(), and goes on connecting. The server may still carry
 * out WRITEs that it has already got, even after the WRITEs sent in their place.
 */
void client_hand_over(struct rpc_client *rpc);
