/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * preload.h - what tests' functions in C have before them, which stand before the C library's:
 * scripted_jobs.preloaded() includes it.
 */
#pragma once

#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <glob.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The function that one of the same name stands before. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static inline in_port_t port_of(int fd)
{
	struct sockaddr_in local = {0};

	getsockname(fd, (struct sockaddr *)&local, &(socklen_t){sizeof(local)});
	return ntohs(local.sin_port);
}

static inline int is_tcp(int fd)
{
	int protocol = 0;

	getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &(socklen_t){sizeof(protocol)});
	return protocol == IPPROTO_TCP;
}
