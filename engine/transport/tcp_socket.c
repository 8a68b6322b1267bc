/* SPDX-License-Identifier: GPL-2.0-only */
#include "transport/stream.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "wait.h"

static void set(int fd, int level, int option, int value)
{
	setsockopt(fd, level, option, &value, sizeof(value));
}

/* Binds to address->local and `port`, where either is given (port 0: any). */
static int bind_to(int fd, const struct rpc_address *address, uint16_t port)
{
	struct sockaddr_storage local = address->local;

	if (local.ss_family == AF_UNSPEC && !port)
		return 0;
	if (local.ss_family == AF_UNSPEC)
		local.ss_family = address->remote.ss_family;
	if (port) /* a connection in TIME_WAIT may have it */
		set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	else /* connect() chooses it: connections to another server may have the same */
		set(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
	rpc_set_port(&local, port);
	return bind(fd, (struct sockaddr *)&local, address->remote_length);
}

/*
 * The kernel's autotuning opens the receive window to WIDE in some runs only; in the others the
 * window falls to zero, and READs of 64 KiB reach half their IOPS. SO_RCVLOWAT opens the window
 * from the start, as far as net.ipv4.tcp_rmem allows, and keeps autotuning (tcp_set_rcvlowat()),
 * which SO_RCVBUF would end. Must be called after the SYN: before it, older kernels cap the window
 * for good.
 */
static void widen_window(int fd)
{
	enum { WIDE = 1000000 }; /* bytes */

	set(fd, SOL_SOCKET, SO_RCVLOWAT, WIDE);
	set(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
}

/* A socket that connects from a port (0: any), or a negative errno. */
static int connect_from(const struct rpc_address *address, uint16_t port)
{
	enum { KEEPALIVE_S = 5 }; /* a live host is heard this often: transport.h's unheard() */
	const struct sockaddr *remote = (const struct sockaddr *)&address->remote;
	int fd = socket(remote->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

	if (fd < 0)
		return -errno;
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_S);
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_S);
	if (bind_to(fd, address, port)) {
		error = -errno;
	} else if (!connect(fd, remote, address->remote_length) || errno == EINPROGRESS) {
		widen_window(fd);
		return fd;
	} else {
		error = -errno;
		/* A connection to this server, in TIME_WAIT, may have the port. */
		if (error == -EADDRNOTAVAIL && rpc_address_has_source(&address->remote))
			error = -EADDRINUSE;
	}
	close(fd);
	return error;
}

/* --- reserved ports --- */

enum { PAIRS = 256, EXHAUSTED_S = 10, SECOND_BITS = 24 };

/*
 * Pairs of addresses between which no reserved port was free: each entry is a hash of the pair, and
 * in its low bits the second when this was found. Pairs with the same place overwrite each other.
 * The processes that fio forks share the table.
 */
static _Atomic uint64_t our_pairs[PAIRS], *exhausted = our_pairs;

__attribute__((constructor)) static void share_with_forks(void)
{
	void *shared = mmap(NULL, sizeof(our_pairs), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared != MAP_FAILED)
		exhausted = shared;
}

/* FNV-1a */
static uint64_t hash_of(const struct rpc_address *address)
{
	const uint8_t *ends[] = {(const void *)&address->local, (const void *)&address->remote};
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t end = 0; end < ARRAY_SIZE(ends); end++)
		for (socklen_t i = 0; i < address->remote_length; i++)
			hash = (hash ^ ends[end][i]) * 0x100000001b3;
	return hash >> SECOND_BITS;
}

/* Connects from a port of 512 to 1023, as bindresvport(3) does, for both families. */
static int connect_reserved(const struct rpc_address *address)
{
	enum { LOWEST = 512, PORTS = 512 };
	uint64_t now = clock_now(), hash = hash_of(address);
	uint64_t mark = hash << SECOND_BITS | (now / SEC & ((1u << SECOND_BITS) - 1));
	_Atomic uint64_t *found = &exhausted[hash % PAIRS];
	int fd = -EADDRINUSE;

	if (mark - *found < EXHAUSTED_S) /* none was free a few seconds ago */
		return fd;
	for (unsigned int i = 0; i < PORTS && fd == -EADDRINUSE; i++)
		fd = connect_from(address, LOWEST + (unsigned int)(now + i) % PORTS);
	if (fd == -EADDRINUSE)
		*found = mark;
	return fd;
}

int tcp_connect(const struct rpc_address *address, uint16_t *source_port)
{
	struct sockaddr_in6 local = {0}; /* IPv4 has its port in the same place */
	socklen_t length = sizeof(local);
	int fd = -EADDRNOTAVAIL;

	if (source_port && *source_port)
		fd = connect_from(address, *source_port);
	if (fd < 0 && address->reserved_port)
		fd = connect_reserved(address);
	if (fd < 0)
		fd = connect_from(address, 0);
	if (fd >= 0 && source_port) {
		getsockname(fd, (struct sockaddr *)&local, &length);
		*source_port = ntohs(local.sin6_port);
	}
	return fd;
}

int tcp_socket_connected(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
	const struct timeval wait = {.tv_usec = WAIT_SLICE_MS * 1000};
	socklen_t length = sizeof(int);
	int error = 0;

	if (poll(&poll_fd, 1, 0) <= 0) /* negative: interrupted by a signal */
		return -EINPROGRESS;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length))
		return -errno;
	if (error)
		return -error;
	/* A blocking socket, with MSG_DONTWAIT where needed, saves a system call per reply. */
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	return 0;
}

uint64_t tcp_socket_unheard(const struct rpc_channel *channel)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);

	if (getsockopt(channel->fd, IPPROTO_TCP, TCP_INFO, &info, &length))
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

void tcp_socket_names(const struct rpc_channel *channel, char *local, char *remote, size_t size)
{
	end_name(channel->fd, getsockname, local, size);
	end_name(channel->fd, getpeername, remote, size);
}

void tcp_socket_close(int fd, bool at_once)
{
	const struct linger discard = {.l_onoff = 1, .l_linger = 0};

	if (at_once)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &discard, sizeof(discard));
	close(fd);
}
