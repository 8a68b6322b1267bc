/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rdma_memory.h - the memory of one job that RDMA devices may reach: registered once with each
 * device (in its protection domain), for all of the job's connections.
 *
 * Not shared between threads. A device's protection domain and its registrations stay until the
 * device is gone, or until rdma_memory_free(). The caller first closes all connections.
 */
#pragma once

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
 * Makes a job's memory. Most bulk data lies in buffers[RPC_BUFFERS]: the caller owns the array, and
 * fills it before rdma_device_describe(). Other data is registered by the page at its first use,
 * and must stay mapped until rdma_memory_free(). NULL: out of memory.
 */
struct rdma_memory *rdma_memory_new(const struct iovec *buffers, rdma_log log);
void rdma_memory_free(struct rdma_memory *memory);

/*
 * Finds or adds the job's device for `verbs`, and counts one more user; NULL with errno set.
 * `memory` owns the device. A user calls release() once its queue pair is destroyed. If any user
 * passed `gone` (a removed device), the last release() frees it, before librdmacm closes `verbs`.
 */
struct rdma_device *rdma_memory_device(struct rdma_memory *memory, struct ibv_context *verbs);
void rdma_device_release(struct rdma_device *device, bool gone);
struct ibv_pd *rdma_device_pd(const struct rdma_device *device);

/*
 * Registers the caller's own message buffers, which no peer reaches. NULL with errno set; only a
 * device's first refusal is logged. The caller calls ibv_dereg_mr().
 */
struct ibv_mr *rdma_device_register(struct rdma_device *device, void *at, size_t length);

/*
 * Names `length` bytes of bulk data at `at` by the device's keys, in as few segments as possible.
 * Returns the number of new registrations, or a negative errno: -EMSGSIZE, logged, where the bytes
 * lie in more regions than a chunk has segments; -ENOMEM; or a refusal, logged as above.
 */
int rdma_device_describe(struct rdma_device *device, const void *at, uint32_t length,
			 struct rpcrdma_chunk *chunk);
