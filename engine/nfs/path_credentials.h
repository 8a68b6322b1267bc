/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * path_credentials.h - a path's security: by sec= AUTH_SYS, one for all its clients, or Kerberos,
 * with a context for each client; by xprtsec= TLS.
 */
#pragma once

#include "client/client.h"
#include "nfs/path.h"

/* Sets rpc->credentials: 0 or -ENOMEM. The caller has set events and counters. */
int path_credentials_open(struct rpc_client *rpc);
void path_credentials_close(struct rpc_client *rpc);

/* Bytes of a reply's longest head; with krb5i and krb5p the whole reply, which is verified first.
 */
uint32_t path_head_max(const struct path *path);

/* --- TLS (RFC 9289), where its configuration says so (xprtsec) --- */

/* Reads the credentials: 0, or a negative errno with the reason logged. */
int path_tls_open(struct path *path);
void path_tls_close(struct path *path);

/* How its calls travel over TCP, in clear or not. */
const struct rpc_channel_ops *path_transport(const struct path *path);
