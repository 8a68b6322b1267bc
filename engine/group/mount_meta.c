/* SPDX-License-Identifier: GPL-2.0-only */
#include "group/mount_meta.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "group/directory.h"
#include "group/path.h"
#include "nfs/meta_io.h"
#include "util.h"

/* --- what the kernel has --- */

/* What an operation takes of io_uring; one that is not listed cannot be had. */
static const struct {
	enum meta_op op;
	enum io_uring_op opcode;
	struct mount_need need;
} needs[] = {
	{META_GETATTR, IORING_OP_STATX, {"STATX", "5.6"}},
	{META_LOOKUP, IORING_OP_STATX, {"STATX", "5.6"}},
	{META_OPEN, IORING_OP_OPENAT, {"OPENAT", "5.6"}},
	{META_OPEN, IORING_OP_CLOSE, {"CLOSE", "5.6"}},
	{META_CREATE, IORING_OP_OPENAT, {"OPENAT", "5.6"}},
	{META_CREATE, IORING_OP_CLOSE, {"CLOSE", "5.6"}},
	{META_RENAME, IORING_OP_RENAMEAT, {"RENAMEAT", "5.11"}},
	{META_REMOVE, IORING_OP_UNLINKAT, {"UNLINKAT", "5.11"}},
	{META_RMDIR, IORING_OP_UNLINKAT, {"UNLINKAT", "5.11"}},
	{META_MKDIR, IORING_OP_MKDIRAT, {"MKDIRAT", "5.15"}},
	{META_SYMLINK, IORING_OP_SYMLINKAT, {"SYMLINKAT", "5.15"}},
	{META_LINK, IORING_OP_LINKAT, {"LINKAT", "5.15"}},
};

bool mount_meta_can(enum meta_op op, struct mount_need *need)
{
	struct io_uring_probe *probe = io_uring_get_probe();
	bool can = true;

	*need = (struct mount_need){NULL, NULL};
	for (size_t i = 0; can && i < ARRAY_SIZE(needs); i++) {
		if (needs[i].op != op)
			continue;
		*need = needs[i].need;
		can = !probe || io_uring_opcode_supported(probe, (int)needs[i].opcode);
	}
	io_uring_free_probe(probe);
	return can && need->operation;
}

/* --- directories --- */

/* entries_step; a mount has no handles. */
static int step(void *context, const char *name, bool make, struct nfs_handle *found)
{
	const int *mount = context;
	int fd = directory_find(*mount, name, make);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int mount_meta_open(int mount, const char *top, const struct entries_terms *terms,
		    struct entries **entries)
{
	return entries_open(entries, terms, 0, top, step, &mount);
}

/* --- calls --- */

int mount_calls_init(struct mount_calls *calls, uint32_t count)
{
	calls->all = calloc(count, sizeof(*calls->all));
	if (!calls->all)
		return -ENOMEM;
	calls->idle = NULL;
	for (uint32_t i = 0; i < count; i++) {
		calls->all[i].next = calls->idle;
		calls->idle = &calls->all[i];
	}
	return 0;
}

void mount_calls_free(struct mount_calls *calls)
{
	free(calls->all);
	calls->all = calls->idle = NULL;
}

void mount_meta_begin(struct mount_calls *calls, struct conn_io *io)
{
	io->meta->mount_call = calls->idle;
	calls->idle = io->meta->mount_call->next;
	io->meta->mount_call->fd = -1;
	io->meta->looks_up = false;
}

void mount_meta_unasked(struct conn_io *io)
{
	if (io->meta->mount_call->fd >= 0)
		close(io->meta->mount_call->fd);
}

void mount_meta_end(struct mount_calls *calls, struct conn_io *io)
{
	io->meta->mount_call->next = calls->idle;
	calls->idle = io->meta->mount_call;
	io->meta->mount_call = NULL;
}

/* --- asking --- */

static const struct entries *entries_of(const struct conn_io *io)
{
	return io->conn->path->files[io->file].entries;
}

/* As old as the mount's options let attributes be: what applications get. */
static void prepare_stat(struct io_uring_sqe *sqe, int directory, const char *name)
{
	static struct statx ignored; /* of all I/Os: nobody reads it */

	io_uring_prep_statx(sqe, directory, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &ignored);
}

void mount_meta_prepare(struct io_uring_sqe *sqe, struct conn_io *io, int directory)
{
	enum { OPEN = O_CLOEXEC | O_NOFOLLOW };
	struct mount_call *call = io->meta->mount_call;

	if (call->fd >= 0) {
		io_uring_prep_close(sqe, call->fd);
		return;
	}
	io->meta->sends++;
	entries_path(entries_of(io), io->offset, io->meta->reversed, call->name);
	switch (io->meta->op) {
	case META_GETATTR:
	case META_LOOKUP: prepare_stat(sqe, directory, call->name); break;
	case META_OPEN: io_uring_prep_openat(sqe, directory, call->name, OPEN | O_RDONLY, 0); break;
	case META_CREATE:
		io_uring_prep_openat(sqe, directory, call->name, OPEN | O_CREAT | O_EXCL | O_WRONLY,
				     FILE_MODE);
		break;
	case META_MKDIR: io_uring_prep_mkdirat(sqe, directory, call->name, DIRECTORY_MODE); break;
	case META_SYMLINK:
		io_uring_prep_symlinkat(sqe, META_SYMLINK_TARGET, directory, call->name);
		break;
	case META_RENAME: /* what has the other name is replaced, as NFS's RENAME does it */
		entries_path(entries_of(io), io->offset, !io->meta->reversed, call->other);
		io_uring_prep_renameat(sqe, directory, call->name, directory, call->other, 0);
		break;
	case META_LINK:
		entries_path(entries_of(io), io->offset, true, call->other);
		io_uring_prep_linkat(sqe, directory, call->name, directory, call->other, 0);
		break;
	case META_REMOVE: io_uring_prep_unlinkat(sqe, directory, call->name, 0); break;
	case META_RMDIR: io_uring_prep_unlinkat(sqe, directory, call->name, AT_REMOVEDIR); break;
	case META_ACCESS:
	case META_FSINFO:
	case META_FSSTAT:
	case META_READDIR:
	case META_SETATTR: io_uring_prep_nop(sqe); break; /* never: mount_meta_can() refuses them */
	}
}

bool mount_meta_opens(const struct conn_io *io)
{
	return (io->meta->op == META_OPEN || io->meta->op == META_CREATE) &&
	       io->meta->mount_call->fd < 0;
}

/* --- answers --- */

static bool over(struct conn_io *io, int error)
{
	io->error = error;
	return true;
}

static bool opened(struct conn_io *io, int fd, bool last)
{
	if (last) {
		close(fd);
		return over(io, 0);
	}
	io->meta->mount_call->fd = fd;
	return false;
}

/* Linux lets a descriptor go whatever it answers, unless it has not come to it. */
static bool closed(struct conn_io *io, int result)
{
	if (result != -ECANCELED)
		return over(io, -result);
	close(io->meta->mount_call->fd);
	return over(io, 0);
}

/* An earlier copy may have been carried out: one that was interrupted, or went over NFS to a
 * server that is lost (failover). nfs/meta_call.h has the same for NFS. */
static bool refused(struct conn_io *io, int error)
{
	bool gone = error == ENOENT && meta_takes_other(io->meta->op);
	bool there = error == EEXIST && (meta_makes(io->meta->op) || io->meta->op == META_LINK);

	if (io->meta->sends > 1 && (gone || there))
		return over(io, 0);
	if (gone && !io->meta->reversed) {
		io->meta->reversed = true;
		io->meta->sends = 0;
		return false;
	}
	return over(io, error);
}

bool mount_meta_answered(struct conn_io *io, int result, bool last)
{
	if (io->meta->mount_call->fd >= 0)
		return closed(io, result);
	if (result >= 0)
		return mount_meta_opens(io) ? opened(io, result, last) : over(io, 0);
	if (last)
		return over(io, -result);
	if (result == -EAGAIN && io->meta->sends == 1) /* the kernel has not begun */
		io->meta->sends = 0;
	return result != -EAGAIN && result != -EINTR && refused(io, -result);
}
