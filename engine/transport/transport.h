/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * transport.h - an RPC channel: one transport session to one server, which carries calls out and
 * replies in.
 *
 * A channel knows messages and bulk data, and nothing of NFS or of who waits for what: the owner
 * numbers its calls by xid, and learns of each reply by `struct rpc_handler`. Channels never block
 * except where a function says so, are not shared between threads, and never outlive a fork.
 *
 * Bulk data is the one long opaque of a message: what WRITE sends and READ brings. It goes straight
 * from and to the owner's memory, which must stay valid and unchanged until the reply has come or
 * the channel is closed. close() ends all access to it, by a device as well.
 */
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "stats/counters.h"
#include "wire/reply.h"
#include "wire/xdr.h"

struct rpc_address {
	struct sockaddr_storage remote;
	socklen_t remote_length;
	struct sockaddr_storage local; /* ss_family AF_UNSPEC: the system's choice; no port */
	bool reserved_port; /* try a source port below 1024 first; done without where not permitted
			     */
};

static inline void rpc_set_port(struct sockaddr_storage *address, uint16_t port)
{
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)address)->sin_port = htons(port);
}

struct rdma_memory;
struct tls_terms;

/* Places that the most part of bulk data lies in: fio's buffers, and what hold_writes keeps. */
enum { RPC_BUFFER_IO, RPC_BUFFER_HOLD, RPC_BUFFERS };

enum { RPC_WHY_MAX = 240 };

/* What a channel is opened with. What it points to stays the owner's, and outlives the channel. */
struct rpc_terms {
	struct rpc_address address;
	/*
	 * TCP: the local port, which a server's reply cache knows calls by that are sent again.
	 * open() writes it, and tries it first where it is not 0. May be NULL.
	 */
	uint16_t *source_port;
	/* RPC_WHY_MAX bytes: why a channel fails, where an errno says too little. NULL: not wanted,
	 * which TLS does not take. */
	char *why;
	const struct rpc_handler *handler;
	struct transport_counters *counters; /* so that they survive reconnects */
	uint32_t reply_max; /* bytes: a longer reply fails the channel with -EMSGSIZE */
	/* TCP, TLS: bytes of the longest head of a reply; 0: RPC_REPLY_HEAD_MAX. */
	uint32_t head_max;
	uint32_t calls_max; /* that will be outstanding at once */
	bool stamps;	    /* TCP: rpc_channel's stamp is wanted */

	/* RDMA's alone */
	struct rdma_memory *memory; /* where bulk data lies: rdma_memory.h */
	uint32_t inline_max;	    /* bytes of the longest message sent or taken without chunks */

	struct tls_terms *tls; /* TLS's alone: tls.h */
};

struct rpc_channel;

/* What a channel is. */
enum rpc_traits {
	RPC_MOVES_DATA = 1 << 0,   /* its devices move bulk data, from and to registered memory */
	RPC_SENDS_ONCE = 1 << 1,   /* to send a call again, another channel must be opened */
	RPC_SHAKES_HANDS = 1 << 2, /* the server itself works, and may take its time, to connect */
	RPC_DROPS_DATA = 1 << 3,   /* bulk data may go nowhere: rpc_bulk's `to` may be NULL */
};

struct rpc_channel_ops {
	const char *name; /* "tcp", "rdma": nfs(5), proto */
	uint32_t traits;  /* of enum rpc_traits */

	/* Begins to connect. Returns 0 with *channel set, or a negative errno, nothing to close. */
	int (*open)(struct rpc_channel **channel, const struct rpc_terms *terms);

	/*
	 * 0: connected, -EINPROGRESS: not yet, another negative errno: failed. -EKEYEXPIRED, also
	 * of receive(): failed by what the next channel may take.
	 */
	int (*connected)(struct rpc_channel *channel);

	/* What to poll for: the descriptor and POLLIN, POLLOUT. Valid until close(). */
	int (*poll_fd)(const struct rpc_channel *channel);
	short (*poll_events)(const struct rpc_channel *channel);
	/* The same while it connects. NULL: both. */
	short (*connect_events)(const struct rpc_channel *channel);

	/* Bytes of the longest head of a reply that it takes, once it is connected. */
	uint32_t (*head_max)(const struct rpc_channel *channel);

	/*
	 * Room for one call's head, of RPC_HEAD_MAX bytes at least; false where the channel holds
	 * as much unsent as it can: flush() first; or where the server takes no more calls for now:
	 * receive() first; or where it is spent(): never again.
	 */
	bool (*begin)(struct rpc_channel *channel, struct xdr_out *head);

	/*
	 * Queues the call `xid` whose head was written since begin(), with its bulk data. Returns
	 * the channel's position at the end of the call: it has left when sent() has reached that.
	 * 0 where that data cannot be moved, with the reason logged: nothing is queued.
	 */
	uint64_t (*queue)(struct rpc_channel *channel, uint32_t xid, const struct xdr_out *head,
			  const struct rpc_payload *data);
	uint64_t (*sent)(const struct rpc_channel *channel);

	/* Sends what is queued as far as the transport takes it. 0, or a negative errno: failed. */
	int (*flush)(struct rpc_channel *channel);

	/*
	 * True where it takes no more calls, and never will, with the reason in terms->why: the
	 * owner closes it once no answer is awaited over it. NULL: it never comes to that.
	 */
	bool (*spent)(const struct rpc_channel *channel);

	/*
	 * Handles what has arrived, by the handler's functions. With `wait` it blocks, for 100 ms
	 * at the most, until something has. 0, or a negative errno: failed (-ECONNRESET where the
	 * server closed it).
	 */
	int (*receive)(struct rpc_channel *channel, bool wait);

	/*
	 * Nanoseconds since anything came from the other host, an acknowledgement if nothing else;
	 * a live one is never silent for longer than 10 s. 0 where the transport itself breaks when
	 * the other host is gone.
	 */
	uint64_t (*unheard)(const struct rpc_channel *channel);

	/*
	 * The position that the other host has acknowledged, at most sent(): what is beyond it is
	 * still on its way. The channel's sent() where the transport does not tell.
	 */
	uint64_t (*acknowledged)(const struct rpc_channel *channel);

	/* True in the middle of a reply: more of it is on its way. */
	bool (*receiving)(const struct rpc_channel *channel);

	/* The two ends as text, "address:port" or "[address]:port". */
	void (*names)(const struct rpc_channel *channel, char *local, char *remote, size_t size);

	/*
	 * Drops everything; no handler function is called any more. What the server has not got
	 * does not reach it later: it may be outdated by then. The channel is gone. With `abort`,
	 * for a channel that has calls outstanding, its port is free at once for the next one.
	 */
	void (*close)(struct rpc_channel *channel, bool abort);
};

struct rpc_channel {
	struct transport_counters *counters; /* the owner's */
	bool starved; /* the server has waited for this client: a few calls are to go at a time */
	/*
	 * CLOCK_REALTIME, nanoseconds: when the kernel had what receive() handles; 0: not known.
	 * One stamp serves all that it brings: that of the last segment of which it took bytes (man
	 * 7 socket, SO_TIMESTAMPNS; Linux, tcp_recvmsg_locked()). A segment that waits takes the
	 * stamp of the next one that is merged into it (tcp_try_coalesce()), so a reply may have
	 * been there earlier, never later.
	 */
	uint64_t stamp;
};

extern const struct rpc_channel_ops rpc_tcp;
#ifdef HAVE_TLS
extern const struct rpc_channel_ops rpc_tls;
#endif
#ifdef HAVE_RDMA
extern const struct rpc_channel_ops rpc_rdma;
#endif
