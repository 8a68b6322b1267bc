/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session.h - one client's connection: bytes in, calls answered in the order of their arrival,
 * replies out. All replies to what has arrived together leave together.
 */
#ifndef NFS_SINK_SESSION_H
#define NFS_SINK_SESSION_H

#include "service.h"

struct session;

/* Takes over the socket, which does not block; NULL: no memory. */
struct session *session_open(int fd, const struct service *service);
void session_close(struct session *session);

int session_fd(const struct session *session);

/*
 * Serves what has arrived. 0: wait for more of it, -EAGAIN: wait until the client takes its
 * replies, another negative errno: close it (-ECONNRESET: the client is gone, -EPROTO: what it
 * says is not NFS).
 */
int session_serve(struct session *session);

#endif
