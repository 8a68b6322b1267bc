/* SPDX-License-Identifier: GPL-2.0-only */
#include "job_log.h"

#include <stdarg.h>
#include <stdio.h>

#include "fio.h"

enum { LINE = 1024 };

static __thread const char *job_name;

/* fio itself does so with its stdout alone. */
void job_log_begin(void)
{
	if (f_out) /* a fio --server --daemonize has none */
		setvbuf(f_out, NULL, _IOLBF, 0);
}

const char *job_log_name(const char *job)
{
	const char *before = job_name;

	job_name = job;
	return before;
}

/* One write: lines of several jobs do not mix. */
static void put_line(bool summary, const char *format, va_list args)
{
	char line[LINE];
	int used = job_name ? snprintf(line, LINE, "nfsmulti: %s: ", job_name)
			    : snprintf(line, LINE, "nfsmulti: ");

	if (used < LINE)
		vsnprintf(line + used, (size_t)(LINE - used), format, args);
	if (summary && output_format == FIO_OUTPUT_NORMAL)
		log_info("%s\n", line);
	else if (!summary && is_backend)
		log_err("%s\n", line);
	else
		fprintf(stderr, "%s\n", line);
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
