/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ktls.h - TLS 1.3 by the kernel (Linux, Documentation/networking/tls.rst): GnuTLS shakes hands,
 * and from then on the socket itself encrypts what it sends and decrypts what it receives.
 *
 * Data is moved as in clear. What else the server says, alerts and the like, no plain recv(2)
 * takes: it fails with EIO, and ktls_judge() reads that. Functions return 0, or a negative errno.
 */
#pragma once

#include <gnutls/gnutls.h>
#include <stdint.h>

/*
 * Gives the socket the session's keys, both ways. All that the session has encrypted must have
 * left, and all that it has received be decrypted. -ENOTSUP where the kernel does not take them,
 * and -ENOTCONN where the server has closed already: the session goes on as before. Any other error
 * is the connection's end.
 */
int ktls_begin(int fd, gnutls_session_t session);

/*
 * What a recv(2) means that has failed by `error`, negative. 0: nothing more comes; -EAGAIN: it was
 * nothing that matters; -EKEYEXPIRED: the server goes on with other keys (KeyUpdate), which the
 * kernel does not take; any other errno: the connection has failed, with `why` filled where there
 * is more to say. *ticket is this function's own, 0 at the beginning: the bytes that are still to
 * come of a session ticket, which may take several records.
 */
int ktls_judge(int fd, int error, uint32_t *ticket, char *why);

/* Says that nothing more is sent, as far as that goes out at once. */
void ktls_bye(int fd);

/* Records that the keys have served for, of the direction that has more. */
uint64_t ktls_records(int fd, gnutls_session_t session);
