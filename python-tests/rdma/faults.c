/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * faults.c - an RDMA device with limits that the machine's own has not, for tests: to be loaded
 * before libibverbs and librdmacm (LD_PRELOAD), whose functions it stands before. The environment
 * says what happens:
 *
 *   RDMA_MAX_MR_SIZE=BYTES   the most that one registration may cover
 *   RDMA_NO_QUEUE_PAIR=1     there are none left
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
	int (*real)(struct ibv_context *, struct ibv_device_attr *) =
		dlsym(RTLD_NEXT, "ibv_query_device");
	const char *most = getenv("RDMA_MAX_MR_SIZE");
	int error = real(context, attributes);

	if (!error && most)
		attributes->max_mr_size = strtoull(most, NULL, 10);
	return error;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attributes)
{
	int (*real)(struct rdma_cm_id *, struct ibv_pd *, struct ibv_qp_init_attr *) =
		dlsym(RTLD_NEXT, "rdma_create_qp");

	if (!getenv("RDMA_NO_QUEUE_PAIR"))
		return real(id, pd, attributes);
	errno = ENOMEM;
	return -1;
}
