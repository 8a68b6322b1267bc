/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mount_ring.h - the io_uring that serves all mounts of a job, with its files and, where fio's
 * buffers are known, its memory registered; both are done without where the kernel does not permit
 * them.
 */
#pragma once

#include <liburing.h>

#include "group/connection.h"

struct mount_ring {
	struct io_uring ring;
	unsigned int users;
	bool files_registered;
	bool buffers_tried, buffers_registered;
	struct io_list waiting; /* no room in the ring */
	uint32_t asked;		/* of the kernel, and not answered */
	bool abandoned; /* the kernel may have I/O that was given up: it is not listened to */
};

/* Makes the job's ring for the first mount: 0 or a negative errno. The last to leave frees it. */
int mount_ring_take(struct conn_job *job);
void mount_ring_leave(struct conn_job *job);

/*
 * fio's buffers are known after open(): registered when the first I/O goes out. Direct I/O then
 * need not pin them each time; the copy from and to a page cache would only become slower, by the
 * page. buffers_tried: that was done.
 */
void mount_ring_register_buffers(struct conn_job *job);
