/* SPDX-License-Identifier: GPL-2.0-only */
#include "transport/tcp_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/address.h"
#include "util.h"
#include "wait.h"

int tcp_socket_connected(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
	const struct timeval wait = {.tv_usec = WAIT_SLICE_MS * 1000};
	socklen_t length = sizeof(int);
	int error = 0;

	if (poll(&poll_fd, 1, 0) <= 0) /* negative: a signal came first */
		return -EINPROGRESS;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length))
		return -errno;
	if (error)
		return -error;
	/* From here on blocking, with MSG_DONTWAIT where it must not: one system call less a reply.
	 */
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	return 0;
}

uint64_t tcp_socket_unheard(int fd)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length))
		return 0;
	return info.tcpi_last_ack_recv * MSEC;
}

uint64_t tcp_socket_unacknowledged(int fd)
{
	int bytes = 0;

	return ioctl(fd, SIOCOUTQ, &bytes) ? 0 : (uint64_t)bytes;
}

static void end_name(int fd, int (*which)(int, struct sockaddr *, socklen_t *), char *text,
		     size_t size)
{
	struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
	socklen_t length = sizeof(address);

	which(fd, (struct sockaddr *)&address, &length);
	rpc_address_text((const struct sockaddr *)&address, text, size);
}

void tcp_socket_names(int fd, char *local, char *remote, size_t size)
{
	end_name(fd, getsockname, local, size);
	end_name(fd, getpeername, remote, size);
}

void tcp_socket_close(int fd, bool at_once)
{
	const struct linger discard = {.l_onoff = 1, .l_linger = 0};

	if (at_once)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &discard, sizeof(discard));
	close(fd);
}
