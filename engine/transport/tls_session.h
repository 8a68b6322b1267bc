/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tls_session.h - TLS 1.3 on a connected socket, by GnuTLS: credentials, a handshake, then data in
 * both directions, unless the kernel takes over after the handshake.
 *
 * Only tls_session_read() waits, where `wait` says so. Ciphertext lies in two buffers of our own,
 * so that one system call moves many records. Functions return 0 or a count, or a negative errno:
 * -EAGAIN if no data can be moved now, any other if the session has failed, with details in `why`,
 * if there are any.
 */
#pragma once

#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "transport/transport.h"

/* Bytes in a buffer: at[from … to) are still to be used. */
struct tls_bytes {
	uint8_t *at;
	uint32_t from, to;
};

struct tls_session {
	gnutls_session_t gnutls;
	int fd;
	struct transport_counters *counters;
	char *why; /* RPC_WHY_MAX bytes */

	struct in6_addr address;	 /* the server's certificate must have it */
	gnutls_typed_vdata_st wanted[2]; /* what GnuTLS checks in the certificate, without a copy */

	struct tls_bytes in, out; /* ciphertext */
	uint8_t *record;	  /* buffer for a record whose bytes lie in several spans */
	uint32_t taken;		  /* bytes of plaintext encrypted into `out` */

	uint32_t in_most; /* bytes that the next receive takes at most */
	bool may_wait;	  /* the next receive may wait */
	bool may_receive; /* the next read may receive */
	bool ended;	  /* recv(2) returned 0 */
	bool closed;	  /* the server has sent close_notify */
	bool mutual;	  /* the server must ask for the client's certificate */
	bool limited;	  /* the server has a lower record size limit (RFC 8449) */
	bool in_kernel;	  /* the kernel has the keys, and moves all bytes */
	uint32_t ticket;  /* ktls_judge()'s */
	int failed;	  /* a negative errno */

	/* The kernel's records when last asked, and the moved bytes at which to ask again. */
	uint64_t records, ask_at;
};

/* The caller frees the session, also after an error. The arguments must outlive it. */
int tls_session_init(struct tls_session *session, const struct tls_terms *terms, int fd,
		     struct transport_counters *counters, char *why);
void tls_session_free(struct tls_session *session);

/* One step of the handshake. */
int tls_session_handshake(struct tls_session *session);

/*
 * Hands the session to the kernel, right after the handshake. 0: the socket now sends and receives
 * plaintext, and tls_session_write() and tls_session_read() must not be used any more. -ENOTSUP,
 * with a reason in `why`, -ENOTCONN (see ktls_begin()), or -EBUSY (data was already received): the
 * session stays as it was. Another negative errno: the session has failed.
 */
int tls_session_to_kernel(struct tls_session *session);

/* Sends close_notify, if it can leave at once. */
void tls_session_bye(struct tls_session *session);

/*
 * Sends a batch of the spans' bytes. Returns their count once the socket has all their ciphertext;
 * after -EAGAIN the caller must pass the same bytes again.
 */
ssize_t tls_session_write(struct tls_session *session, const struct iovec *spans, int count);

/* True if ciphertext waits to be sent. */
bool tls_session_unsent(const struct tls_session *session);

/*
 * Receives into the spans; 0 at the end of the stream. With `may_receive` the first read without
 * buffered data receives from the socket once; with `wait` it waits for WAIT_SLICE_MS at most. Call
 * it again while tls_session_pending(): poll(2) does not report bytes received before.
 */
ssize_t tls_session_read(struct tls_session *session, const struct iovec *spans, int count,
			 bool wait);
bool tls_session_pending(const struct tls_session *session);

/* How much the session's keys may still be used (RFC 8446, 5.5). */
enum tls_wear {
	TLS_FRESH,
	TLS_WORN,    /* send no new call */
	TLS_USED_UP, /* send nothing */
};
enum tls_wear tls_session_wear(struct tls_session *session);

/* "AES-256-GCM" */
const char *tls_session_cipher(const struct tls_session *session);

/*
 * --- ktls.c: TLS 1.3 by the kernel (Linux, Documentation/networking/tls.rst) ---
 *
 * GnuTLS does the handshake; from then on the socket itself encrypts and decrypts. Data is sent
 * and received as without TLS. Other records, such as alerts, make a plain recv(2) fail with EIO,
 * and ktls_judge() reads them.
 */

/*
 * Gives the socket the session's keys for both directions. All ciphertext must be sent, and all
 * received data decrypted. -ENOTSUP: the kernel does not accept the keys; -ENOTCONN: the server has
 * closed; after these the session stays as it was. After another error it has failed.
 */
int ktls_begin(int fd, gnutls_session_t session);

/*
 * Finds why a recv(2) failed with `error`, negative. 0: the stream has ended; -EAGAIN: the record
 * can be ignored; -EKEYEXPIRED: the server changed its keys (KeyUpdate), which the kernel does not
 * support; any other errno: the connection has failed, with details in `why`, if there are any.
 * *ticket, 0 at first, is for this function alone: the bytes still missing of a session ticket,
 * which may fill several records.
 */
int ktls_judge(int fd, int error, uint32_t *ticket, char *why);

/* Sends close_notify, if it can leave at once. */
void ktls_bye(int fd);

/* Records so far in the direction that has more. */
uint64_t ktls_records(int fd, gnutls_session_t session);

/* --- tls_credentials.c: why TLS has failed and what to do, in `why` of RPC_WHY_MAX bytes --- */

/* The server ended TLS by an alert (RFC 8446, 6). */
void tls_why_alert(char *why, gnutls_alert_description_t alert);

/* We refused the server's certificate. Lists its names if it is for another host. */
void tls_why_certificate(char *why, gnutls_session_t session);
