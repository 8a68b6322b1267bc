/* SPDX-License-Identifier: GPL-2.0-only */
/* scanner.c - the scanner of grammar.h, and its refusals. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar.h"

bool scanner_take(struct scanner *scanner, char character)
{
	if (scanner_done(scanner) || *scanner->at != character)
		return false;
	scanner->at++;
	return true;
}

bool scanner_take_word(struct scanner *scanner, const char *word)
{
	size_t length = strlen(word);

	if ((size_t)(scanner->end - scanner->at) < length || memcmp(scanner->at, word, length) != 0)
		return false;
	scanner->at += length;
	return true;
}

static struct span take_run(struct scanner *scanner, const char *set, bool wanted)
{
	struct span run = {scanner->at, scanner->at};

	while (run.end < scanner->end && (strchr(set, *run.end) != NULL) == wanted)
		run.end++;
	scanner->at = run.end;
	return run;
}

struct span scanner_while(struct scanner *scanner, const char *set)
{
	return take_run(scanner, set, true);
}

struct span scanner_until(struct scanner *scanner, const char *set)
{
	return take_run(scanner, set, false);
}

struct span scanner_component(struct scanner *scanner)
{
	scanner_while(scanner, "/");
	return scanner_until(scanner, "/");
}

bool scanner_number(struct scanner *scanner, uint32_t most, uint32_t *number)
{
	struct span digits = scanner_while(scanner, DIGITS);
	uint64_t value = 0;

	for (const char *digit = digits.at; digit < digits.end; digit++) {
		value = value * 10 + (uint64_t)(*digit - '0');
		if (value > most)
			return false;
	}
	*number = (uint32_t)value;
	return digits.at < digits.end;
}

static bool take_hexadecimal(struct scanner *scanner, unsigned int *value)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *digit;

	if (scanner_done(scanner))
		return false;
	digit = strchr(digits, *scanner->at);
	if (!digit)
		return false;
	scanner->at++;
	*value = *value << 4 | (unsigned int)((digit - digits) & 15);
	return true;
}

static int decode_character(struct scanner *raw, char *character)
{
	const char *at = raw->at;
	unsigned int value = 0;

	if (!scanner_take(raw, '%')) {
		*character = *raw->at++;
		return 0;
	}
	if (!take_hexadecimal(raw, &value) || !take_hexadecimal(raw, &value))
		return scanner_refuse(raw, at,
				      "'%%' needs two hexadecimal digits after it; "
				      "for the character '%%' itself write %%25");
	*character = (char)value;
	if (character_is_control(*character))
		return scanner_refuse(raw, at, "%%%02X is a control character: remove it", value);
	return 0;
}

int scanner_decode(const struct scanner *scanner, struct span span, char **decoded)
{
	struct scanner raw = scanner_within(scanner, span);
	char *out = calloc(1, span_length(span) + 1);
	int err = 0;

	*decoded = out;
	if (!out)
		return pool_no_memory(scanner->err);
	while (!err && !scanner_done(&raw))
		err = decode_character(&raw, out++);
	if (err) {
		free(*decoded);
		*decoded = NULL;
	}
	return err;
}

int pool_refuse(struct pool_error *err, size_t column, const char *reason, ...)
{
	va_list values;

	err->column = column;
	va_start(values, reason);
	vsnprintf(err->reason, sizeof(err->reason), reason, values);
	va_end(values);
	return -EINVAL;
}

int pool_no_memory(struct pool_error *err)
{
	pool_refuse(err, 0, "out of memory");
	return -ENOMEM;
}

const char *span_quote(struct span span, char quoted[QUOTED_MAX])
{
	static const char more[] = "...";
	size_t room = QUOTED_MAX - sizeof(more);
	size_t length = span_length(span);
	char *out = quoted;

	for (const char *in = span.at; in < span.end && (size_t)(out - quoted) < room; in++)
		*out++ = character_is_control(*in) ? '?' : *in;
	memcpy(out, length > room ? more : "", length > room ? sizeof(more) : 1);
	return quoted;
}
