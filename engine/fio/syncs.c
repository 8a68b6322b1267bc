/* SPDX-License-Identifier: GPL-2.0-only */
#include "syncs.h"

#include <errno.h>
#include <inttypes.h>

#include "pieces.h"
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
