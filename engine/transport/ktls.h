/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ktls.h - TLS 1.3 by the kernel (Linux, Documentation/networking/tls.rst): GnuTLS does the
 * handshake; from then on the socket itself encrypts and decrypts.
 *
 * Data is moved as in clear. Other records, such as alerts, make a plain recv(2) fail with EIO, and
 * ktls_judge() reads them. Functions return 0, or a negative errno.
 */
#pragma once

#include <gnutls/gnutls.h>
#include <stdint.h>

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
