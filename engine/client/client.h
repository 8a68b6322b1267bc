/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * client.h - the RPC client: one connection to one server, and the calls that go over it.
 *
 * An I/O or a request becomes a call, which waits until the channel takes it, then counts as sent
 * until its reply comes; a server that asks to wait has it delayed. When a channel is lost, what
 * was sent over it waits again, with its number, so that the server's reply cache knows the call.
 * internal.h says which file does what.
 *
 * It knows no path, job or export: what it is to do is set by its owner, time is its owner's clock,
 * and what happens is told by events. Nothing here blocks but client_reap() with `wait`, and
 * client_take_leave(). A negative errno is meant for a connection, a positive one for an I/O.
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
	bool premature; /* it answers a call that was to be sent again: the channel is to go */
	bool unread;	/* it was changed on its way: the call may have been carried out, or not */
	const uint8_t *cut; /* where its data was, which is in place; NULL: it is not */
};

static inline bool client_reply_asks_to_wait(const struct client_reply *reply)
{
	return reply->disposition == CALL_BACKOFF || reply->disposition == CALL_RETRY_SAME_SLOT;
}

struct rpc_client {
	/* The owner's, set before client_init(); it outlives the client. All else is of zeros. */
	const struct protocol *protocol;
	struct rpc_credentials *credentials;
	void *server; /* the protocol's: whose client it is, and what it keeps of that */
	const struct rpc_timing *timing;
	const struct client_events *events;
	const struct client_log *log;
	struct clock *clock;
	struct counters *counters;
	struct latency *latency; /* its rtt is filled, and response */
	uint32_t calls_max;	 /* I/Os and requests at once */
	uint32_t first_xid; /* a random one: the server's reply cache may remember an earlier run's
			     */

	struct link link;
	struct rpc_handler handler;

	struct call_table calls;
	struct call_list waiting, sent, delayed;
	uint32_t outstanding; /* I/Os submitted and not finished */
	uint32_t unflushed;   /* submitted since the last flush that sent */

	void *state;	    /* the protocol's, of this connection */
	void *renewal;	    /* the request by which its tick() keeps that alive */
	struct call *setup; /* what comes before I/O waits for this call, which stands in no list */
	int setup_error; /* it has failed, which was told: the channel is to go; a negative errno */
	uint32_t setup_channels; /* failed in a row, by what the next may take, before I/O */
	int lost;		 /* what the latest channel was lost by; a negative errno */
	/* Contexts that it was denied by, over this channel, since that was last prepared. */
	uint32_t setup_denials;
	bool names;		    /* the owner's: it moves no data */
	bool prepared;		    /* the protocol has done what comes before I/O */
	uint64_t setup_at;	    /* when the next may go out: the server has refused the last */
	uint32_t setup_refusals;    /* of those, in a row */
	uint64_t setup_since;	    /* the first of them */
	char refusal_words[80];	    /* of the latest call that was put off: see client_refusal() */
	uint64_t put_off_until;	    /* that call */
	uint64_t wait_asked_until;  /* the latest one whose server has asked to wait */
	struct rpc_request context; /* it asks for the credentials' context */
	uint64_t context_awaited;   /* since when that takes its time; 0: it does not */
	uint64_t looked;	    /* time_away()'s, of client_ready() */
	uint64_t queued;	    /* the channel's position behind the latest call */

	struct client_reply reply;
	char refusal[200]; /* RPC's own, of the latest request that met one */

	uint64_t heard;	       /* when bytes came from the server, or it was asked */
	bool probed;	       /* a liveness probe is not answered yet */
	struct call *probe;    /* the latest probe; NULL: there was no room for it */
	uint64_t acknowledged; /* the link's, when it was last looked at */
	bool answered;	       /* it has answered a call since the channel came up */
	uint32_t broken;       /* channels in a row that were lost by what the server sent */
	bool protocol_broken;  /* there were too many of these: others are to take over */

	/* What was told of this connection: the log's. */
	struct {
		bool in_trouble; /* calls wait for an answer that is overdue, or lost */
		bool refused;	 /* the transport refused a call */
		bool unverified; /* an RPC error that nothing shows to be the server's */
		bool flaw;	 /* that a reply is not as it must be, though its status counts */
		enum rpc_verdict rpc_error; /* the last one: once for all the calls it met */
		const char *unprepared;	    /* the last status */
	} told;
};

/* 0 or -ENOMEM. */
int client_init(struct rpc_client *rpc);
void client_free(struct rpc_client *rpc);

/*
 * Begins to connect; terms->handler is set here. 0, or a negative errno; client_close() may be
 * called also where that failed.
 */
int client_open(struct rpc_client *rpc, const struct rpc_channel_ops *ops, struct rpc_terms *terms);
/* Closes it; outstanding calls end without a result. */
void client_close(struct rpc_client *rpc);

/* One step towards a channel that is connected, and prepared for I/O: 0, -EINPROGRESS, or what
 * failed; that was told where rpc->setup_error is set. */
int client_ready(struct rpc_client *rpc);

/* Takes over an I/O, or a request: it goes out at the next flush. Never fails: an error comes as
 * its result. */
void client_submit(struct rpc_client *rpc, struct conn_io *io);
void client_request(struct rpc_client *rpc, struct rpc_request *request);

/* Sends what was submitted, as far as that can be done without waiting. */
void client_flush(struct rpc_client *rpc);

/* client_reap()'s halves, for nobody outside client/, with `wait` as it has it: where the channel
 * is up, and where it is not. */
void client_receive(struct rpc_client *rpc, bool wait);
void client_await_link(struct rpc_client *rpc, bool wait);

/* Receives what has come. With `wait` it blocks, for 100 ms at the most, until something has. */
static inline void client_reap(struct rpc_client *rpc, bool wait)
{
	if (rpc->link.up)
		client_receive(rpc, wait);
	else
		client_await_link(rpc, wait);
}

/* To be called about every 100 ms, whatever else happens: time-outs and reconnects. */
void client_tick(struct rpc_client *rpc);

/* How the server does, as far as this connection can tell. */
enum client_health {
	CLIENT_UNKNOWN, /* it has not answered yet, and not been silent for long either */
	CLIENT_ANSWERS,
	CLIENT_SILENT, /* asked and not answered, not to be connected to, or nothing but nonsense */
};
enum client_health client_health(const struct rpc_client *rpc);

/* The other host is there, whether or not its server answers. */
bool client_reachable(const struct rpc_client *rpc);

/* Nanoseconds that the server has not answered what comes before I/O; nothing is sent again then.
 */
uint64_t client_unprepared_for(const struct rpc_client *rpc);

/* The same of whoever must be asked for its context before the server: a KDC. */
uint64_t client_without_context_for(const struct rpc_client *rpc);

/* True for the call that makes the credentials' context, which is none of the protocol's. */
static inline bool call_is_context(const struct call *call)
{
	return call->request && call->request == &call->rpc->context;
}

/* Tells the server that the client leaves, and waits for its answer, for 100 ms at the most; where
 * it has answered within the last second. */
void client_take_leave(struct rpc_client *rpc);

/* What the server answers again and again, as "CREATE_SESSION: NFS4ERR_STALE_CLIENTID"; NULL: it
 * does not, or not any more. */
const char *client_refusal(const struct rpc_client *rpc);

/* True where the server asks to wait: it is there. */
bool client_is_asked_to_wait(const struct rpc_client *rpc);

/* Gives up every outstanding call with a positive errno. The link is closed first, so that nobody
 * touches the buffers. */
void client_abort(struct rpc_client *rpc, int error);

/*
 * Gives every I/O back by events->given_back(), and goes on connecting. WRITEs that the server has
 * already got it may still carry out, after those that are sent in their stead.
 */
void client_hand_over(struct rpc_client *rpc);
