/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * json_line.h - members of a JSON object that is one line of the stats file. No JSON library is
 * used: fio exports json_* functions of its own, with which a library's would clash.
 */
#pragma once

#include <inttypes.h>
#include <stdio.h>

/* A JSON string (RFC 8259, 7). Bytes over 0x7e become U+007F … U+00FF: any bytes are valid. */
static inline void line_string(FILE *out, const char *key, const char *text)
{
	fprintf(out, "\"%s\": \"", key);
	for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
		if (*at == '"' || *at == '\\')
			fprintf(out, "\\%c", *at);
		else if (*at < 0x20 || *at > 0x7e)
			fprintf(out, "\\u%04x", *at);
		else
			fputc(*at, out);
	}
	fputs("\", ", out);
}

static inline void line_number(FILE *out, const char *key, uint64_t value)
{
	fprintf(out, "\"%s\": %" PRIu64 ", ", key, value);
}

static inline double microseconds(uint64_t nanoseconds)
{
	return (double)nanoseconds / 1000.0;
}
