/* SPDX-License-Identifier: GPL-2.0-only */
#include "transport/rdma_link.h"

#include <fcntl.h>
#include <sys/epoll.h>

enum {
	RESOLVE_MS = 5000,
	RETRIES = 6,	/* of an unacknowledged message, as Linux's client */
	RNR_RETRIES = 0 /* the server posts a Receive for each credit that it grants */
};

/* Makes the descriptor non-blocking, and adds it to poll_fd, an epoll descriptor. */
static int watch(struct rdma_link *link, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) ||
	    epoll_ctl(link->poll_fd, EPOLL_CTL_ADD, fd, &event))
		return -errno;
	return 0;
}

int rdma_link_open(struct rdma_link *link, const struct rpc_address *address)
{
	struct sockaddr_storage remote = address->remote, local = address->local;
	bool bound = local.ss_family != AF_UNSPEC;
	int error;

	*link = (struct rdma_link){.poll_fd = epoll_create1(EPOLL_CLOEXEC)};
	if (link->poll_fd >= 0)
		link->events = rdma_create_event_channel();
	if (!link->events || rdma_create_id(link->events, &link->id, link, RDMA_PS_TCP) ||
	    rdma_resolve_addr(link->id, bound ? (struct sockaddr *)&local : NULL,
			      (struct sockaddr *)&remote, RESOLVE_MS))
		error = -errno;
	else
		error = watch(link, link->events->fd);
	if (error)
		rdma_link_close(link);
	return error;
}

int rdma_link_build(struct rdma_link *link, struct ibv_pd *pd, uint32_t sends, uint32_t receives)
{
	struct ibv_qp_init_attr attributes = {
		.cap =
			{
				.max_send_wr = sends,
				.max_recv_wr = receives,
				.max_send_sge = 1,
				.max_recv_sge = 1,
			},
		.qp_type = IBV_QPT_RC,
	};
	int error;

	link->completions = ibv_create_comp_channel(link->id->verbs);
	if (!link->completions)
		return -errno;
	error = watch(link, link->completions->fd);
	if (error)
		return error;
	link->cq =
		ibv_create_cq(link->id->verbs, (int)(sends + receives), NULL, link->completions, 0);
	if (!link->cq)
		return -errno;
	attributes.send_cq = attributes.recv_cq = link->cq;
	return rdma_create_qp(link->id, pd, &attributes) ? -errno : 0;
}

int rdma_link_connect(struct rdma_link *link, const struct rpcrdma_inline *mine)
{
	struct ibv_device_attr attributes;
	uint8_t private[RPCRDMA_PRIVATE_SIZE];
	struct rdma_conn_param terms = {
		.private_data = private,
		.private_data_len = sizeof(private),
		.responder_resources = 1,
		.initiator_depth = 0,
		.retry_count = RETRIES,
		.rnr_retry_count = RNR_RETRIES,
	};

	/* RDMA Reads that the server may have under way: servers refuse a connection with 0. */
	if (!ibv_query_device(link->id->verbs, &attributes))
		terms.responder_resources =
			(uint8_t)min_of(max_of(attributes.max_qp_rd_atom, 1), UINT8_MAX);
	rpcrdma_encode_private(private, mine);
	if (rdma_connect(link->id, &terms))
		return -errno;
	link->state = RDMA_LINK_CONNECTING;
	return 0;
}

/* --- the connection manager's events --- */

/* A status is a negative errno, librdmacm's -1, or a reason of the transport's own. */
static int errno_of(const struct rdma_cm_event *event, int otherwise)
{
	return event->status < -1 ? event->status : otherwise;
}

static int take_event(struct rdma_link *link, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *answer = &event->param.conn;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return rdma_resolve_route(link->id, RESOLVE_MS) ? -errno : 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED: link->state = RDMA_LINK_RESOLVED; return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		link->peers =
			rpcrdma_decode_private(answer->private_data, answer->private_data_len);
		link->state = RDMA_LINK_CONNECTED;
		return 0;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR: return errno_of(event, -EHOSTUNREACH);
	case RDMA_CM_EVENT_UNREACHABLE: return errno_of(event, -ENETUNREACH);
	case RDMA_CM_EVENT_REJECTED: return -ECONNREFUSED;
	case RDMA_CM_EVENT_CONNECT_ERROR: return errno_of(event, -ECONNABORTED);
	case RDMA_CM_EVENT_DISCONNECTED: return -ECONNRESET;
	case RDMA_CM_EVENT_DEVICE_REMOVAL: link->removed = true; return -ENODEV;
	default: return 0; /* ignored: such as a moved address, or the end of TIME_WAIT */
	}
}

int rdma_link_progress(struct rdma_link *link)
{
	struct rdma_cm_event *event;
	int error = 0;

	while (!error && !rdma_get_cm_event(link->events, &event)) {
		error = take_event(link, event);
		rdma_ack_cm_event(event);
	}
	if (!error && errno != EAGAIN)
		error = -errno;
	return error;
}

/* Drops events: ibv_poll_cq() finds the completions that they announce. */
int rdma_link_arm(struct rdma_link *link)
{
	struct ibv_cq *cq;
	void *context;
	unsigned int events = 0;

	while (!ibv_get_cq_event(link->completions, &cq, &context))
		events++;
	if (events) {
		ibv_ack_cq_events(link->cq, events);
		link->armed = false;
	}
	if (link->armed)
		return 0;
	link->armed = true;
	return -ibv_req_notify_cq(link->cq, 0);
}

void rdma_link_stop(struct rdma_link *link)
{
	if (link->state == RDMA_LINK_CONNECTED)
		rdma_disconnect(link->id);
	link->state = RDMA_LINK_RESOLVING;
	if (link->id && link->id->qp)
		rdma_destroy_qp(link->id);
	if (link->cq)
		ibv_destroy_cq(link->cq); /* waits for unacknowledged events: there are none */
	if (link->completions)
		ibv_destroy_comp_channel(link->completions);
	link->cq = NULL;
	link->completions = NULL;
}

void rdma_link_close(struct rdma_link *link)
{
	rdma_link_stop(link);
	if (link->id)
		rdma_destroy_id(link->id);
	if (link->events)
		rdma_destroy_event_channel(link->events);
	if (link->poll_fd >= 0)
		close(link->poll_fd);
	*link = (struct rdma_link){.poll_fd = -1};
}
