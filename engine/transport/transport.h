/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * transport.h - an RPC channel sends calls to one server, and receives the replies, over one
 * transport session.
 *
 * A channel handles messages and bulk data, and is independent of NFS. The owner numbers its calls
 * by xid, and gets each reply through `struct rpc_handler`. Channels block only where a function
 * says so, are not shared between threads, and must not be used after a fork.
 *
 * Bulk data is the one long opaque of a message: WRITE's and READ's data. The channel moves it from
 * and to the owner's memory, which must stay valid and unchanged until the reply has arrived or the
 * channel is closed. close() ends all access to it, also by a device.
 */
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "stats/counters.h"
#include "terms/terms.h"
#include "wire/reply.h"
#include "wire/xdr.h"

struct rpc_address {
	struct sockaddr_storage remote;
	socklen_t remote_length;
	struct sockaddr_storage local; /* ss_family AF_UNSPEC: the system's choice; no port */
	bool reserved_port;	       /* try source ports below 1024 first, then any other */
};

static inline void rpc_set_port(struct sockaddr_storage *address, uint16_t port)
{
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)address)->sin_port = htons(port);
}

/* "address:port" or "[address]:port", or "?" if it is no internet address. */
void rpc_address_text(const struct sockaddr *address, char *text, size_t size);

/* False: TCP sockets cannot connect from this address: it is not this machine's, or a broadcast or
 * multicast address, or the unspecified one, which bind(2) takes and connect(2) replaces. Sends
 * nothing. */
bool rpc_address_is_ours(const struct sockaddr_storage *local);

/* False: this machine has no address to connect to that one from. Sends nothing. */
bool rpc_address_has_source(const struct sockaddr_storage *remote);

/* Reads a literal address and a port's number. 0, or getaddrinfo(3)'s error, for gai_strerror(). */
int rpc_address_read(const char *host, const char *port, struct sockaddr_storage *address,
		     socklen_t *length);

/*
 * --- TLS (RFC 9289), where GnuTLS is present at build time (HAVE_TLS) ---
 *
 * Credentials are read from files once, and used by any number of channels of one thread. They must
 * not be used after a fork.
 */

/* GnuTLS's gnutls_certificate_credentials_t points to it. */
struct gnutls_certificate_credentials_st;

/* Reads the files of tls_ca= and, with xprtsec=mtls, of tls_cert= and tls_key=. 0, or a negative
 * errno with the reason in `why`, of RPC_WHY_MAX bytes. */
int tls_credentials_new(struct gnutls_certificate_credentials_st **credentials,
			const struct terms *terms, char *why);
void tls_credentials_free(struct gnutls_certificate_credentials_st *credentials);

/* True if this kernel has TLS. If root asks, the kernel loads its module, if there is one. */
bool ktls_there(void);

/* Shared by the channels of one path, in one thread; they write only `rekeyed`. */
struct tls_terms {
	struct gnutls_certificate_credentials_st *credentials; /* NULL: calls go in clear */
	enum tls_ktls ktls;
	bool rekeyed;	  /* a server changed a channel's keys: KTLS_AUTO now uses GnuTLS */
	bool mutual;	  /* the server must ask for the client's certificate */
	const char *name; /* name or address that the server's certificate must have */
	uint32_t program, version; /* of the probe and the NULL call */
};

/*
 * --- Kerberos, where its library and GnuTLS are present at build time (HAVE_GSS) ---
 *
 * Makes a mechanism of RPCSEC_GSS (wire/rpcsec_gss.h): 0 or -ENOMEM. `terms` outlive it; their
 * server_principal is never NULL.
 */
struct gss_mechanism;
int kerberos_new(struct gss_mechanism **mechanism, const struct terms *terms);

/* --- channels --- */

/*
 * Buffers that the TCP and TLS channels of a path share: of thousands of channels, few are in the
 * middle of a call or a reply. All 0 at first. rpc_loans_free() frees those that no channel has.
 * All these channels have one head_max, by which the buffers are sized.
 */
SLIST_HEAD(rpc_loans, stream_buffers);
void rpc_loans_free(struct rpc_loans *loans);

struct rdma_memory;

/* Where most bulk data lies: fio's buffers, and the copies that hold_writes keeps. */
enum { RPC_BUFFER_IO, RPC_BUFFER_HOLD, RPC_BUFFERS };

enum { RPC_WHY_MAX = 240 };

/* A channel's parameters. The owner keeps what they point to, which must outlive the channel. */
struct rpc_terms {
	struct rpc_address address;
	/*
	 * TCP: the local port, by which a server's reply cache recognizes a call that is sent
	 * again. open() tries it first, unless it is 0, and stores the one it got. May be NULL.
	 */
	uint16_t *source_port;
	/* RPC_WHY_MAX bytes for why a channel failed, if an errno is not enough. */
	char *why;
	const struct rpc_handler *handler;
	struct transport_counters *counters; /* the owner's, kept across reconnects */
	uint32_t reply_max; /* bytes: a longer reply fails the channel with -EMSGSIZE */
	/* TCP, TLS: the longest head of a reply, in bytes; 0: RPC_REPLY_HEAD_MAX. */
	uint32_t head_max;
	uint32_t calls_max;	 /* calls outstanding at once */
	bool stamps;		 /* TCP: rpc_channel's stamp is wanted */
	struct rpc_loans *loans; /* TCP, TLS */

	/* RDMA only */
	struct rdma_memory *memory; /* where bulk data lies: rdma_memory.h */
	uint32_t inline_max;	    /* bytes of the longest message sent or taken without chunks */

	struct tls_terms *tls; /* TLS only */
};

struct rpc_channel;

enum rpc_traits {
	RPC_MOVES_DATA = 1 << 0,   /* its devices move bulk data, from and to registered memory */
	RPC_SENDS_ONCE = 1 << 1,   /* to send a call again, another channel must be opened */
	RPC_SHAKES_HANDS = 1 << 2, /* connecting costs the server work, and takes longer */
	RPC_DROPS_DATA = 1 << 3,   /* bulk data may be discarded: rpc_bulk's `to` may be NULL */
};

struct rpc_channel_ops {
	const char *name; /* "tcp", "rdma": nfs(5), proto */
	uint32_t traits;  /* of enum rpc_traits */

	/* Begins to connect. Returns 0 with *channel set, or a negative errno without a channel. */
	int (*open)(struct rpc_channel **channel, const struct rpc_terms *terms);

	/*
	 * 0: connected, -EINPROGRESS: not yet, another negative errno: failed. -EKEYEXPIRED, also
	 * from receive(): the next channel is likely to succeed.
	 */
	int (*connected)(struct rpc_channel *channel);

	/* What to poll the channel's descriptor for: POLLIN, POLLOUT. */
	short (*poll_events)(const struct rpc_channel *channel);
	/* The same while it connects. NULL: both. */
	short (*connect_events)(const struct rpc_channel *channel);

	/*
	 * Gives room for one call's head, at least RPC_HEAD_MAX bytes. False: the channel cannot
	 * hold more unsent bytes (flush() first), or the server takes no more calls now (receive()
	 * first), or the channel is spent().
	 */
	bool (*begin)(struct rpc_channel *channel, struct xdr_out *head);

	/*
	 * Queues the call `xid`, whose head was written after begin(), with its bulk data. Returns
	 * the channel's position at the end of the call: once sent() reaches it the call was sent.
	 * 0: the data cannot be moved (why: logged, or in terms->why), and nothing is queued.
	 */
	uint64_t (*queue)(struct rpc_channel *channel, uint32_t xid, const struct xdr_out *head,
			  const struct rpc_payload *data);
	uint64_t (*sent)(const struct rpc_channel *channel);

	/* Sends what is queued as far as the transport takes it. 0, or a negative errno: failed. */
	int (*flush)(struct rpc_channel *channel);

	/*
	 * True if the channel takes no more calls, with the reason in terms->why: the owner closes
	 * it once all its calls are answered. NULL: never.
	 */
	bool (*spent)(const struct rpc_channel *channel);

	/*
	 * Handles what has arrived, by the handler's functions. With `wait` it blocks until
	 * something arrives, for 100 ms at most. 0, or a negative errno: failed (-ECONNRESET where
	 * the server closed the channel).
	 */
	int (*receive)(struct rpc_channel *channel, bool wait);

	/*
	 * Nanoseconds since the other host sent anything, even an acknowledgement; a live host
	 * is never silent for longer than 10 s. 0 if the transport itself breaks when the other
	 * host is gone.
	 */
	uint64_t (*unheard)(const struct rpc_channel *channel);

	/*
	 * The position that the other host has acknowledged, at most sent(): bytes beyond it are
	 * still on their way. sent() itself if the transport does not report this.
	 */
	uint64_t (*acknowledged)(const struct rpc_channel *channel);

	/* True in the middle of a reply. */
	bool (*receiving)(const struct rpc_channel *channel);

	/* The two ends as text, "address:port" or "[address]:port". */
	void (*names)(const struct rpc_channel *channel, char *local, char *remote, size_t size);

	/*
	 * Frees the channel; no handler function is called any more. Drops calls that have not
	 * reached the server, since they might be outdated if they came later. With `abort`, for a
	 * channel with calls outstanding, the next channel can use the port at once.
	 */
	void (*close)(struct rpc_channel *channel, bool abort);
};

struct rpc_channel {
	int fd;		   /* to poll, from open() until close() */
	uint32_t head_max; /* bytes: a reply's head may be this long, once connected */
	struct transport_counters *counters; /* the owner's */
	bool starved; /* the server has waited for this client: send a few calls at a time */
	/*
	 * CLOCK_REALTIME, nanoseconds: when the kernel got the bytes of receive(); 0: not known.
	 * A receive has one stamp, that of the last segment it took bytes from (man 7 socket,
	 * SO_TIMESTAMPNS; Linux, tcp_recvmsg_locked()). A waiting segment gets the stamp of the
	 * next one that is merged into it (tcp_try_coalesce()), so a reply may have arrived
	 * earlier than its stamp, never later.
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

/*
 * Tests whether a server listens there: connects by TCP, and closes. 0, or a negative errno:
 * connect(2)'s, -ETIMEDOUT after `timeout` nanoseconds, -EINTR if stop() returned true.
 */
int tcp_probe(const struct rpc_address *address, uint64_t timeout, bool (*stop)(void));
