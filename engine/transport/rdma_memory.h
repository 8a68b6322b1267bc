/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rdma_memory.h - the memory of one job that RDMA devices may reach: registered once with each
 * device (its protection domain), whatever number of connections use it, and reconnect.
 *
 * Not shared between threads. A device's protection domain, and what is registered in it, stays
 * until the device is gone or rdma_memory_free(), which wants all connections closed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "transport/transport.h"
#include "wire/rpcrdma.h"

struct ibv_context;
struct ibv_mr;
struct ibv_pd;
struct rdma_device;
struct rdma_memory;

/* One line for people, without a newline. */
typedef void (*rdma_log)(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * A job's memory. Bulk data lies in buffers[RPC_BUFFERS], which stay the caller's and may be empty
 * until data is first described. What lies elsewhere is registered, by the page, when it is first
 * used, and must not be unmapped before rdma_memory_free(). NULL: no memory to be had.
 */
struct rdma_memory *rdma_memory_new(const struct iovec *buffers, rdma_log log);
void rdma_memory_free(struct rdma_memory *memory);

/*
 * The device as this job knows it, for one user more, or NULL with errno set. Belongs to the
 * memory. release() says that this user has no queue pair on it any more; of a device that is
 * `gone`, the last one's release() frees everything, before librdmacm closes it.
 */
struct rdma_device *rdma_memory_device(struct rdma_memory *memory, struct ibv_context *verbs);
void rdma_device_release(struct rdma_device *device, bool gone);
struct ibv_pd *rdma_device_pd(const struct rdma_device *device);

/*
 * Registers memory of the caller's own that no peer reaches: message buffers. NULL with errno set,
 * and the reason logged. To be given back by ibv_dereg_mr().
 */
struct ibv_mr *rdma_device_register(struct rdma_device *device, void *at, size_t length);

/*
 * Names `length` bytes of bulk data from `at` on by the device's keys, as few segments as there
 * are. Returns the number of registrations it took (none, after the first call), or a negative
 * errno with the reason logged: -ENOMEM and the like where the system refused one, -EMSGSIZE where
 * the bytes lie in more regions than a chunk has segments.
 */
int rdma_device_describe(struct rdma_device *device, const void *at, uint32_t length,
			 struct rpcrdma_chunk *chunk);
