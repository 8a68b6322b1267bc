/* SPDX-License-Identifier: GPL-2.0-only */
#include "syncs.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "job_log.h"
#include "pieces.h"

void syncs_write_begins(struct job *job, struct request *write)
{
	write->sequence = ++job->sequence;
	job->writes[write->file]++;
}

static bool waits_for(const struct request *sync, const struct request *write)
{
	return sync->sequence > write->sequence && write->file >= sync->file &&
	       write->file - sync->file < sync->file_count;
}

void syncs_write_ends(struct job *job, const struct request *write)
{
	struct request *sync, *next;

	job->writes[write->file]--;
	for (sync = TAILQ_FIRST(&job->syncs); sync; sync = next) {
		next = TAILQ_NEXT(sync, link);
		if (!waits_for(sync, write) || --sync->waits)
			continue;
		TAILQ_REMOVE(&job->syncs, sync, link);
		TAILQ_INSERT_TAIL(&job->pending[IO_COMMIT], sync, link);
	}
}

void syncs_begin(struct job *job, struct request *sync, uint32_t file, uint32_t count)
{
	pieces_commit(job, sync, file, count);
	sync->sequence = ++job->sequence;
	for (uint32_t i = 0; i < count; i++)
		sync->waits += job->writes[file + i];
	if (sync->waits)
		TAILQ_INSERT_HEAD(&job->syncs, sync, link);
	else
		TAILQ_INSERT_TAIL(&job->pending[IO_COMMIT], sync, link);
}

/* Bytes that a server lost after it had taken them are an error of the sync that finds it out. */
static void report_loss(struct request *sync, struct path *path, uint32_t number)
{
	struct path_file *file = &path->files[number];
	uint64_t lost = ledger_take_lost(&file->ledger);

	if (!lost || file->removed)
		return;
	job_log("%s: %" PRIu64
		" bytes of \"%s\" may be lost: the server did not keep what it had not "
		"committed (its write verifier changed, or COMMIT failed)",
		path->config.label, lost, file->name);
	if (!sync->error) {
		sync->error = EIO;
		sync->label = path->config.label;
		sync->told = true;
	}
}

bool syncs_end(struct job *job, struct request *sync)
{
	if (job->hold.lost && !sync->error) {
		sync->left = job->group.path_count * sync->file_count;
		TAILQ_INSERT_TAIL(&job->pending[IO_COMMIT], sync, link);
		return false;
	}
	for (uint32_t file = sync->file; file < sync->file + sync->file_count; file++)
		for (uint32_t i = 0; i < job->group.path_count; i++)
			report_loss(sync, job->used[i], file);
	/* fio does not look at the result of a sync that was queued: the job fails here. */
	if (sync->error)
		td_verror(job->td, sync->error, "fsync");
	return true;
}

/* --- held writes are written again --- */

enum {
	/* In a row: then the server is thought never to tell the same verifier twice. */
	UNEXPLAINED_MAX = 3,
	ROUNDS_MAX = 16, /* in all: a server that restarts each time does not get further either */
	WINDOW = 16,	 /* extents that are written again at once */
};

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

/* A server that restarts loses its connections. */
static uint64_t reconnects(const struct job *job)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < job->group.job.conn_count; i++)
		sum += job->group.conns[i]->counters.reconnects;
	return sum;
}

/* --- writing all of it again --- */

static void begin_writes(struct job *job)
{
	struct replay *replay = &job->replay;
	const struct hold_extent *oldest = hold_extent(&job->hold, job->hold.first);
	uint64_t bytes = hold_begin_replay(&job->hold);

	clear_ledgers(job);
	replay->stage = REPLAY_WRITE;
	replay->request = (struct request){.op = IO_WRITE};
	replay->oldest = replay->next = job->hold.first;
	replay->label = path_of(job, oldest)->config.label;
	replay->reconnects = reconnects(job);
	if (!replay->rounds++)
		job_log("%s: the server has lost what it had not committed (its write verifier "
			"changed): writing %" PRIu64 " bytes again",
			replay->label, bytes);
}

static bool overlap(const struct job *job, const struct hold_extent *a, const struct hold_extent *b)
{
	return a->offset < b->offset + b->length && b->offset < a->offset + a->length &&
	       job_same_file(job, a->file, b->file);
}

/* What is written over an extent must not arrive before it. */
static bool overlaps_one_under_way(const struct job *job, const struct hold_extent *extent)
{
	for (uint64_t number = job->replay.oldest; number < job->replay.next; number++) {
		const struct hold_extent *other = hold_extent(&job->hold, number);

		if (other->under_way && overlap(job, other, extent))
			return true;
	}
	return false;
}

static bool window_is_full(struct job *job)
{
	struct replay *replay = &job->replay;

	while (replay->oldest < replay->next && !hold_extent(&job->hold, replay->oldest)->under_way)
		replay->oldest++;
	return replay->next - replay->oldest >= WINDOW;
}

/* True when all are done. */
static bool write_all(struct job *job)
{
	struct replay *replay = &job->replay;

	for (; replay->next < job->hold.end && !replay->request.error; replay->next++) {
		struct hold_extent *extent = hold_extent(&job->hold, replay->next);

		if (extent->dropped)
			continue;
		if (TAILQ_EMPTY(&job->idle) || window_is_full(job) ||
		    overlaps_one_under_way(job, extent))
			return false;
		pieces_replay(job, &replay->request, extent);
	}
	return !replay->request.pieces;
}

/* --- the end --- */

static void end(struct job *job)
{
	job->hold.lost = false;
	job->replay.stage = REPLAY_NONE;
	job->replay.rounds = job->replay.unexplained = 0;
	job->replay.request.error = 0;
}

/*
 * What is held is lost now: the next sync, or the close, reports it. From now on the job is as one
 * without a hold: what is lost, its ledgers tell.
 */
static void give_up(struct job *job, int error)
{
	struct hold *hold = &job->hold;

	job->replay.broken = error;
	if (job->replay.rounds) {
		clear_ledgers(job);
		for (uint64_t number = hold->first; number < hold->end; number++) {
			const struct hold_extent *extent = hold_extent(hold, number);

			if (!extent->settled)
				path_of(job, extent)->files[extent->file].ledger.lost +=
					extent->length;
		}
	}
	for (uint32_t file = 0; file < job->group.job.file_count; file++)
		hold_forget(hold, file);
	end(job);
}

/* Something was lost again. False: to write it once more is in vain. */
static bool try_again(struct job *job)
{
	struct replay *replay = &job->replay;

	replay->unexplained = reconnects(job) == replay->reconnects ? replay->unexplained + 1 : 0;
	if (replay->unexplained == UNEXPLAINED_MAX || replay->rounds == ROUNDS_MAX)
		return false;
	begin_writes(job);
	return true;
}

static void conclude(struct job *job)
{
	struct replay *replay = &job->replay;
	int error = replay->request.error;

	if (error) {
		replay->label = replay->request.label;
		job_log("%s: what is held is not durable, and cannot be made so: %s: no more is "
			"written",
			replay->label, strerror(error));
		give_up(job, error);
	} else if (!job->hold.lost) {
		if (replay->rounds)
			job_log("%s: all of it is durable now", replay->label);
		end(job);
	} else if (!try_again(job)) {
		job_log("%s: the write verifier changed each of %u times that data was written "
			"again, the last %u without a lost connection: no more is written",
			replay->label, replay->rounds, replay->unexplained);
		give_up(job, EIO);
	}
}

/* --- stage by stage --- */

static void begin_commits(struct job *job)
{
	hold_begin_commit(&job->hold);
	pieces_commit(job, &job->replay.request, 0, job->group.job.file_count);
	job->replay.request.held_only = true;
}

/* The next WRITE finds no room, and no reply to another would make some. */
static bool is_stuck(const struct job *job)
{
	const struct request *write = TAILQ_FIRST(&job->pending[IO_WRITE]);

	return write && !job->hold.under_way && job->hold.uncovered && !pieces_room(job, write);
}

static void make_room(struct job *job)
{
	struct request *request = &job->replay.request;

	if (!request_busy(request) && (hold_half_uncovered(&job->hold) || is_stuck(job)))
		begin_commits(job);
	if (request->left)
		pieces_submit(job, request);
}

static void begin_drain(struct job *job)
{
	job->replay.stage = REPLAY_DRAIN;
	job->replay.request.left = 0;
}

static void step(struct job *job)
{
	struct replay *replay = &job->replay;

	switch (replay->stage) {
	case REPLAY_NONE:
		if (replay->broken)
			job->hold.lost = false; /* there is nothing to write again */
		else if (job->hold.lost || replay->request.error)
			begin_drain(job);
		else
			make_room(job);
		break;
	case REPLAY_DRAIN:
		if (job->hold.under_way || job->commits)
			break;
		if (replay->request.error)
			conclude(job);
		else
			begin_writes(job);
		break;
	case REPLAY_WRITE:
		if (!write_all(job))
			break;
		if (replay->request.error) {
			conclude(job);
			break;
		}
		replay->stage = REPLAY_COMMIT;
		begin_commits(job);
		break;
	case REPLAY_COMMIT:
		if (pieces_submit(job, &replay->request) && !replay->request.pieces)
			conclude(job);
		break;
	}
}

void replay_advance(struct job *job)
{
	unsigned int before;

	do {
		before = job->replay.stage;
		step(job);
	} while (job->replay.stage != before);
}
