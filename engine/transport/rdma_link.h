/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rdma_link.h - a reliable connected queue pair to one server, made by librdmacm, with its
 * completion queue and a descriptor to wait for both. What is sent over it is the caller's matter.
 *
 * Nothing waits for the server except rdma_link_wait(). The order is open, progress until RESOLVED,
 * build, post Receives, connect, progress until CONNECTED.
 */
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "transport/transport.h"
#include "wire/rpcrdma.h"

enum rdma_link_state {
	RDMA_LINK_RESOLVING, /* which device leads to the server, and how */
	RDMA_LINK_RESOLVED,  /* id->verbs is that device */
	RDMA_LINK_CONNECTING,
	RDMA_LINK_CONNECTED,
};

struct rdma_link {
	enum rdma_link_state state;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	int poll_fd;		     /* readable where either channel has an event */
	bool armed;		     /* the next completion makes an event */
	bool removed;		     /* the device is gone */
	struct rpcrdma_inline peers; /* valid once connected: RFC 8797 */
};

/* Begins to resolve. 0, or a negative errno and nothing to close. */
int rdma_link_open(struct rdma_link *link, const struct rpc_address *address);

/* Takes the connection manager's events. 0, or a negative errno: it has failed, or been lost. */
int rdma_link_progress(struct rdma_link *link);

/* Makes the queues, for so many sends and receives of one segment each. 0 or a negative errno. */
int rdma_link_build(struct rdma_link *link, struct ibv_pd *pd, uint32_t sends, uint32_t receives);

/* Begins to connect, with our inline thresholds as private data. 0 or a negative errno. */
int rdma_link_connect(struct rdma_link *link, const struct rpcrdma_inline *mine);

/*
 * Sees to it that poll_fd becomes readable with the next completion. The caller then polls the
 * queue once more: what came before makes no event. 0 or a negative errno.
 */
int rdma_link_arm(struct rdma_link *link);

/* Waits until poll_fd is readable, for a slice (wait.h) at the most. */
void rdma_link_wait(struct rdma_link *link);

/*
 * Destroys the queues: when this returns, no device touches memory on its behalf. The device stays
 * open. Also for a link that was never built.
 */
void rdma_link_stop(struct rdma_link *link);

/* Ends it, after rdma_link_stop() where the caller has not called that. */
void rdma_link_close(struct rdma_link *link);
