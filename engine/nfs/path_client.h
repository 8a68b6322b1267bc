/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * path_client.h - an RPC client of a path's server, for I/O or for names, with its log and
 * security: AUTH_SYS or Kerberos (sec=), with a context per client, and TLS (xprtsec=).
 */
#pragma once

#include "client/client.h"
#include "nfs/path.h"

/* For clients whose `server` is a struct path. Logs most lines once per path, however many of its
 * clients report them. */
extern const struct client_log log_once;

/* A client for path_client_init(), before which the caller sets events, clock, counters, latency
 * and calls_max. */
struct rpc_client path_client(struct path *path);

/* client_init() and client_free(), with credentials; the latter ends context and channel first. */
int path_client_init(struct rpc_client *rpc);
void path_client_free(struct rpc_client *rpc);

/*
 * client_ready(), but tries up to five channels in a row if the next may succeed. Logs errors. No
 * answer for path_names_timeout(): -ETIMEDOUT; only refusals: the same, -EREMOTEIO before at_work.
 */
int path_client_ready(struct rpc_client *rpc);

/* Waits until the client is ready: 0, or a negative errno (-EINTR: the run was stopped), logged. */
int path_client_await(struct rpc_client *rpc);

/* --- security (path_credentials.c) --- */

/* Sets the user, the group and, with client_name=, the machine of client `number`; leaves the
 * other groups as they are. */
void path_client_ids(const struct path *path, uint32_t number, struct auth_sys_ids *ids);

/* Sets rpc->credentials: 0 or -ENOMEM. The caller has set server and counters. */
int path_credentials_open(struct rpc_client *rpc);
void path_credentials_close(struct rpc_client *rpc);

/* Bytes of the longest reply head; with krb5i and krb5p of a whole reply, to verify it first. */
uint32_t path_head_max(const struct path *path);

/* --- TLS (RFC 9289), where the path's xprtsec asks for it --- */

/* Reads the credentials: 0, or a negative errno with the reason logged. */
int path_tls_open(struct path *path);
void path_tls_close(struct path *path);

/* The path's transport over TCP: in clear, or TLS. */
const struct rpc_channel_ops *path_transport(const struct path *path);
