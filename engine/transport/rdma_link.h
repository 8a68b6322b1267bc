/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rdma_link.h - a reliable connected queue pair to one server, made by librdmacm, with its
 * completion queue and one descriptor for the events of both. Nothing here blocks.
 *
 * The order is open, progress until RESOLVED, build, post Receives, connect, progress until
 * CONNECTED. Functions return 0 or a negative errno.
 */
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "transport/transport.h"
#include "wire/rpcrdma.h"

enum rdma_link_state {
	RDMA_LINK_RESOLVING, /* finding the device and route to the server */
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
	bool armed;		     /* the next completion will make an event */
	bool removed;		     /* the device is gone */
	struct rpcrdma_inline peers; /* valid once connected: RFC 8797 */
};

/* Begins to resolve. After an error there is nothing to close. */
int rdma_link_open(struct rdma_link *link, const struct rpc_address *address);

/* Takes the connection manager's events. An error: connecting failed, or the link was lost. */
int rdma_link_progress(struct rdma_link *link);

/* Makes the queues, for this many sends and receives of one segment each. */
int rdma_link_build(struct rdma_link *link, struct ibv_pd *pd, uint32_t sends, uint32_t receives);

/* Begins to connect, with our inline thresholds as private data. */
int rdma_link_connect(struct rdma_link *link, const struct rpcrdma_inline *mine);

/*
 * Makes poll_fd readable at the next completion. The caller then polls the queue once more, since
 * earlier completions cause no event.
 */
int rdma_link_arm(struct rdma_link *link);

/*
 * Destroys the queues, if there are any. Afterwards no device accesses memory for this link. The
 * device stays open.
 */
void rdma_link_stop(struct rdma_link *link);

/* Stops the link, and closes it. */
void rdma_link_close(struct rdma_link *link);
