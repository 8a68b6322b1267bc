/* SPDX-License-Identifier: GPL-2.0-only */
#include "job_hold.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "job_io.h"
#include "say.h"
#include "util.h"

enum { ROUNDS_MAX = 3 }; /* then the server is thought never to tell the same verifier twice */

/* --- the hold --- */

static uint64_t memory_of_machine(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

int job_hold_open(struct job *job)
{
	const struct engine_options *eo = job->td->eo;
	uint64_t block = job->td->o.max_bs[DDIR_WRITE], size = eo->hold_writes;

	if (!size || !td_write(job->td))
		return 0;
	if (size < block) {
		say("hold_writes=%" PRIu64 ": a write of this job has up to %" PRIu64
		    " bytes: give at least these, and better those of many",
		    size, block);
		return -EINVAL;
	}
	if (job->stable != IO_UNSTABLE || path_all_mounts(job->used, job->group.path_count))
		return 0; /* nothing can be lost, or the kernel sees to it */
	if (size > memory_of_machine() || hold_init(&job->hold, size)) {
		say("hold_writes=%" PRIu64 ": there is not so much memory", size);
		return -ENOMEM;
	}
	job->group.job.hold = &job->hold;
	job->group.job.buffers[RPC_BUFFER_HOLD] = (struct iovec){job->hold.memory, job->hold.size};
	return 0;
}

bool job_hold_admits(struct job *job, uint32_t length)
{
	if (job_hold_busy(job))
		return false;
	job->mending.full = !hold_room(&job->hold, length);
	return !job->mending.full;
}

/* --- writing all of it again --- */

static struct path *path_of(const struct job *job, const struct hold_extent *extent)
{
	return job->used[extent->connection % job->group.path_count];
}

static void clear_ledgers(struct job *job)
{
	for (uint32_t i = 0; i < job->group.path_count; i++) {
		if (job->used[i]->config.dir) /* a mount's kernel keeps what it has for itself */
			continue;
		for (uint32_t file = 0; file < job->group.job.file_count; file++)
			ledger_clear(&job->used[i]->files[file].ledger);
	}
}

static uint64_t held_bytes(const struct hold *hold)
{
	uint64_t bytes = 0;

	for (uint64_t number = hold->first; number < hold->end; number++)
		if (!hold_extent(hold, number)->dropped)
			bytes += hold_extent(hold, number)->length;
	return bytes;
}

static void begin_writes(struct job *job)
{
	struct mending *mending = &job->mending;
	const struct hold_extent *oldest = hold_extent(&job->hold, job->hold.first);

	clear_ledgers(job);
	job->hold.lost = false;
	mending->label = path_of(job, oldest)->config.label;
	mending->stage = MENDING_WRITE;
	mending->next = job->hold.first;
	if (!mending->rounds++)
		say("%s: the server has lost what it had not committed (its write verifier "
		    "changed): "
		    "writing %" PRIu64 " bytes again",
		    mending->label, held_bytes(&job->hold));
}

/* What is written over an extent must not arrive before it. */
static bool overlaps_one_under_way(const struct mending *mending, const struct hold_extent *extent)
{
	for (uint32_t i = 0; i < mending->write_count; i++) {
		const struct hold_extent *other = mending->writes[i]->held;

		if (other->file == extent->file &&
		    other->offset < extent->offset + extent->length &&
		    extent->offset < other->offset + other->length)
			return true;
	}
	return false;
}

/*
 * The path that took it; group_submit() finds another where that is dead. What went through a
 * kernel mount goes over NFS: its buffer is not one that a mount could use.
 */
static uint32_t connection_for(const struct job *job, const struct hold_extent *extent)
{
	uint32_t connection = extent->connection;

	while (job->group.conns[connection]->path->config.dir)
		connection = (connection + 1) % job->group.job.conn_count;
	return connection;
}

static void write_again(struct job *job, struct hold_extent *extent, struct conn_io *io)
{
	struct mending *mending = &job->mending;

	hold_again(&job->hold, extent);
	io->op = IO_WRITE;
	io->stable = IO_UNSTABLE;
	io->file = extent->file;
	io->offset = extent->offset;
	io->length = extent->length;
	io->buffer = extent->data;
	io->done = 0;
	io->status = NULL;
	io->owner = NULL;
	io->held = extent;
	io->nfs_only = true;
	mending->under_way++;
	mending->writes[mending->write_count++] = io;
	group_submit(&job->group, connection_for(job, extent), io);
}

/* True when all are done. */
static bool write_all(struct job *job)
{
	struct mending *mending = &job->mending;

	mending->next = max_of(mending->next, job->hold.first);
	for (; mending->next < job->hold.end && !mending->error; mending->next++) {
		struct hold_extent *extent = hold_extent(&job->hold, mending->next);

		if (extent->dropped)
			continue;
		if (!job->idle.first || mending->write_count == ARRAY_SIZE(mending->writes) ||
		    overlaps_one_under_way(mending, extent))
			return false;
		write_again(job, extent, io_list_take(&job->idle));
	}
	return !mending->under_way;
}

/* --- committing it --- */

static void begin_commits(struct job *job)
{
	job->mending.stage = MENDING_COMMIT;
	job->mending.next = 0;
}

/* True when all are done. */
static bool commit_all(struct job *job)
{
	struct mending *mending = &job->mending;
	uint32_t files = job->group.job.file_count;

	for (; mending->next < (uint64_t)job->group.path_count * files; mending->next++) {
		uint32_t path = (uint32_t)(mending->next / files);
		uint32_t file = (uint32_t)(mending->next % files);
		const struct path_file *path_file = &job->used[path]->files[file];

		if (!path_file->ledger.held)
			continue;
		if (path_file->removed) {
			hold_forget(&job->hold, file);
			continue;
		}
		if (!job->idle.first)
			return false;
		mending->under_way++;
		job_commit_file(job, io_list_take(&job->idle), path, file, NULL);
	}
	return !mending->under_way;
}

/* --- the end --- */

static void end(struct job *job)
{
	job->hold.lost = false;
	job->mending.stage = MENDING_NOTHING;
	job->mending.full = false;
	job->mending.rounds = 0;
}

/* What is held is lost now: the next sync, or the close, tells of it. */
static void give_up(struct job *job, int error)
{
	struct hold *hold = &job->hold;

	job->mending.broken = error;
	if (job->mending.rounds) {
		clear_ledgers(job);
		for (uint64_t number = hold->first; number < hold->end; number++) {
			const struct hold_extent *extent = hold_extent(hold, number);

			if (!extent->settled)
				path_of(job, extent)->files[extent->file].ledger.lost +=
					extent->length;
		}
		for (uint32_t file = 0; file < job->group.job.file_count; file++)
			hold_forget(hold, file);
	}
	end(job);
}

static void conclude(struct job *job)
{
	struct mending *mending = &job->mending;

	if (mending->error) {
		say("%s: what is held is not durable, and cannot be made so: %s: no more is "
		    "written",
		    mending->label, strerror(mending->error));
		give_up(job, mending->error);
	} else if (!job->hold.lost) {
		if (mending->rounds)
			say("%s: all of it is durable now", mending->label);
		end(job);
	} else if (mending->rounds < ROUNDS_MAX) {
		begin_writes(job);
	} else {
		say("%s: the write verifier changed each of %u times that data was written again: "
		    "no more is written",
		    mending->label, mending->rounds);
		give_up(job, EIO);
	}
}

bool job_hold_mend(struct job *job)
{
	struct mending *mending = &job->mending;

	if (mending->stage == MENDING_NOTHING)
		mending->stage = MENDING_DRAIN;
	if (mending->stage == MENDING_DRAIN && !job->hold.under_way && !job->commits) {
		if (job->hold.lost)
			begin_writes(job);
		else
			begin_commits(job);
	}
	if (mending->stage == MENDING_WRITE && write_all(job)) {
		if (mending->error)
			conclude(job);
		else
			begin_commits(job);
	}
	if (mending->stage == MENDING_COMMIT && commit_all(job))
		conclude(job);
	return mending->stage == MENDING_NOTHING;
}

static void forget_write(struct mending *mending, const struct conn_io *io)
{
	uint32_t i = 0;

	while (mending->writes[i] != io)
		i++;
	mending->writes[i] = mending->writes[--mending->write_count];
}

void job_hold_took(struct job *job, struct conn_io *io)
{
	struct mending *mending = &job->mending;

	mending->under_way--;
	if (io->op == IO_WRITE) {
		forget_write(mending, io);
		io->conn->counters.rewritten_bytes += io->done;
	}
	if (io->error && !mending->error) {
		mending->error = io->error;
		mending->label = io->conn->path->config.label;
	}
	io_list_add(&job->idle, io);
}
