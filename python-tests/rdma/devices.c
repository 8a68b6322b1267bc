/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * devices.c - a job's memory on two RDMA devices, of which none is there: this file has what
 * libibverbs would have, and numbers protection domains in the order of their making. It prints
 * the domains that three connections get, one of them over the second device; the domains whose
 * keys name one buffer over these connections, and how many registrations that takes; the segments
 * of data in two registrations; the domains of the first two connections made anew, the first after
 * its device was removed; and the domains that end with the last connection of that device, and
 * with the job.
 */
#include "transport/rdma_memory.c"

#include <stdio.h>

enum { PAGE = 4096, DOMAINS = 4 };

/* --- two devices --- */

static struct ibv_context devices[2];
static struct ibv_pd domains[DOMAINS];
static uint32_t made;

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
	*attributes = (struct ibv_device_attr){.max_mr_size = 2 * PAGE};
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	domains[made] = (struct ibv_pd){.context = context, .handle = made + 1};
	return &domains[made++];
}

int ibv_dealloc_pd(struct ibv_pd *domain)
{
	printf(" %u", domain->handle);
	return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *domain, void *at, size_t length, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	mr->rkey = domain->handle;
	return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *domain, void *at, size_t length, uint64_t iova,
				unsigned int access)
{
	return ibv_reg_mr(domain, at, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return "device";
}

/* --- a job --- */

static void say(const char *format, ...)
{
	printf("%s", format);
}

int main(void)
{
	static _Alignas(PAGE) uint8_t data[4 * PAGE];
	static const struct iovec buffers[RPC_BUFFERS] = {{data, sizeof(data)}};
	struct rdma_memory *memory = rdma_memory_new(buffers, say);
	struct rdma_device *users[3];
	struct rpcrdma_chunk chunk;

	for (int i = 0; i < 3; i++) {
		users[i] = rdma_memory_device(memory, &devices[i % 2]);
		printf("%u ", rdma_device_pd(users[i])->handle);
	}
	for (int i = 0; i < 3; i++) {
		int registered = rdma_device_describe(users[i], data, PAGE, &chunk);

		printf("| %u by %d ", chunk.segments[0].handle, registered);
	}
	rdma_device_describe(users[0], data + PAGE, 2 * PAGE, &chunk);
	printf("| %u segments ", chunk.count);
	printf("|");
	for (int i = 0; i < 2; i++) {
		rdma_device_release(users[i], i == 0);
		users[i] = rdma_memory_device(memory, &devices[i]);
		printf(" %u", rdma_device_pd(users[i])->handle);
	}
	printf(" |");
	rdma_device_release(users[2], false);
	printf(" |");
	rdma_memory_free(memory);
	return 0;
}
