/* SPDX-License-Identifier: GPL-2.0-only */
#include "transport/rdma_memory.h"

#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

/* What one registration covers. */
struct region {
	const uint8_t *from, *to;
	struct ibv_mr *mr;
};

struct rdma_device {
	LIST_ENTRY(rdma_device) link; /* in memory->devices */
	struct rdma_memory *memory;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	uint32_t users;
	bool gone;
	bool explained;	     /* a failed registration was logged */
	uint64_t region_max; /* bytes that one registration may cover, whole pages */
	struct region *regions;
	uint32_t region_count;
};

struct rdma_memory {
	rdma_log log;
	const struct iovec *buffers; /* RPC_BUFFERS: where bulk data lies */
	LIST_HEAD(, rdma_device) devices;
};

struct rdma_memory *rdma_memory_new(const struct iovec *buffers, rdma_log log)
{
	struct rdma_memory *memory = calloc(1, sizeof(*memory));

	if (memory)
		*memory = (struct rdma_memory){.log = log, .buffers = buffers};
	return memory;
}

static void free_device(struct rdma_device *device)
{
	LIST_REMOVE(device, link);
	for (uint32_t i = 0; i < device->region_count; i++)
		ibv_dereg_mr(device->regions[i].mr);
	ibv_dealloc_pd(device->pd);
	free(device->regions);
	free(device);
}

void rdma_memory_free(struct rdma_memory *memory)
{
	if (!memory)
		return;
	while (!LIST_EMPTY(&memory->devices))
		free_device(LIST_FIRST(&memory->devices));
	free(memory);
}

/* --- devices --- */

static struct rdma_device *add_device(struct rdma_memory *memory, struct ibv_context *verbs)
{
	struct rdma_device *device = calloc(1, sizeof(*device));
	uint64_t page = sysconf(_SC_PAGESIZE), most = UINT64_MAX;
	struct ibv_device_attr attributes;

	if (!device)
		return NULL;
	/* Some providers report 0 for "no limit". */
	if (!ibv_query_device(verbs, &attributes) && attributes.max_mr_size)
		most = attributes.max_mr_size;
	device->pd = ibv_alloc_pd(verbs);
	if (!device->pd) {
		free(device);
		return NULL;
	}
	device->memory = memory;
	device->verbs = verbs;
	device->region_max = max_of(most & -page, page);
	LIST_INSERT_HEAD(&memory->devices, device, link);
	return device;
}

struct rdma_device *rdma_memory_device(struct rdma_memory *memory, struct ibv_context *verbs)
{
	struct rdma_device *device;

	LIST_FOREACH (device, &memory->devices, link)
		if (device->verbs == verbs && !device->gone)
			break;
	if (!device)
		device = add_device(memory, verbs);
	if (device)
		device->users++;
	return device;
}

void rdma_device_release(struct rdma_device *device, bool gone)
{
	device->users--;
	device->gone = device->gone || gone;
	if (device->gone && !device->users)
		free_device(device);
}

struct ibv_pd *rdma_device_pd(const struct rdma_device *device)
{
	return device->pd;
}

/* --- registration --- */

static void explain(struct rdma_device *device, size_t length, int error)
{
	struct rlimit locked = {0, 0};
	bool limited = error == ENOMEM || error == EPERM || error == EAGAIN;
	const char *name = ibv_get_device_name(device->verbs->device);

	if (device->explained)
		return;
	device->explained = true;
	getrlimit(RLIMIT_MEMLOCK, &locked);
	if (limited && locked.rlim_cur != RLIM_INFINITY)
		device->memory->log(
			"cannot register %zu KiB with %s: %s: this process may lock %llu KiB: "
			"raise ulimit -l (memlock in limits.conf)",
			length >> 10, name, strerror(error),
			(unsigned long long)locked.rlim_cur >> 10);
	else
		device->memory->log("cannot register %zu KiB with %s: %s", length >> 10, name,
				    strerror(error));
}

static struct ibv_mr *reg(struct rdma_device *device, const void *at, size_t length, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(device->pd, (void *)at, length, access);
	int error = errno;

	if (!mr) {
		explain(device, length, error);
		errno = error;
	}
	return mr;
}

struct ibv_mr *rdma_device_register(struct rdma_device *device, void *at, size_t length)
{
	return reg(device, at, length, IBV_ACCESS_LOCAL_WRITE);
}

/* Returns the job's buffer that contains this byte, or NULL. */
static const struct iovec *buffer_of(const struct rdma_device *device, const uint8_t *at)
{
	const struct iovec *buffers = device->memory->buffers;

	for (int i = 0; i < RPC_BUFFERS; i++) {
		const uint8_t *first = buffers[i].iov_base;

		if (at >= first && at < first + buffers[i].iov_len)
			return &buffers[i];
	}
	return NULL;
}

/*
 * Registers the bytes around `at`: in the job's buffers the slice of region_max bytes with `at`,
 * elsewhere the pages of this one I/O. The server writes READ data and reads WRITE data; it only
 * reads RPC_BUFFER_HOLD. 0 or a negative errno.
 */
static int add_region(struct rdma_device *device, const uint8_t *at, uint32_t length)
{
	const uintptr_t page = sysconf(_SC_PAGESIZE), end = (uintptr_t)at + length;
	const struct iovec *buffer = buffer_of(device, at);
	const int access =
		buffer == &device->memory->buffers[RPC_BUFFER_HOLD]
			? IBV_ACCESS_REMOTE_READ
			: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct region *grown =
		realloc(device->regions, (device->region_count + 1) * sizeof(*grown));
	struct region region = {at - (uintptr_t)at % page, at + length + -end % page, NULL};

	if (!grown)
		return -ENOMEM;
	device->regions = grown;
	if (buffer) {
		uint64_t offset = at - (const uint8_t *)buffer->iov_base;
		uint64_t before = offset % device->region_max;

		region.from = at - before;
		region.to = region.from +
			    min_of(device->region_max, buffer->iov_len - (offset - before));
	}
	region.mr = reg(device, region.from, region.to - region.from, access);
	if (!region.mr)
		return -errno;
	device->regions[device->region_count++] = region;
	return 0;
}

static const struct region *find_region(const struct rdma_device *device, const uint8_t *at)
{
	for (uint32_t i = 0; i < device->region_count; i++)
		if (at >= device->regions[i].from && at < device->regions[i].to)
			return &device->regions[i];
	return NULL;
}

int rdma_device_describe(struct rdma_device *device, const void *start, uint32_t length,
			 struct rpcrdma_chunk *chunk)
{
	const uint8_t *at = start;
	int registered = 0;

	chunk->count = 0;
	while (length) {
		const struct region *region = find_region(device, at);
		uint32_t part;

		if (!region) {
			int error = add_region(device, at, length);

			if (error)
				return error;
			registered++;
			continue;
		}
		if (chunk->count == RPCRDMA_SEGMENTS_MAX) {
			device->memory->log("the data of one call lies in more than %d regions of "
					    "registered memory",
					    RPCRDMA_SEGMENTS_MAX);
			return -EMSGSIZE;
		}
		part = (uint32_t)min_of((uint64_t)length, (uint64_t)(region->to - at));
		chunk->segments[chunk->count++] = (struct rpcrdma_segment){
			.handle = region->mr->rkey,
			.length = part,
			.offset = (uintptr_t)at,
		};
		at += part;
		length -= part;
	}
	return registered;
}
