/* SPDX-License-Identifier: GPL-2.0-only */
/* nfsmulti-rdma - connects to an NFS server over RDMA, and prints the server's limits. */
#include <inttypes.h>
#include <netdb.h>
#include <string.h>

#include "stats/plain_text.h"
#include "transport/rdma_link.h"
#include "wait.h"

static const char usage[] =
	"Usage: nfsmulti-rdma ADDRESS PORT\n"
	"\n"
	"Connects to a literal IPv4 or IPv6 ADDRESS and a PORT as the engine does, and prints\n"
	"the device, the server's inline thresholds (bytes, RFC 8797; 1024 where the server sends\n"
	"none) and the time that connecting took, as a line of JSON.\n"
	"\n"
	"Exit status: 0, 1 with the reason on standard error, or 2 for a wrong command line.\n";

enum { CONNECT_S = 10 };

/* Asks for the least: one Send and one Receive, each of RPCRDMA_INLINE_MIN bytes. */
static int begin_to_connect(struct rdma_link *link, struct ibv_pd **pd)
{
	const struct rpcrdma_inline mine = {RPCRDMA_INLINE_MIN, RPCRDMA_INLINE_MIN};

	*pd = ibv_alloc_pd(link->id->verbs);
	if (!*pd)
		return -errno;
	return rdma_link_build(link, *pd, 1, 1) ?: rdma_link_connect(link, &mine);
}

static int connect_link(struct rdma_link *link, struct ibv_pd **pd)
{
	struct pollfd poll_fd = {.fd = link->poll_fd, .events = POLLIN};
	struct patience patience = patience_begin(clock_now(), CONNECT_S * SEC);
	int waited = 0;

	while (!waited) {
		int error = rdma_link_progress(link);

		if (!error && link->state == RDMA_LINK_RESOLVED)
			error = begin_to_connect(link, pd);
		if (error || link->state == RDMA_LINK_CONNECTED)
			return error;
		waited = wait_part(&poll_fd, 1, WAIT_SLICE_MS, &patience, NULL);
	}
	return waited;
}

static int print_server(const char *host, const char *port)
{
	struct rpc_address address = {.local.ss_family = AF_UNSPEC};
	struct ibv_pd *pd = NULL;
	struct rdma_link link;
	uint64_t begin = clock_now();
	int error = rpc_address_read(host, port, &address.remote, &address.remote_length);

	if (error) {
		plain_print(stderr, "nfsmulti-rdma: %s %s: %s", host, port, gai_strerror(error));
		return 2;
	}
	error = rdma_link_open(&link, &address);
	if (!error) {
		error = connect_link(&link, &pd);
		if (!error)
			printf("{\"device\": \"%s\", \"inline_send\": %u, \"inline_receive\": %u, "
			       "\"microseconds\": %" PRIu64 "}\n",
			       ibv_get_device_name(link.id->verbs->device), link.peers.send,
			       link.peers.receive, (clock_now() - begin) / 1000);
		rdma_link_close(&link);
		if (pd)
			ibv_dealloc_pd(pd);
	}
	if (error)
		plain_print(stderr, "nfsmulti-rdma: %s port %s: %s", host, port, strerror(-error));
	return error ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--help")) {
		fputs(usage, stdout);
		return 0;
	}
	if (argc == 3 && *argv[1] != '-')
		return print_server(argv[1], argv[2]);
	fputs(usage, stderr);
	return 2;
}
