/* SPDX-License-Identifier: GPL-2.0-only */
#include "job_log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "fio.h"
#include "stats/json_line.h"
#include "stats/plain_text.h"

enum { KEPT_MAX = 32 };

static __thread const char *job_name;

/* What job_log_write() writes; `out` NULL: nothing is kept. */
static __thread struct {
	FILE *out;
	char *text;
	size_t size;
	uint32_t job_number, lines;
} kept;

static void drop_kept(void)
{
	if (kept.out)
		fclose(kept.out);
	free(kept.text);
	memset(&kept, 0, sizeof(kept));
}

void job_log_keep(uint32_t job_number)
{
	drop_kept();
	kept.out = open_memstream(&kept.text, &kept.size);
	kept.job_number = job_number;
}

static void keep(const char *line)
{
	const struct line_job job = {job_name ?: "", kept.job_number};

	if (!kept.out || kept.lines++ >= KEPT_MAX)
		return;
	line_begin(kept.out, "message", &job);
	line_string(kept.out, "text", line);
	line_end(kept.out);
}

void job_log_write(FILE *out)
{
	if (!kept.out)
		return;
	fflush(kept.out);
	fwrite(kept.text, 1, kept.size, out);
}

/* fio itself makes only stdout line-buffered. */
void job_log_begin(void)
{
	if (f_out) /* a fio --server --daemonize has none */
		setvbuf(f_out, NULL, _IOLBF, 0);
}

const char *job_log_name(const char *job)
{
	const char *before = job_name;

	job_name = job;
	if (!job)
		drop_kept();
	return before;
}

/* Writes the line by one call, so that lines of several jobs do not mix. */
static void put_line(bool summary, const char *format, va_list args)
{
	char line[PLAIN_LINE], room[PLAIN_ROOM];
	int used = job_name ? snprintf(line, sizeof(line), "nfsmulti: %s: ", job_name)
			    : snprintf(line, sizeof(line), "nfsmulti: ");

	if (used < PLAIN_LINE)
		vsnprintf(line + used, (size_t)(PLAIN_LINE - used), format, args);
	if (used < PLAIN_LINE && strncmp(line + used, "trace: ", strlen("trace: ")) != 0)
		keep(line + used);
	plain_text(line, room);
	if (summary && output_format == FIO_OUTPUT_NORMAL)
		log_info("%s\n", room);
	else if (!summary && is_backend)
		log_err("%s\n", room);
	else
		fprintf(stderr, "%s\n", room);
}

void job_log(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_line(false, format, args);
	va_end(args);
}

void job_log_summary(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_line(true, format, args);
	va_end(args);
}

int job_refuse(const char *what, const struct refusal *refusals, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!refusals[i].given)
			continue;
		job_log("%s%s", what, refusals[i].why);
		return -EINVAL;
	}
	return 0;
}

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

/* True for an error of the export, which is the same over each path. */
static bool is_of_the_export(int error)
{
	return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EROFS ||
	       error == EACCES || error == EPERM;
}

/* True where the reason was logged before, or there are too many; else records the reason. */
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
