/* SPDX-License-Identifier: GPL-2.0-only */
/* tls.h - what tls.c has of the kernel, and its words when TLS has failed. */
#pragma once

#include <gnutls/gnutls.h>

#include "transport/transport.h"

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
