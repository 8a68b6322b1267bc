/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tls_session.h - TLS 1.3 on a connected socket, by GnuTLS: a handshake, then bytes both ways,
 * which may be the kernel's to encrypt (ktls.h).
 *
 * Nothing waits but tls_session_read() where it is told to. Ciphertext lies in two buffers of our
 * own, so that one system call moves many records. Functions return 0 or a count, or a negative
 * errno: -EAGAIN where nothing can be moved for now, any other where the session has failed, with
 * `why` filled where there is more to say.
 */
#pragma once

#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "transport/tls.h"

struct transport_counters;

/* Bytes in a buffer: at[from … to) are yet to be used. */
struct tls_bytes {
	uint8_t *at;
	uint32_t from, to;
};

struct tls_session {
	gnutls_session_t gnutls;
	int fd;
	struct transport_counters *counters;
	char *why; /* RPC_WHY_MAX bytes */

	struct in6_addr address;	 /* that the server's certificate must have */
	gnutls_typed_vdata_st wanted[2]; /* of that certificate: GnuTLS keeps no copy */

	struct tls_bytes in, out; /* ciphertext */
	uint8_t *record;	  /* where the spans of one record are gathered */
	uint32_t taken;		  /* bytes that `out` stands for */

	uint32_t in_most; /* that the next receive takes */
	bool may_wait;	  /* the next receive may */
	bool may_receive; /* there may be one */
	bool ended;	  /* the other end has closed the socket */
	bool closed;	  /* it has said that nothing more comes */
	bool mutual;	  /* tls_terms' */
	bool limited;	  /* the other end takes records shorter than the longest (RFC 8449) */
	bool in_kernel;	  /* it has the keys, and moves all bytes */
	uint32_t ticket;  /* ktls_judge()'s */
	int failed;	  /* by an errno, negative */

	/* The kernel's records, and how many bytes its counters have when it is asked again. */
	uint64_t records, ask_at;
};

/* 0, or a negative errno: it is to be freed all the same. What it is given outlives it. */
int tls_session_init(struct tls_session *session, const struct tls_terms *terms, int fd,
		     struct transport_counters *counters, char *why);
void tls_session_free(struct tls_session *session);

/* One step of the handshake. */
int tls_session_handshake(struct tls_session *session);

/*
 * Hands the session to the kernel, right after the handshake. 0: the socket itself takes and gives
 * bytes in clear from here on, and tls_session_write() and tls_session_read() are not to be used.
 * -ENOTSUP, with `why` filled, and -ENOTCONN: they are, as ktls_begin() has it; -EBUSY: they are,
 * and there is something to read already. Another negative errno: it has failed.
 */
int tls_session_to_kernel(struct tls_session *session);

/* Says that nothing more is sent, as far as that goes out at once. */
void tls_session_bye(struct tls_session *session);

/*
 * Sends a batch of the spans' bytes. They count, and so are returned, when the socket has all of
 * the ciphertext that they became: until then the same bytes must be given again.
 */
ssize_t tls_session_write(struct tls_session *session, const struct iovec *spans, int count);

/* True where ciphertext waits for the socket. */
bool tls_session_unsent(const struct tls_session *session);

/*
 * Receives into the spans, 0 at the end of the stream. After tls_session_look() the socket is asked
 * once, by the first read that finds nothing; with `wait` that waits for WAIT_SLICE_MS at the most.
 * What it brought is to be read while tls_session_pending(): nobody else sees it.
 */
void tls_session_look(struct tls_session *session);
ssize_t tls_session_read(struct tls_session *session, const struct iovec *spans, int count,
			 bool wait);
bool tls_session_pending(const struct tls_session *session);

/* How long its keys have served (RFC 8446, 5.5). */
enum tls_wear {
	TLS_FRESH,
	TLS_WORN,    /* nothing new is to be asked by them */
	TLS_USED_UP, /* nothing is to be sent */
};
enum tls_wear tls_session_wear(struct tls_session *session);

/* "AES-256-GCM" */
const char *tls_session_cipher(const struct tls_session *session);
