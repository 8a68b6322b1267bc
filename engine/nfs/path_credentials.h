/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * path_credentials.h - who calls over a path, by sec=: AUTH_SYS, the same for all its clients, or
 * Kerberos, with a context for each client.
 */
#pragma once

#include "client/client.h"
#include "nfs/path.h"

/* Sets rpc->credentials: 0 or -ENOMEM. Its events and counters are there. */
int path_credentials_open(struct rpc_client *rpc);
void path_credentials_close(struct rpc_client *rpc);

/* Bytes of the longest head of a reply: the whole of it, where it is to be verified first. */
uint32_t path_head_max(const struct path *path);

/* --- TLS (RFC 9289), where its configuration says so (xprtsec) --- */

/* Reads the credentials: 0, or a negative errno with the reason logged. */
int path_tls_open(struct path *path);
void path_tls_close(struct path *path);

/* How its calls travel over TCP, in clear or not. */
const struct rpc_channel_ops *path_transport(const struct path *path);
