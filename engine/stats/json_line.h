/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * json_line.h - writes a JSON object as one line of the stats file, with a comma after each member.
 * Uses no JSON library: its functions would clash with the json_* functions that fio exports.
 */
#pragma once

#include <inttypes.h>
#include <stdio.h>

/* A JSON string (RFC 8259, 7). Bytes over `last` become U+007F … U+00FF. */
static inline void json_string(FILE *out, const char *key, const char *text, unsigned char last)
{
	fprintf(out, "\"%s\": \"", key);
	for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
		if (*at == '"' || *at == '\\')
			fprintf(out, "\\%c", *at);
		else if (*at < 0x20 || *at > last)
			fprintf(out, "\\u%04x", *at);
		else
			fputc(*at, out);
	}
	fputc('"', out);
}

/* Any bytes are valid. */
static inline void line_string(FILE *out, const char *key, const char *text)
{
	json_string(out, key, text, 0x7e);
	fputs(", ", out);
}

static inline void line_number(FILE *out, const char *key, uint64_t value)
{
	fprintf(out, "\"%s\": %" PRIu64 ", ", key, value);
}

/* The job that a line belongs to: fio's name, and fio's number from 0. */
struct line_job {
	const char *name;
	uint32_t number;
};

/* `kind` NULL: the line is a connection's. */
static inline void line_begin(FILE *out, const char *kind, const struct line_job *job)
{
	fputc('{', out);
	if (kind)
		line_string(out, "kind", kind);
	line_string(out, "job", job->name);
	line_number(out, "job_number", job->number);
}

/* `out` is memory or a file, so that the last comma can be overwritten. */
static inline void line_end(FILE *out)
{
	fseek(out, -2, SEEK_CUR);
	fputs("}\n", out);
}

static inline double per_second(uint64_t count, uint64_t nanoseconds)
{
	return nanoseconds ? (double)count * 1e9 / (double)nanoseconds : 0;
}

static inline double microseconds(uint64_t nanoseconds)
{
	return (double)nanoseconds / 1000.0;
}
