/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include <inttypes.h>
#include <string.h>

#include "job_log.h"

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

/* Fails the sync, and logs why, if the server has lost bytes of the file after accepting them. */
static void report_loss(struct request *sync, struct path *path, uint32_t number)
{
	struct path_file *file = &path->files[number];
	uint64_t lost = ledger_take_lost(&file->ledger);

	if (!lost || file->removed)
		return;
	job_log("%s: %" PRIu64
		" bytes of \"%s\" may be lost: the server did not keep data that was "
		"not committed (its write verifier changed, or COMMIT failed)",
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
	/* fio ignores the result of a queued sync: so the engine fails the job. */
	if (sync->error)
		td_verror(job->td, sync->error, "fsync");
	return true;
}

/* --- hold_writes: held data is written again --- */

enum {
	/* Rounds in a row that lose data while no connection breaks: the server seems to change its
	 * verifier without a restart. */
	UNEXPLAINED_MAX = 3,
	ROUNDS_MAX = 16, /* rounds in all: a server that restarts in each makes no progress */
	WINDOW = 16,	 /* extents that are written again at once */
};

static struct path *path_of(const struct job *job, const struct hold_extent *extent)
{
	return job->used[extent->connection % job->group.path_count];
}

static void clear_ledgers(struct job *job)
{
	for (uint32_t i = 0; i < job->group.path_count; i++) {
		if (job->used[i]->config.dir) /* the kernel itself writes lost data again */
			continue;
		for (uint32_t file = 0; file < job->group.job.file_count; file++)
			ledger_clear(&job->used[i]->files[file].ledger);
	}
}

/* The reconnects so far. A server restart breaks connections: an unchanged sum shows no restart. */
static uint64_t reconnects(const struct job *job)
{
	uint64_t sum = 0;

	for_each_conn (&job->group, conn)
		sum += conn->counters.reconnects;
	return sum;
}

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
		job_log("%s: the server lost data that was not committed (its write verifier "
			"changed): writing %" PRIu64 " bytes again",
			replay->label, bytes);
}

/* Overlapping WRITEs go out one after the other, so that the server keeps their order. */
static bool overlaps_one_under_way(const struct job *job, const struct hold_extent *extent)
{
	for (uint64_t number = job->replay.oldest; number < job->replay.next; number++) {
		const struct hold_extent *other = hold_extent(&job->hold, number);

		if (other->under_way && other->offset < extent->offset + extent->length &&
		    extent->offset < other->offset + other->length &&
		    job_same_file(job, other->file, extent->file))
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

/* Sends the replay's WRITEs. True when all, or after an error all that were sent, are answered. */
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

static void end(struct job *job)
{
	job->hold.lost = false;
	job->replay.stage = REPLAY_NONE;
	job->replay.rounds = job->replay.unexplained = 0;
	job->replay.request.error = 0;
}

/* If a round has begun, counts held data as lost in the ledgers: the next sync, or the close,
 * reports the loss. Empties the hold. From now on the job writes nothing. */
static void give_up(struct job *job, int error)
{
	struct hold *hold = &job->hold;

	job->replay.broken = error;
	if (job->replay.rounds) {
		clear_ledgers(job);
		for_each_extent (hold, extent)
			if (!extent->settled)
				path_of(job, extent)->files[extent->file].ledger.lost +=
					extent->length;
	}
	for (uint32_t file = 0; file < job->group.job.file_count; file++)
		hold_forget(hold, file);
	end(job);
}

static void conclude(struct job *job)
{
	struct replay *replay = &job->replay;
	int error = replay->request.error;

	if (error) {
		replay->label = replay->request.label;
		job_log("%s: hold_writes: a WRITE or COMMIT failed: %s: the job writes no more",
			replay->label, strerror(error));
		give_up(job, error);
		return;
	}
	if (!job->hold.lost) {
		if (replay->rounds)
			job_log("%s: all held data is durable now", replay->label);
		end(job);
		return;
	}
	replay->unexplained = reconnects(job) == replay->reconnects ? replay->unexplained + 1 : 0;
	if (replay->unexplained < UNEXPLAINED_MAX && replay->rounds < ROUNDS_MAX) {
		begin_writes(job);
		return;
	}
	job_log("%s: the lost data was written again %u times, and the write verifier changed each "
		"time, the last %u times without a lost connection: the job writes no more",
		replay->label, replay->rounds, replay->unexplained);
	give_up(job, EIO);
}

static void begin_commits(struct job *job)
{
	hold_begin_commit(&job->hold);
	pieces_commit(job, &job->replay.request, 0, job->group.job.file_count);
	job->replay.request.held_only = true;
}

/* True where the next WRITE has no room in the hold, and no WRITE under way can make room. */
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

static void step(struct job *job)
{
	struct replay *replay = &job->replay;

	switch (replay->stage) {
	case REPLAY_NONE:
		if (replay->broken) {
			job->hold.lost = false; /* there is nothing to write again */
		} else if (job->hold.lost || replay->request.error) {
			replay->stage = REPLAY_DRAIN;
			replay->request.left = 0;
		} else {
			make_room(job);
		}
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
