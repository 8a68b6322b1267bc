/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * path_credentials.h - who calls over a path, by sec=: AUTH_SYS, the same for all its clients, or
 * Kerberos, whose contexts are each client's own.
 */
#pragma once

#include "nfs/path.h"

/* 0 or -ENOMEM. `counters` are the client's. */
int path_credentials_open(struct path *path, struct security_counters *counters,
			  struct rpc_credentials **credentials);
void path_credentials_close(struct path *path, struct rpc_credentials *credentials);

/* Bytes of the longest head of a reply: the whole of it, where it is to be verified first. */
uint32_t path_head_max(const struct path *path);
