/* SPDX-License-Identifier: GPL-2.0-only */
/* path_tls.h - a path's calls over TLS (RFC 9289), where its configuration says so (xprtsec). */
#pragma once

#include "nfs/path.h"

/* Reads the credentials: 0, or a negative errno with the reason logged. */
int path_tls_open(struct path *path);
void path_tls_close(struct path *path);

/* How its calls travel over TCP, in clear or not. */
const struct rpc_channel_ops *path_transport(const struct path *path);
