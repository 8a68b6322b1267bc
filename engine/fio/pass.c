/* SPDX-License-Identifier: GPL-2.0-only */
#include "pass.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "deadline.h"
#include "job_terms.h"
#include "nfs/meta_io.h"
#include "job_log.h"
#include "util.h"

enum { DEPTH_MAX = 1024 };

static const uint64_t TELL_EVERY = 10 * SEC;

static void free_ios(struct pass *pass)
{
	free(pass->ios);
	free(pass->metas);
	free(pass->commits);
}

static int allocate_ios(struct pass *pass)
{
	uint32_t count = pass->group.job.io_count;

	pass->ios = calloc(count, sizeof(*pass->ios));
	pass->metas = calloc(count, sizeof(*pass->metas));
	pass->commits = calloc(count, sizeof(*pass->commits));
	if (!pass->ios || !pass->metas || !pass->commits) {
		free_ios(pass);
		return -ENOMEM;
	}
	TAILQ_INIT(&pass->idle);
	for (uint32_t i = 0; i < count; i++) {
		pass->ios[i].meta = &pass->metas[i];
		pass->ios[i].commit = &pass->commits[i];
		TAILQ_INSERT_TAIL(&pass->idle, &pass->ios[i], link);
	}
	return 0;
}

int pass_open(struct pass *pass, struct path **paths, uint32_t path_count)
{
	struct group *group = &pass->group;
	int error;

	group->job = (struct conn_job){
		.io_count = min_of(pass->depth, (uint32_t)DEPTH_MAX),
		.file_count = 1,
		.writes = pass->writes,
		.failover = options_of(pass->td)->failover,
		.log = job_log,
	};
	error = allocate_ios(pass);
	if (error)
		return error;
	error = group_open(group, paths, path_count, 1, deadline_passed);
	if (!error && (error = group_open_file(group, 0, pass->name)))
		group_close(group);
	if (error)
		free_ios(pass);
	return error;
}

void pass_close(struct pass *pass)
{
	group_close_file(&pass->group, 0);
	group_close(&pass->group);
	free_ios(pass);
}

void pass_submit(struct pass *pass, struct conn_io *io)
{
	group_submit(&pass->group, pass->turn++ % pass->group.job.conn_count, io);
}

static void take_finished(struct pass *pass)
{
	struct conn_io *io;

	while ((io = io_list_take(&pass->group.job.finished))) {
		if (pass->goes_on && pass->goes_on(pass, io))
			continue;
		if (io->error && !pass->error) {
			pass->error = io->error;
			pass->status = io->status;
			pass->label = io->conn->path->config.label;
			pass->failed_at = io->offset;
		}
		pass->done++;
		TAILQ_INSERT_TAIL(&pass->idle, io, link);
	}
}

static void tell_progress(struct pass *pass)
{
	uint64_t now = pass->group.job.clock.now, span = now - pass->told_at;

	if (!pass->tells || now < pass->told_at + TELL_EVERY)
		return;
	job_log("entries of \"%s\": %" PRIu64 " %% done, %.0f entries/s", pass->name,
		100 * pass->done / (pass->end - pass->first),
		(double)(pass->done - pass->told) * (double)SEC / (double)span);
	pass->told = pass->done;
	pass->told_at = now;
}

static bool more(const struct pass *pass)
{
	return pass->next < pass->end && !pass->error;
}

int pass_run(struct pass *pass, pass_piece *begin, uint64_t first, uint64_t end)
{
	struct group *group = &pass->group;
	struct conn_io *io;

	pass->first = pass->next = first;
	pass->end = end;
	pass->done = pass->told = 0;
	pass->told_at = clock_now();
	while (more(pass) || group->job.outstanding) {
		while (more(pass) && (io = io_list_take(&pass->idle)))
			pass->next = begin(pass, io, pass->next);
		clock_read(&group->job.clock);
		group_flush(group);
		group_reap(group, true);
		if (deadline_told()) {
			pass->error = pass->error ?: EINTR;
			group_abort(group, EINTR);
		}
		take_finished(pass);
		tell_progress(pass);
	}
	return -pass->error;
}
