/* SPDX-License-Identifier: GPL-2.0-only */
#include "failure.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "job_log.h"
#include "util.h"

const char *failure_remedy(enum io_op op, int error)
{
	switch (error) {
	case EFBIG: return ": the server takes no larger file: use a smaller size=";
	case EACCES:
	case EPERM:
		return op == IO_READ ? ": may this user read that file, over this export?"
				     : ": may this user write that file, over this export?";
	case ENOENT:
	case ESTALE:
	case EBADF:
		return ": the server does not know the file any more: was it removed, or the "
		       "export changed, during the run?";
	default: return errno_remedy(error);
	}
}

/* Whichever path is asked. */
static bool is_of_the_export(int error)
{
	return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EROFS ||
	       error == EACCES || error == EPERM;
}

/* And notes that it is told now. */
static bool was_told(struct job *job, const struct request *request)
{
	for (uint32_t i = 0; i < job->told_count; i++)
		if (job->told[i].error == request->error &&
		    (job->told[i].label == request->label || is_of_the_export(request->error)))
			return true;
	if (job->told_count == TOLD_MAX)
		return true;
	job->told[job->told_count].label = request->label;
	job->told[job->told_count++].error = request->error;
	return false;
}

void failure_say(struct job *job, const struct request *request)
{
	static const char *const names[] = {
		[IO_READ] = "READ", [IO_WRITE] = "WRITE", [IO_COMMIT] = "COMMIT"};
	const struct io_u *io_u = request->io_u;
	const char *status = request->status;

	if (request->told || was_told(job, request))
		return;
	job_log("%s: %s of \"%s\" at %" PRIu64 ": %s%s%s%s", request->label, names[request->op],
		io_u->file->file_name, (uint64_t)io_u->offset, strerror(request->error),
		status ? ": " : "", status ?: "", failure_remedy(request->op, request->error));
}
