/* SPDX-License-Identifier: GPL-2.0-only */
/* log_once.h - messages about a client: once for each path, however many clients notice it. */
#pragma once

#include "client/events.h"

/* For clients whose `server` is a struct path. */
extern const struct client_log log_once;

/* The client is given up: the server did not answer session set-up, */
void log_unanswered(struct rpc_client *rpc);

/* refused it again and again, */
void log_refused(struct rpc_client *rpc);

/* or the KDC did not answer, so that there is no Kerberos context. */
void log_no_context(struct rpc_client *rpc);
