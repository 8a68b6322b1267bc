/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * plain_text.h - makes lines for people safe: names from a server, a pool, a KDC or a certificate
 * must not move the cursor, rename the window or reverse the text.
 */
#pragma once

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

enum { PLAIN_LINE = 1024, PLAIN_ROOM = 4 * PLAIN_LINE };

/* C0, DEL, C1, separators of lines, and marks and overrides of direction (Unicode, 23.2). */
static inline int plain_is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e ||
	       code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069);
}

/* Bytes of the UTF-8 character (RFC 3629) at `text`; 0: it must not be printed. */
static inline unsigned int plain_bytes(const unsigned char *text)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned int length = *text < 0x80   ? 1
			      : *text < 0xc0 ? 0
			      : *text < 0xe0 ? 2
			      : *text < 0xf0 ? 3
			      : *text < 0xf5 ? 4
					     : 0;
	uint32_t code = length > 1 ? *text & (0x7f >> length) : *text;

	for (unsigned int i = 1; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (text[i] & 0x3f);
	}
	if (!length || code < least[length] || code > 0x10ffff || (code >> 11) == 0x1b)
		return 0;
	return plain_is_control(code) ? 0 : length;
}

/* Copies a line of less than PLAIN_LINE bytes, with \xNN for each byte that may not be printed. */
static inline const char *plain_text(const char *line, char room[PLAIN_ROOM])
{
	const unsigned char *at = (const unsigned char *)line;
	char *out = room;

	while (*at) {
		unsigned int length = plain_bytes(at);

		if (!length)
			out += sprintf(out, "\\x%02x", *at++);
		while (length--)
			*out++ = (char)*at++;
	}
	*out = '\0';
	return room;
}

/* Prints a line as plain_text() makes it, and a newline. */
__attribute__((format(printf, 2, 3))) static inline void plain_print(FILE *out, const char *format,
								     ...)
{
	char line[PLAIN_LINE], room[PLAIN_ROOM];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(out, "%s\n", plain_text(line, room));
}
