/* SPDX-License-Identifier: GPL-2.0-only */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>

#include "fio.h"

enum { LINE = 1024 };

static __thread const char *job_name;

void say_job(const char *job)
{
	job_name = job;
}

static void compose(char line[LINE], const char *format, va_list args)
{
	int used = job_name ? snprintf(line, LINE, "nfsmulti: %s: ", job_name)
			    : snprintf(line, LINE, "nfsmulti: ");

	if (used < LINE)
		vsnprintf(line + used, (size_t)(LINE - used), format, args);
}

/* One write: lines of several jobs do not mix. */
static void put_line(const char *line)
{
	if (is_backend)
		log_err("%s\n", line);
	else
		fprintf(stderr, "%s\n", line);
}

void say(const char *format, ...)
{
	char line[LINE];
	va_list args;

	va_start(args, format);
	compose(line, format, args);
	va_end(args);
	put_line(line);
}

void say_summary(const char *format, ...)
{
	char line[LINE];
	va_list args;

	va_start(args, format);
	compose(line, format, args);
	va_end(args);
	if (!is_backend && output_format == FIO_OUTPUT_NORMAL)
		log_info("%s\n", line);
	else
		fprintf(stderr, "%s\n", line);
}
