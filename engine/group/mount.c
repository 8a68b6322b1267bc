/* SPDX-License-Identifier: GPL-2.0-only */
/* mount.c - a connection that is a kernel mount (or any directory), driven through io_uring. */
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "group/connection.h"
#include "group/path.h"
#include "util.h"

/* One ring serves all mounts of a job. The job's files and, with direct=1, fio's buffers are
 * registered with the ring; if the kernel refuses that, I/O works without. */
struct mount_ring {
	struct io_uring ring;
	unsigned int users;
	bool files_registered;
	bool buffers_tried, buffers_registered;
	struct io_list waiting; /* I/Os for which the ring has no room */
	uint32_t asked;		/* I/Os that the kernel has not completed */
	bool abandoned; /* the kernel may still have I/O that was given up: ignore completions */
};

enum {
	RING_MAX = 32768, /* io_uring's own limit of entries */
	SECTOR = 512,	  /* O_DIRECT's smallest alignment */
	CQES = 64,
	CANCEL_TRIES = 10, /* times 100 ms */
};

static const size_t BUFFER_MAX = 1ul << 30; /* of one registered region: io_uring_register(2) */

/* Deferred task work is cheapest, but runs only when the job asks the ring itself for completions:
 * a ring that epoll watches beside sockets would never become readable. */
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
	if (error)
		return error;
	TAILQ_INIT(&ring->waiting);
	ring->files_registered =
		!io_uring_register_files_sparse(&ring->ring, job->conn_count * job->file_count);
	return 0;
}

/* The first mount makes the ring: 0 or a negative errno. The last mount frees it. */
static int take_ring(struct conn_job *job)
{
	struct mount_ring *ring = job->ring ?: calloc(1, sizeof(*ring));
	int error = ring ? 0 : -ENOMEM;

	if (ring && !job->ring)
		error = init_ring(ring, job);
	if (error) {
		free(ring);
		return error;
	}
	job->ring = ring;
	ring->users++;
	return 0;
}

static void leave_ring(struct conn_job *job)
{
	if (--job->ring->users)
		return;
	io_uring_queue_exit(&job->ring->ring);
	free(job->ring);
	job->ring = NULL;
}

/* Registers fio's buffers once, at the first I/O: they are not known at open(). Direct I/O then
 * need not pin them each time; buffered I/O would only become slower. */
static void register_buffers(struct conn_job *job)
{
	struct mount_ring *ring = job->ring;

	ring->buffers_tried = true;
	if (job->direct && job->buffers[RPC_BUFFER_IO].iov_len &&
	    job->buffers[RPC_BUFFER_IO].iov_len <= BUFFER_MAX)
		ring->buffers_registered = !io_uring_register_buffers(&ring->ring, job->buffers, 1);
}

struct mount_conn {
	struct conn base;
	int *fds; /* per file; -1: not open */
	struct io_list sent;
};

static const uint8_t NO_VERIFIER[LEDGER_VERIFIER]; /* the kernel does not show the server's */

static struct mount_conn *mount_of(struct conn *conn)
{
	return container_of(conn, struct mount_conn, base);
}

/* --- submitting --- */

static void prepare(struct io_uring_sqe *sqe, struct conn_io *io)
{
	static const int sync_flags[] = {
		[IO_UNSTABLE] = 0, [IO_DATA_SYNC] = RWF_DSYNC, [IO_FILE_SYNC] = RWF_SYNC};
	static const int operations[][2] = {
		[IO_READ] = {IORING_OP_READ, IORING_OP_READ_FIXED},
		[IO_WRITE] = {IORING_OP_WRITE, IORING_OP_WRITE_FIXED},
	};
	const struct mount_ring *ring = io->conn->job->ring;
	int fd = mount_of(io->conn)->fds[io->file];

	if (ring->files_registered)
		fd = (int)(io->conn->number * io->conn->job->file_count + io->file);
	switch (io->op) {
	case IO_READ:
	case IO_WRITE:
		io_uring_prep_rw(operations[io->op][ring->buffers_registered], sqe, fd,
				 io->buffer + io->done, io->length - io->done,
				 io->offset + io->done);
		if (io->op == IO_WRITE)
			sqe->rw_flags = sync_flags[io->stable];
		break;
	case IO_COMMIT:
		io_uring_prep_fsync(sqe, fd, io->commit->data_only ? IORING_FSYNC_DATASYNC : 0);
		io->commit->covered = ledger_begin_commit(io->commit->ledger);
		break;
	case IO_META: io_uring_prep_nop(sqe); break; /* never: refused for kernel mounts */
	}
	if (ring->files_registered)
		sqe->flags |= IOSQE_FIXED_FILE;
	io_uring_sqe_set_data(sqe, io);
}

static bool put(struct mount_ring *ring, struct conn_io *io)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->ring);

	if (!sqe)
		return false;
	prepare(sqe, io);
	ring->asked++;
	io->last_sent = io->conn->job->clock.now;
	if (!io->sent)
		io->sent = io->last_sent;
	TAILQ_INSERT_TAIL(&mount_of(io->conn)->sent, io, link);
	return true;
}

/* A COMMIT that is not submitted covers nothing. */
static void finish(struct conn_io *io, int error)
{
	io->error = error;
	if (error && io->op == IO_COMMIT)
		ledger_fail_commit(io->commit->ledger, &io->commit->covered);
	conn_finish(io);
}

/* An abandoned ring takes no I/O: the kernel might use the buffer after its owner has it again. */
static void put_or_wait(struct mount_ring *ring, struct conn_io *io)
{
	if (ring->abandoned)
		finish(io, EINTR);
	else if (!TAILQ_EMPTY(&ring->waiting) || !put(ring, io))
		TAILQ_INSERT_TAIL(&ring->waiting, io, link);
}

static void mount_submit(struct conn *conn, struct conn_io *io)
{
	struct mount_ring *ring = conn->job->ring;

	if (!ring->buffers_tried)
		register_buffers(conn->job);
	conn_began(conn, io);
	put_or_wait(ring, io);
}

static void put_waiting(struct mount_ring *ring)
{
	struct conn_io *io;

	while (io_uring_sq_space_left(&ring->ring) && (io = io_list_take(&ring->waiting)))
		put(ring, io);
}

/* Submits the I/O of all mounts: they share the ring. */
static void mount_flush(struct conn *conn)
{
	struct mount_ring *ring = conn->job->ring;

	while (!ring->abandoned && io_uring_sq_ready(&ring->ring)) {
		conn->transport.syscalls++;
		if (io_uring_submit(&ring->ring) <= 0)
			return; /* -EAGAIN, -EBUSY: again after the next reap */
		put_waiting(ring);
	}
}

/* --- reaping --- */

static void moved_some(struct mount_ring *ring, struct conn_io *io, int moved)
{
	bool at_end;

	io->done += (uint32_t)moved;
	/* An O_DIRECT read cannot continue within a sector: it counts as at the end of file. */
	at_end = !moved || (io->conn->job->direct && io->done % SECTOR);
	if (io->done == io->length || (io->op == IO_READ && at_end))
		finish(io, 0);
	else if (!moved)
		finish(io, EIO); /* a write that wrote nothing */
	else
		put_or_wait(ring, io);
}

static void count(struct conn_io *io, int moved)
{
	struct counters *counters = &io->conn->counters;
	struct ledger *ledger = &io->conn->path->files[io->file].ledger;

	histogram_add(&io->conn->latency.rtt, io->conn->job->clock.now - io->last_sent);
	switch (io->op) {
	case IO_READ:
		counters->read_ops++;
		counters->read_bytes += (uint64_t)moved;
		break;
	case IO_WRITE:
		counters->write_ops++;
		counters->write_bytes += (uint64_t)moved;
		ledger_wrote(ledger, (uint64_t)moved, io->stable != IO_UNSTABLE, NO_VERIFIER);
		break;
	case IO_COMMIT:
		counters->commits++;
		ledger_end_commit(io->commit->ledger, &io->commit->covered, NO_VERIFIER);
		break;
	case IO_META: break;
	}
}

static void completed(struct mount_ring *ring, struct conn_io *io, int result)
{
	TAILQ_REMOVE(&mount_of(io->conn)->sent, io, link);
	ring->asked--;
	if (!ring->abandoned && (result == -EAGAIN || result == -EINTR)) {
		if (io->op == IO_COMMIT) {
			ledger_undo_commit(io->commit->ledger, &io->commit->covered);
			io->commit->covered = (struct ledger_commit){0};
		}
		put_or_wait(ring, io);
		return;
	}
	if (result < 0) {
		finish(io, -result);
		return;
	}
	count(io, result);
	if (io->op == IO_COMMIT)
		finish(io, 0);
	else
		moved_some(ring, io, result);
}

/* True where there were completions. */
static bool take_ready(struct conn_job *job, struct mount_ring *ring)
{
	struct io_uring_cqe *cqes[CQES];
	bool any = false;
	unsigned int ready;

	while ((ready = io_uring_peek_batch_cqe(&ring->ring, cqes, CQES))) {
		if (!any)
			clock_read(&job->clock);
		any = true;
		for (unsigned int i = 0; i < ready; i++)
			if (io_uring_cqe_get_data(cqes[i]))
				completed(ring, io_uring_cqe_get_data(cqes[i]), cqes[i]->res);
		io_uring_cq_advance(&ring->ring, ready);
	}
	return any;
}

static void wait_ready(struct conn *conn, struct mount_ring *ring)
{
	struct __kernel_timespec slice = {.tv_nsec = (long long)conn_job_slice(conn->job)};
	struct io_uring_cqe *cqe;

	conn->transport.syscalls++;
	io_uring_wait_cqe_timeout(&ring->ring, &cqe, &slice);
}

static void mount_reap(struct conn *conn, bool wait)
{
	struct mount_ring *ring = conn->job->ring;

	if (!ring->abandoned && take_ready(conn->job, ring))
		wait = false;
	if (wait)
		wait_ready(conn, ring);
	if (wait && !ring->abandoned)
		take_ready(conn->job, ring);
	put_waiting(ring);
	if (io_uring_sq_ready(&ring->ring))
		mount_flush(conn);
}

/* Asks the kernel to cancel everything, and waits at most a second for the completions. */
static void cancel_ring(struct conn *conn, struct mount_ring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->ring);

	if (sqe) {
		io_uring_prep_cancel(sqe, NULL, IORING_ASYNC_CANCEL_ANY);
		io_uring_sqe_set_data(sqe, NULL);
		io_uring_submit(&ring->ring);
	}
	for (int tries = 0; ring->asked && tries < CANCEL_TRIES; tries++) {
		wait_ready(conn, ring);
		take_ready(conn->job, ring);
	}
}

/*
 * The kernel cannot always cancel: threads on a hung hard mount stay in the kernel. The job is
 * about to end, so it abandons the ring, and ignores later completions: the I/Os are their owner's
 * again.
 */
static void mount_abort(struct conn *conn, int error)
{
	struct mount_ring *ring = conn->job->ring;
	bool first = !ring->abandoned;
	struct conn_io *io, *next;

	ring->abandoned = true;
	if (first && ring->asked)
		cancel_ring(conn, ring);
	while ((io = io_list_take(&mount_of(conn)->sent)))
		finish(io, error);
	for (io = TAILQ_FIRST(&ring->waiting); io; io = next) {
		next = TAILQ_NEXT(io, link);
		if (io->conn != conn)
			continue;
		TAILQ_REMOVE(&ring->waiting, io, link);
		finish(io, error);
	}
}

/* --- opening --- */

static int mount_open(struct conn **conn, struct path *path, struct conn_job *job, uint32_t number)
{
	static const uint32_t never_changes;
	struct mount_conn *mount = calloc(1, sizeof(*mount));
	int error = -ENOMEM;

	if (!mount)
		return error;
	mount->base = (struct conn){
		.ops = &conn_mount,
		.transport_name = "mount",
		.poll_epoch = &never_changes,
		.path = path,
		.job = job,
		.number = number,
	};
	TAILQ_INIT(&mount->sent);
	mount->fds = malloc(job->file_count * sizeof(*mount->fds));
	if (mount->fds)
		error = take_ring(job);
	if (error) {
		path_say(path, "cannot set up io_uring: %s%s", strerror(-error),
			 error == -EPERM ? " (see /proc/sys/kernel/io_uring_disabled)"
					 : errno_remedy(-error));
		free(mount->fds);
		free(mount);
		return error;
	}
	for (uint32_t i = 0; i < job->file_count; i++)
		mount->fds[i] = -1;
	*conn = &mount->base;
	return 0;
}

static void register_file(struct conn *conn, uint32_t file, int fd)
{
	struct mount_ring *ring = conn->job->ring;
	unsigned int index = conn->number * conn->job->file_count + file;

	if (ring->files_registered &&
	    io_uring_register_files_update(&ring->ring, index, &fd, 1) != 1 && fd >= 0)
		ring->files_registered = false;
}

static int mount_open_file(struct conn *conn, uint32_t file)
{
	const char *name = conn->path->files[file].name;
	int flags = conn->job->direct ? O_DIRECT : 0;
	int fd = directory_open_file(conn->path->directory, name, O_RDWR | flags);

	/* A job that only reads also works on a read-only mount or file. */
	if (!conn->job->writes && (fd == -EROFS || fd == -EACCES || fd == -EPERM))
		fd = directory_open_file(conn->path->directory, name, O_RDONLY | flags);
	if (fd < 0) {
		path_say(conn->path, "cannot open \"%s\": %s%s", name, strerror(-fd),
			 fd == -EINVAL && flags ? " (no O_DIRECT here: set direct=0)"
						: errno_remedy(-fd));
		return fd;
	}
	mount_of(conn)->fds[file] = fd;
	register_file(conn, file, fd);
	return 0;
}

static void mount_close_file(struct conn *conn, uint32_t file)
{
	int *fd = &mount_of(conn)->fds[file];

	if (*fd < 0)
		return;
	register_file(conn, file, -1);
	close(*fd);
	*fd = -1;
}

static int mount_poll_fd(const struct conn *conn)
{
	return conn->job->ring->ring.ring_fd;
}

static short mount_poll_events(const struct conn *conn)
{
	return POLLIN;
}

static void mount_names(const struct conn *conn, char *local, char *remote)
{
	snprintf(local, CONN_NAME, "-");
	snprintf(remote, CONN_NAME, "%s", conn->path->config.dir);
}

static void mount_close(struct conn *conn)
{
	struct mount_conn *mount = mount_of(conn);

	for (uint32_t i = 0; i < conn->job->file_count; i++)
		mount_close_file(conn, i);
	leave_ring(conn->job);
	free(mount->fds);
	free(mount);
}

/* The kernel has time-outs of its own. It does not report the server's health, or give I/O back. */
const struct conn_ops conn_mount = {
	.open = mount_open,
	.open_file = mount_open_file,
	.close_file = mount_close_file,
	.submit = mount_submit,
	.flush = mount_flush,
	.reap = mount_reap,
	.poll_fd = mount_poll_fd,
	.poll_events = mount_poll_events,
	.abort = mount_abort,
	.names = mount_names,
	.close = mount_close,
};
