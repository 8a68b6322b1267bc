/* SPDX-License-Identifier: GPL-2.0-only */
#include "group/mount_ring.h"

#include <errno.h>
#include <stdlib.h>

#include "util.h"

enum { RING_MAX = 32768 }; /* io_uring's own limit of entries */

static const size_t BUFFER_MAX = 1ul << 30; /* of one registered region: io_uring_register(2) */

/*
 * Deferred task work is cheapest, but is done only when the ring itself is asked for completions:
 * one that is polled beside sockets would be waited for in vain.
 */
static int init_ring(struct mount_ring *ring, const struct conn_job *job)
{
	unsigned int entries = min_of(job->io_count, (uint32_t)RING_MAX);
	unsigned int deferred = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
				IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CLAMP;
	int error = -EINVAL;

	if (!job->polled)
		error = io_uring_queue_init(entries, &ring->ring, deferred);
	if (error == -EINVAL) /* polled, or a kernel before 6.1 */
		error = io_uring_queue_init(entries, &ring->ring, IORING_SETUP_CLAMP);
	return error;
}

static int make_ring(struct conn_job *job)
{
	struct mount_ring *ring = calloc(1, sizeof(*ring));
	int error = ring ? init_ring(ring, job) : -ENOMEM;

	if (error) {
		free(ring);
		return error;
	}
	job->ring = ring;
	TAILQ_INIT(&ring->waiting);
	ring->files_registered =
		!io_uring_register_files_sparse(&ring->ring, job->conn_count * job->file_count);
	return 0;
}

static void free_ring(struct conn_job *job)
{
	struct mount_ring *ring = job->ring;

	io_uring_queue_exit(&ring->ring);
	free(ring);
	job->ring = NULL;
}

int mount_ring_take(struct conn_job *job)
{
	int error = job->ring ? 0 : make_ring(job);
	struct mount_ring *ring = job->ring;

	if (!error)
		ring->users++;
	return error;
}

void mount_ring_leave(struct conn_job *job)
{
	struct mount_ring *ring = job->ring;

	if (!--ring->users)
		free_ring(job);
}

void mount_ring_register_buffers(struct conn_job *job)
{
	struct mount_ring *ring = job->ring;

	ring->buffers_tried = true;
	if (job->direct && job->buffers[RPC_BUFFER_IO].iov_len &&
	    job->buffers[RPC_BUFFER_IO].iov_len <= BUFFER_MAX)
		ring->buffers_registered = !io_uring_register_buffers(&ring->ring, job->buffers, 1);
}
