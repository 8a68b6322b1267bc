/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tls_session.h - TLS 1.3 on a connected socket, by GnuTLS: credentials, a handshake, then data
 * both ways, unless the kernel takes over after the handshake.
 *
 * Only tls_session_read() waits, where `wait` says so. Ciphertext lies in two buffers of our own,
 * so that one system call moves many records. Functions return 0 or a count, or a negative errno:
 * -EAGAIN where nothing can be moved for now, any other where the session has failed, with `why`
 * filled where there is more to say.
 */
#pragma once

#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "transport/transport.h"

struct tls_credentials {
	gnutls_certificate_credentials_t x509;
};

/* Bytes in a buffer: at[from … to) are unused. */
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
	gnutls_typed_vdata_st wanted[2]; /* what GnuTLS, which keeps no copy, checks there */

	struct tls_bytes in, out; /* ciphertext */
	uint8_t *record;	  /* where the spans of one record are gathered */
	uint32_t taken;		  /* bytes of plaintext that became `out` */

	uint32_t in_most; /* bytes that the next receive takes at most */
	bool may_wait;	  /* the next receive may wait */
	bool may_receive; /* the next read may receive */
	bool ended;	  /* the server has closed the socket */
	bool closed;	  /* the server has ended the stream */
	bool mutual;	  /* tls_terms' */
	bool limited;	  /* the server takes no records of full length (RFC 8449) */
	bool in_kernel;	  /* the kernel has the keys, and moves all bytes */
	uint32_t ticket;  /* ktls_judge()'s */
	int failed;	  /* a negative errno */

	/* The kernel's records when last asked, and the moved bytes at which to ask again. */
	uint64_t records, ask_at;
};

/* The session is to be freed after an error, too. The arguments must outlive it. */
int tls_session_init(struct tls_session *session, const struct tls_terms *terms, int fd,
		     struct transport_counters *counters, char *why);
void tls_session_free(struct tls_session *session);

/* One step of the handshake. */
int tls_session_handshake(struct tls_session *session);

/*
 * Hands the session to the kernel, right after the handshake. 0: from here on the socket takes and
 * gives plaintext, and tls_session_write() and tls_session_read() are not used any more. -ENOTSUP,
 * with `why` filled, or -ENOTCONN (see ktls_begin()): all goes on as before. -EBUSY: likewise, and
 * there is something to read already. Another negative errno: the session has failed.
 */
int tls_session_to_kernel(struct tls_session *session);

/* Sends close_notify, if it can leave at once. */
void tls_session_bye(struct tls_session *session);

/*
 * Sends a batch of the spans' bytes. Returns their count once the socket has all their ciphertext;
 * after -EAGAIN the caller must pass the same bytes again.
 */
ssize_t tls_session_write(struct tls_session *session, const struct iovec *spans, int count);

/* Does ciphertext wait for the socket? */
bool tls_session_unsent(const struct tls_session *session);

/*
 * Receives into the spans; 0 at the end of the stream. With `may_receive` the first read that finds
 * nothing receives from the socket once; with `wait` it waits for WAIT_SLICE_MS at most.
 * Read on while tls_session_pending(): poll(2) does not see bytes that were received already.
 */
ssize_t tls_session_read(struct tls_session *session, const struct iovec *spans, int count,
			 bool wait);
bool tls_session_pending(const struct tls_session *session);

/* How far the session's keys are used up (RFC 8446, 5.5). */
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
 * Gives the socket the session's keys, both ways. All ciphertext must have left, and all that was
 * received must be decrypted. -ENOTSUP where the kernel does not take the keys, -ENOTCONN where the
 * server has closed already: the session goes on as before. Another error ends the connection.
 */
int ktls_begin(int fd, gnutls_session_t session);

/*
 * Why a recv(2) has failed by `error`, negative. 0: the stream has ended; -EAGAIN: a record without
 * meaning for us; -EKEYEXPIRED: the server changed its keys (KeyUpdate), which the kernel cannot
 * follow; any other errno: the connection has failed, with `why` filled where there is more to say.
 * *ticket is this function's own, 0 at the beginning: bytes still to come of a session ticket,
 * which may take several records.
 */
int ktls_judge(int fd, int error, uint32_t *ticket, char *why);

/* Sends close_notify, if it can leave at once. */
void ktls_bye(int fd);

/* Records made with the keys of the direction that has more. */
uint64_t ktls_records(int fd, gnutls_session_t session);

/* --- tls_credentials.c: why TLS has failed and what to do, in `why` of RPC_WHY_MAX bytes --- */

/* The server ended TLS by an alert (RFC 8446, 6). */
void tls_why_alert(char *why, gnutls_alert_description_t alert);

/* The server's certificate was refused. Where it is for another name, its names are said. */
void tls_why_certificate(char *why, gnutls_session_t session);
